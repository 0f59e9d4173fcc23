import {
  literalDocument,
  slice,
  type Block,
  type MarkdownDocument,
  type Piece,
  firstEndingAfter,
} from "./document.ts";
import {
  renderHtml,
  renderSlack,
  renderWhatsApp,
  renderPlain,
  renderSignal,
  renderTelegram,
} from "./render.ts";
import { readMarkdown } from "./read.ts";

/** The markup that a platform renders; `commonmark` for platforms that render Markdown. */
export type TextFormat =
  | "plain"
  | "signal"
  | "whatsapp"
  | "slack"
  | "telegram"
  | "matrix"
  | "email"
  | "commonmark";

/** The unit in which a platform counts: UTF-16 code units, code points, or UTF-8 bytes. */
export type TextUnit = "utf16" | "codepoints" | "bytes";

export interface PartsOptions {
  readonly format: TextFormat;
  /** Longest part, in `unit`, in each of its forms; at least 16. Infinity: never split. */
  readonly limit: number;
  readonly unit: TextUnit;
  /** Default 40. The rest is omitted, and the last part says so. */
  readonly maxParts?: number;
  /** Where the whole text is, for the note about omitted text: `the transcript of run run_1`. */
  readonly wholeIn?: string;
  /** Mentions to disarm, such as `@all`. Not for `signal`: its ranges would not count the inserted characters. */
  readonly mentions?: readonly string[];
}

/** One message of a long text, in the forms that a platform may need. */
export interface Part {
  /**
   * Text in the requested format. For `matrix`, `email` and `signal`, which send several forms, the same as `plain`.
   */
  readonly text: string;
  /** `matrix`: the `formatted_body`; `email`: the body of the HTML alternative. Contains no markup from the input. */
  readonly html?: string;
  /** `signal`: ranges of `text` for signal-cli, `start:length:STYLE` in UTF-16 code units. */ readonly styles?: readonly string[];
  /** The text without markup, for a platform that rejects the rich form. */
  readonly plain: string;
}

/** A text that can be rendered in slices. Positions are offsets in `text`. */
export interface TextSource {
  readonly text: string;
  /** Renders a slice, followed by a paragraph `note`. */
  readonly render: (from: number, to: number, note?: string) => Part;
  /** Renders a slice without marks. */
  readonly renderLiteral: (from: number, to: number) => Part;
  /** Returns where to cut instead of at a position that must not be cut. */
  readonly cutInstead: (at: number) => number;
  /** Returns where to continue instead. */
  readonly startInstead: (at: number) => number;
}

/** Links longer than this share of a message become text, which can be split. */
const LINK_SHARE = 4;
const MAX_HREF_LENGTH = 2000;

export function openSource(text: string, options: PartsOptions): TextSource {
  const source = sourceOf(text, options);
  const { mentions = [] } = options;
  if (mentions.length === 0) return source;
  const defused = ({ text, html, plain, ...rest }: Part): Part => ({
    ...rest,
    text: defuseMentions(text, mentions),
    plain: defuseMentions(plain, mentions),
    ...(html === undefined ? {} : { html: defuseMentions(html, mentions) }),
  });
  return {
    ...source,
    render: (from, to, note) => defused(source.render(from, to, note)),
    renderLiteral: (from, to) => defused(source.renderLiteral(from, to)),
  };
}

function sourceOf(text: string, { format, limit }: PartsOptions): TextSource {
  const document = readMarkdown(text, Math.min(MAX_HREF_LENGTH, Math.floor(limit / LINK_SHARE)));
  if (format !== "commonmark") return sourceOfDocument(document, format);
  return sourceOfMarkdown(document.isRedacted ? document.text : text);
}

function sourceOfMarkdown(text: string): TextSource {
  const fences = findFences(text);
  const partOf = (text: string) => ({ text, plain: text });
  return {
    text,
    render: (from, to, note) =>
      partOf(sourceBetween(text, fences, { from, to }) + (note === undefined ? "" : `\n\n${note}`)),
    renderLiteral: (from, to) => partOf(text.slice(from, to)),
    cutInstead: (at) => (at === text.length ? at : outsideFenceLines(fences, at).before),
    startInstead: (at) => outsideFenceLines(fences, at).after,
  };
}

function sourceOfDocument(document: MarkdownDocument, format: Exclude<TextFormat, "commonmark">): TextSource {
  const { text } = document;
  const render = RENDERERS[format];
  return {
    text,
    render: (from, to, note) =>
      render([...slice(document, from, to), ...(note === undefined ? [] : [pieceOf(note)])]),
    renderLiteral: (from, to) => render(slice(literalDocument(text), from, to)),
    cutInstead: (at) => at,
    startInstead: (at) => at,
  };
}

