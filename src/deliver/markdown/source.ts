/** Markdown that a platform renders itself: its source, cut so that each part can be read alone. */
import { firstEndingAfter } from "./document.ts";

/** A fenced block of code in the source. */
export interface Fence {
  readonly start: number;
  readonly codeStart: number;
  readonly codeEnd: number;
  /** Behind the line that closes it; Infinity when none does. */
  readonly end: number;
  readonly opening: string;
  readonly closing: string;
}

const OPENING = /^((?:[ \t]*>)*[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}|~{3,})(.*)$/;
const CLOSING = /^(?:[ \t]*>)*[ \t]*(`{3,}|~{3,})[ \t]*$/;
const QUOTE = /^(?: {0,3}>)+ ?/;
const SIGNS = /\\.|`+|\*\*|__|~~/gs;
/** Of longer lines only the beginning is looked through for a fence. */
const MAX_FENCE_LENGTH = 300;
/** In longer paragraphs marks are not followed. */
const MAX_PARAGRAPH_LENGTH = 10_000;

/** Fences from the top. One that is never closed ends with the text, as CommonMark says. */
export function findFences(text: string): readonly Fence[] {
  const fences: Fence[] = [];
  let open: Fence | undefined;
  for (let at = 0; at < text.length;) {
    const feed = text.indexOf("\n", at);
    const lineEnd = feed < 0 ? text.length : feed;
    const line = text.slice(at, Math.min(lineEnd, at + MAX_FENCE_LENGTH));
    if (!open) open = fenceFrom(line, { start: at, codeStart: lineEnd + 1 });
    else if (CLOSING.exec(line)?.[1]?.startsWith(open.closing.replace(/^[>\s]+/, ""))) {
      fences.push({ ...open, codeEnd: at, end: lineEnd });
      open = undefined;
    }
    at = lineEnd + 1;
  }
  return open ? [...fences, open] : fences;
}

function fenceFrom(line: string, place: Pick<Fence, "start" | "codeStart">): Fence | undefined {
  const [whole, before = "", sign = "", info = ""] = OPENING.exec(line) ?? [];
  if (whole === undefined || (sign.startsWith("`") && info.includes("`"))) return undefined;
  // The sign of a list item is not told again; its width is.
  const indent = before.replace(/[^\s>]/g, " ");
  const lines = { opening: `${indent}${sign}${info}`, closing: `${indent}${sign}` };
  return { ...place, codeEnd: Infinity, end: Infinity, ...lines };
}

/**
 * What lies between two places. Fences, quotes, `**`, `__`, `~~` and code that begin before it are opened again, and
 * those that end behind it are closed. Single `*` and `_` are not: only a parser knows which of them mean anything.
 */
export function sourceBetween(
  text: string,
  fences: readonly Fence[],
  { from, to }: { readonly from: number; readonly to: number },
): string {
  const first = fences[firstEndingAfter(fences, from)];
  const last = fences[firstEndingAfter(fences, to)];
  const isInFirst = first !== undefined && first.codeStart <= from;
  const isInLast = last !== undefined && (last.codeStart < to || (to === text.length && last.start < to));
  const head = isInFirst ? `${first.opening}\n` : quoteAt(text, from) + marksAt(text, fences, from).join("");
  const body = text.slice(from, isInLast ? Math.min(to, last.codeEnd) : to).trimEnd();
  return head + body + (isInLast ? `\n${last.closing}` : marksAt(text, fences, to).toReversed().join(""));
}

/** A place that parts a line of a fence from its code is moved before or behind the fence's line. */
export function outsideFenceLines(
  fences: readonly Fence[],
  at: number,
): { readonly before: number; readonly after: number } {
  const fence = fences[firstEndingAfter(fences, at)];
  if (!fence || at <= fence.start) return { before: at, after: at };
  if (at <= fence.codeStart) return { before: fence.start, after: at };
  return at < fence.codeEnd - 1 ? { before: at, after: at } : { before: at, after: fence.end };
}

/** The signs of the quote in whose line a part begins. */
function quoteAt(text: string, at: number): string {
  const before = text.slice(Math.max(0, at - MAX_PARAGRAPH_LENGTH), at);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  return QUOTE.exec(line)?.[0] ?? "";
}

/** Which marks are open at a place and closed behind it in its paragraph, the outermost first. */
function marksAt(text: string, fences: readonly Fence[], at: number): readonly string[] {
  const nextFence = firstEndingAfter(fences, at);
  const floor = Math.max(fences[nextFence - 1]?.end ?? 0, at - MAX_PARAGRAPH_LENGTH);
  const ceiling = Math.min(fences[nextFence]?.start ?? Infinity, at + MAX_PARAGRAPH_LENGTH);
  const before = text.slice(floor, at);
  const start = before.lastIndexOf("\n\n") + 1;
  if (start === 0 && floor === at - MAX_PARAGRAPH_LENGTH) return [];
  const [rest = ""] = text.slice(at, ceiling).split("\n\n", 1);
  let open: string[] = [];
  for (const [sign] of before.slice(start).matchAll(SIGNS)) {
    const code = open.find((each) => each.startsWith("`"));
    if (sign.startsWith("\\") || (code !== undefined && code !== sign)) continue;
    open = open.includes(sign) ? open.filter((each) => each !== sign) : [...open, sign];
  }
  return open.filter((sign) => rest.includes(sign));
}
