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

/** What a platform renders; `commonmark` is for those that render Markdown themselves. */
export type TextFormat =
  | "plain"
  | "signal"
  | "whatsapp"
  | "slack"
  | "telegram"
  | "matrix"
  | "email"
  | "commonmark";

/** How a platform counts: UTF-16 code units, code points, or bytes of UTF-8. */
export type TextUnit = "utf16" | "codepoints" | "bytes";

export interface PartsOptions {
  readonly format: TextFormat;
  /** Most that one part may have, in `unit`, in each of its forms; Infinity: never cut. At least 16. */
  readonly limit: number;
  readonly unit: TextUnit;
  /** Default 40. What does not fit into so many is left out, and the last part says so. */
  readonly maxParts?: number;
  /** Where the whole text is, for the note about what was left out, as in `the transcript of run run_1`. */
  readonly wholeIn?: string;
  /** Such as `@all`: what shall address nobody. Not for `signal`, whose ranges do not count what is put in. */
  readonly mentions?: readonly string[];
}

/** What one message of a long text says, in the forms that a platform may want. */
export interface Part {
  /** In the format that was asked for. For `matrix`, `email` and `signal`, which send forms side by side: as `plain`. */
  readonly text: string;
  /** `matrix`: the `formatted_body`; `email`: the body of the HTML alternative. Safe: no markup from outside. */
  readonly html?: string;
  /** `signal`: ranges of `text` for signal-cli, `start:length:STYLE` in UTF-16 code units. Absent: none. */
  readonly styles?: readonly string[];
  /** The same words without markup, for a platform that rejects the rich form. */
  readonly plain: string;
}

/** A text that parts are made of. Places are offsets in `text`. */
export interface TextSource {
  readonly text: string;
  /** What lies between two places, with a paragraph of ours behind it. */
  readonly render: (from: number, to: number, note?: string) => Part;
  /** The same without any mark. */
  readonly renderLiteral: (from: number, to: number) => Part;
  /** Where to cut instead of at a place where nothing should be cut. */
  readonly cutInstead: (at: number) => number;
  /** Where to go on instead. */
  readonly startInstead: (at: number) => number;
}

/** Links over this share of a message become words, which can be cut. */
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

/** Between the sign and the word: no platform takes the two for a mention then, and nobody sees it. */
const JOINER = "\u2060";

/**
 * `text` in which none of `mentions`, such as `@everyone`, addresses anybody, in whatever case it is written; longer
 * words and addresses of mail, such as `@allan` and `bob@all.example`, stay. For platforms that have no parameter to
 * switch mentions off. Only in what goes out: reading may make one of a text that had none.
 */
export function defuseMentions(text: string, mentions: readonly string[]): string {
  if (mentions.length === 0) return text;
  const any = mentions.map(patternOf).join("|");
  return text.replace(new RegExp(any, "gi"), (mention) => {
    const name = mention.search(/[\p{L}\p{N}]/u);
    // A tag may begin with signs alone, such as `<@`: it is broken behind the first.
    const at = name < 0 && mention.length > 1 ? 1 : Math.max(name, 0);
    return `${mention.slice(0, at)}${JOINER}${mention.slice(at)}`;
  });
}

/** Platforms see a name behind and before letters that are not ASCII, and a tag behind everything. */
function patternOf(mention: string): string {
  const name = RegExp.escape(mention);
  return mention.startsWith("@") ? `(?<![a-z0-9])${name}(?![a-z0-9])` : name;
}

/** A fenced block of code in the source. */
interface Fence {
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
  // The sign of a list item is not told again; its width is.
  const indent = before.replace(/[^\s>]/g, " ");
  const lines = { opening: `${indent}${sign}${info}`, closing: `${indent}${sign}` };
  return { ...place, codeEnd: Infinity, end: Infinity, ...lines };
}

/**
 * What lies between two places. Fences, quotes, `**`, `__`, `~~` and code that begin before it are opened again, and
 * those that end behind it are closed. Single `*` and `_` are not: only a parser knows which of them mean anything.
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

/** A place that parts a line of a fence from its code is moved before or behind the fence's line. */
function outsideFenceLines(
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