const RENDERERS: Readonly<Record<Exclude<TextFormat, "commonmark">, (pieces: readonly Piece[]) => Part>> = {
  plain: (pieces) => both(renderPlain(pieces)),
  signal: (pieces) => {
    const { text, styles } = renderSignal(pieces);
    return { text, plain: text, ...(styles.length > 0 ? { styles } : {}) };
  },
  whatsapp: (pieces) => ({ text: renderWhatsApp(pieces), plain: renderPlain(pieces) }),
  slack: (pieces) => ({ text: renderSlack(pieces), plain: renderPlain(pieces) }),
  telegram: (pieces) => ({ text: renderTelegram(pieces), plain: renderPlain(pieces) }),
  matrix: (pieces) => ({ ...both(renderPlain(pieces)), html: renderHtml(pieces) }),
  email: (pieces) => ({ ...both(renderPlain(pieces)), html: renderHtml(pieces) }),
};

const both = (text: string) => ({ text, plain: text });

function pieceOf(note: string): Piece {
  const block: Block = { kind: "paragraph", start: 0, end: note.length, containers: [], isTight: false };
  const words = { text: note, marks: [], endsLink: false, isGap: false };
  return { block, index: -1, text: note, words: [words], isStart: true };
}

/** Word joiner, inserted between the sign and the name: it is invisible, and no platform sees a mention. */
const JOINER = "\u2060";

/**
 * Disarms `mentions`, such as `@everyone`, in any case; longer words and email addresses, such as `@allan` and
 * `bob@all.example`, stay. For platforms without a parameter that disables mentions. Apply it to the rendered text:
 * rendering may create a mention.
 */
export function defuseMentions(text: string, mentions: readonly string[]): string {
  if (mentions.length === 0) return text;
  const any = mentions.map(patternOf).join("|");
  return text.replace(new RegExp(any, "gi"), (mention) => {
    const name = mention.search(/[\p{L}\p{N}]/u);
    // A tag such as `<@` has no name; it is broken after its first character.
    const at = name < 0 && mention.length > 1 ? 1 : Math.max(name, 0);
    return `${mention.slice(0, at)}${JOINER}${mention.slice(at)}`;
  });
}

/** Platforms recognize a name next to non-ASCII letters, and a tag after any character. */
function patternOf(mention: string): string {
  const name = RegExp.escape(mention);
  return mention.startsWith("@") ? `(?<![a-z0-9])${name}(?![a-z0-9])` : name;
}

/** A fenced code block in the source. */
interface Fence {
  readonly start: number;
  readonly codeStart: number;
  readonly codeEnd: number;
  /** End of the closing line; Infinity when the fence is not closed. */
  readonly end: number;
  readonly opening: string;
  readonly closing: string;
}

const OPENING = /^((?:[ \t]*>)*[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}|~{3,})(.*)$/;
const CLOSING = /^(?:[ \t]*>)*[ \t]*(`{3,}|~{3,})[ \t]*$/;
const QUOTE = /^(?: {0,3}>)+ ?/;
const SIGNS = /\\.|`+|\*\*|__|~~/gs;
/** Only this many characters of a line are searched for a fence. */
const MAX_FENCE_LENGTH = 300;
/** Marks are not tracked in longer paragraphs. */
const MAX_PARAGRAPH_LENGTH = 10_000;

/** Returns the fences in order. An unclosed fence ends with the text, as CommonMark says. */
function findFences(text: string): readonly Fence[] {
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
  // A list marker is not repeated; spaces of its width are.
  const indent = before.replace(/[^\s>]/g, " ");
  const lines = { opening: `${indent}${sign}${info}`, closing: `${indent}${sign}` };
  return { ...place, codeEnd: Infinity, end: Infinity, ...lines };
}

/**
 * ` and code that begin before it are opened again, and those that end behind it are closed. Single `*` and `_` are
 * not: only a parser knows which of them mean anything. ~~ Returns a slice of the source. It reopens fences, quotes,
 * `**`, `__`, `~~` and code that begin before the slice, and closes those that end after it. Single `*` and `_` are
 * left alone: only a parser knows which of them are marks.~~` and code that begin before it are opened again, and those
 * that end behind it are closed. Single `*` and `_` are not: only a parser knows which of them mean anything.
 */
function sourceBetween(
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

/** Moves a position inside a fence line before or after that line. */
function outsideFenceLines(
  fences: readonly Fence[],
  at: number,
): { readonly before: number; readonly after: number } {
  const fence = fences[firstEndingAfter(fences, at)];
  if (!fence || at <= fence.start) return { before: at, after: at };
  if (at <= fence.codeStart) return { before: fence.start, after: at };
  return at < fence.codeEnd - 1 ? { before: at, after: at } : { before: at, after: fence.end };
}

/** Returns the quote markers of the line in which a part begins. */
function quoteAt(text: string, at: number): string {
  const before = text.slice(Math.max(0, at - MAX_PARAGRAPH_LENGTH), at);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  return QUOTE.exec(line)?.[0] ?? "";
}

/** Returns the marks that are open at a position and closed later in its paragraph, outermost first. */
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
