/**
 * Renders Markdown line by line, so that a stream can be shown while it grows: headings, lists, quotes, rules, fences,
 * tables, and bold, italic, code and links. Everything else stays as written.
 */
import { highlightLine, languageOf, type CodeState } from "./highlight.ts";
import { tableLength, tableLines } from "./table.ts";
import { hanging, span, wrap, type Line, type Role, type Span } from "./line.ts";

/** The state between lines: the open fence and its code. */
export interface MarkdownState {
  readonly fence?: string;
  readonly code?: CodeState;
}

interface MarkdownLines {
  readonly lines: readonly Line[];
  readonly state: MarkdownState;
}

const FENCE = /^\s*(`{3,}|~{3,})\s*(.*)$/;
const HEADING = /^#{1,6}\s+(.*?)\s*#*\s*$/;
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const BULLET = /^(\s*)[-*+]\s+(?=\S)/;
const NUMBER = /^(\s*)(\d{1,9}[.)])\s+(?=\S)/;
const QUOTE = /^\s*>\s?/;
const CHECKBOX = /^\[([ xX])\]\s+/;
/** Wrapped code lines are indented further. */
const CODE_MARGIN = { first: [span("  ")], rest: [span("    ")] };
const MAX_RULE_CELLS = 40;
/** Longer lines are not parsed for marks, which bounds the search. */
const MAX_MARKED_CHARACTERS = 4_000;

/** Renders text; its last line may still grow. */
export function markdownLines(text: string, width: number, state: MarkdownState = {}): MarkdownLines {
  const lines: Line[] = [];
  let current = state;
  const sources = text.split("\n");
  for (let index = 0; index < sources.length; index++) {
    const rows = current.fence === undefined ? tableLength(sources, index) : 0;
    if (rows > 0) {
      lines.push(...tableLines(sources.slice(index, index + rows), width, inline));
      index += rows - 1;
      continue;
    }
    const source = sources[index] ?? "";
    const shown = markdownLine(source, width, current);
    lines.push(...shown.lines);
    current = shown.state;
  }
  return { lines, state: current };
}

/** Returns the state after a text without rendering it. */
export function markdownStateAfter(text: string, state: MarkdownState = {}): MarkdownState {
  let current = state;
  let codeStart = 0;
  for (const match of text.matchAll(/^[^\S\n]*(?:`{3,}|~{3,}).*$/gm)) {
    const next = fenceAfter(match[0], current);
    if (next === undefined) continue;
    current = next;
    codeStart = match.index + match[0].length + 1;
  }
  // Only the code of the open block matters for its next lines.
  for (const line of current.code === undefined ? [] : text.slice(codeStart).split("\n")) {
    if (current.code !== undefined) {
      current = { ...current, code: highlightLine(line, current.code).state };
    }
  }
  return current;
}

function markdownLine(source: string, width: number, state: MarkdownState): MarkdownLines {
  const after = fenceAfter(source, state);
  if (after !== undefined) {
    const [, , label = ""] = source.match(FENCE) ?? [];
    const lines = label === "" ? [] : wrap([span(label, "dim")], width);
    return { lines, state: after };
  }
  if (state.fence !== undefined) {
    const { spans, state: code } = highlightLine(source, state.code ?? { language: "" });
    return { lines: wrap(spans, width, CODE_MARGIN), state: { ...state, code } };
  }
  return { lines: prose(source, width), state };
}

/** Returns the state after a line that opens or closes a fence; undefined for any other line. */
function fenceAfter(source: string, { fence }: MarkdownState): MarkdownState | undefined {
  const [, mark, label = ""] = source.match(FENCE) ?? [];
  if (mark === undefined) return undefined;
  if (fence === undefined)
    return mark.startsWith("`") && label.includes("`") ? undefined : opened(mark, label);
  const closes = mark[0] === fence[0] && mark.length >= fence.length && label === "";
  return closes ? {} : undefined;
}

function opened(fence: string, label: string): MarkdownState {
  return { fence, code: { language: languageOf(label) } };
}

function prose(source: string, width: number): readonly Line[] {
  const [, heading] = source.match(HEADING) ?? [];
  if (heading !== undefined) return wrap(inline(heading, "heading"), width);
  if (RULE.test(source)) return [[span("─".repeat(Math.min(MAX_RULE_CELLS, width)), "dim")]];
  const [bullet, indent = ""] = source.match(BULLET) ?? [];
  if (bullet !== undefined) return listItem(source.slice(bullet.length), `${indent}• `, width);
  const [number, before = "", mark = ""] = source.match(NUMBER) ?? [];
  if (number !== undefined) return listItem(source.slice(number.length), `${before}${mark} `, width);
  const [quote] = source.match(QUOTE) ?? [];
  if (quote !== undefined) {
    const bar = [span("│ ", "dim")];
    return wrap(inline(source.slice(quote.length)), width, { first: bar, rest: bar });
  }
  const leading = source.length - source.trimStart().length;
  return wrap(
    inline(source.trim()),
    width,
    hanging(leading > 0 ? [span(" ".repeat(Math.min(leading, 8)))] : []),
  );
}

function listItem(text: string, mark: string, width: number): readonly Line[] {
  const [box, ticked] = text.match(CHECKBOX) ?? [];
  const sign = box === undefined ? "" : ticked === " " ? "☐ " : "☑ ";
  return wrap(inline(text.slice(box?.length ?? 0)), width, hanging([span(`${mark}${sign}`)]));
}

const INLINE = new RegExp(
  [
    String.raw`(?<ticks>\`+)(?<code>.+?)\k<ticks>(?!\`)`,
    String.raw`(?<![\w*])\*\*(?<bold>[^\s*](?:[^*]*[^\s*])?)\*\*(?!\w)`,
    String.raw`(?<![\w_])__(?<strong>[^\s_](?:[^_]*[^\s_])?)__(?!\w)`,
    String.raw`(?<![\w*])\*(?<italic>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])`,
    String.raw`(?<![\w_])_(?<emphasis>[^\s_](?:[^_]*[^\s_])?)_(?![\w_])`,
    String.raw`\[(?<label>[^\[\]]+)\]\((?<target>[^()\s]+)\)`,
  ].join("|"),
  "g",
);

function inline(text: string, role: Role = "plain"): readonly Span[] {
  if (text.length > MAX_MARKED_CHARACTERS) return [span(text, role)];
  const spans: Span[] = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) spans.push(span(text.slice(at, match.index), role));
    spans.push(...marked(match.groups ?? {}, role));
    at = match.index + match[0].length;
  }
  if (at < text.length) spans.push(span(text.slice(at), role));
  return spans;
}

function marked(groups: Readonly<Record<string, string | undefined>>, role: Role): readonly Span[] {
  const { code, bold, strong, italic, emphasis, label, target = "" } = groups;
  // CommonMark 6.1: one space on each side belongs to the backticks.
  if (code !== undefined) return [span(code.replace(/^ (.*\S.*) $/, "$1"), "code")];
  const heavy = bold ?? strong;
  if (heavy !== undefined) return [span(heavy, role === "heading" ? role : "strong")];
  const light = italic ?? emphasis;
  if (light !== undefined) return [span(light, role === "heading" ? role : "emphasis")];
  if (label === undefined) return [];
  // The target of a link is always visible.
  return label === target ? [span(target, "accent")] : [span(label, role), span(` (${target})`, "dim")];
}
