import {
  visibleText,
  renderHtml,
  renderSlack,
  renderWhatsApp,
  renderPlain,
  renderSignal,
  renderTelegram,
  renderMarkdown,
  type MarkdownDialect,
} from "./render.ts";
import { cleanText, joinText, type MessageText } from "../target.ts";
import {
  EMPTY_ANSWER,
  EMPTY_MESSAGE,
  literalDocument,
  slice,
  type Block,
  type MarkdownDocument,
  type Piece,
  firstEndingAfter,
} from "./document.ts";
import { toReadable, isBlank } from "../../base/text.ts";
import { readMarkdown, readPieces } from "./read.ts";

const MAX_PARTS = 40;
/** Fits one code point in any format, with its escapes. */
const MIN_LIMIT = 16;
/** A part may be shorter than possible by 1/ACCURACY: the exact length costs twice as much. */
const ACCURACY = 100;

/**
 * Splits an answer into the messages for a platform: at least one, each within the limit in each of its forms, and each
 * renders on its own. Cleans the answer and redacts secrets first. The same answer with the same options always makes
 * the same parts, so that a later attempt can continue after those that arrived. Throws RangeError for a limit below
 * 16.
 */
export function renderParts(message: MessageText, options: PartsOptions): readonly Part[] {
  if (!(options.limit >= MIN_LIMIT))
    throw new RangeError(`A limit of ${options.limit} is below ${MIN_LIMIT}.`);
  if (options.mayBeEmpty === true && isBlank(joinText(message))) return [];
  const source = openSource(cleanMessage(message), options);
  const { text } = source;
  const parts: Part[] = [];
  for (let from = /^\s*\n/.exec(text)?.[0].length ?? 0; from < text.length;) {
    const isLast = parts.length >= (options.maxParts ?? MAX_PARTS) - 1;
    const cut = isLast ? lastCut(source, from, options) : nextCut(source, from, options);
    if (!isBlank(cut.part.plain)) parts.push(cut.part);
    from = cut.next;
  }
  // Only marks and invisible characters: nothing is left to send.
  return parts.length > 0 ? parts : renderParts(emptyText(message), options);
}

const emptyText = (message: MessageText) => (typeof message === "string" ? EMPTY_ANSWER : EMPTY_MESSAGE);

/** A secret may go over several pieces; redacted, the whole text is literal. */
function cleanMessage(message: MessageText): MessageText {
  const text = cleanText(joinText(message));
  if (typeof message === "string" || text === "") return text || emptyText(message);
  const pieces = message.map((piece) =>
    "literal" in piece ? { literal: toReadable(piece.literal) } : { markdown: toReadable(piece.markdown) },
  );
  return joinText(pieces) === text ? pieces : [{ literal: text }];
}

interface Cut {
  readonly part: Part;
  readonly end: number;
  /** Where the next part begins. */
  readonly next: number;
}

type NoteAt = (end: number) => string | undefined;

function nextCut(
  source: TextSource,
  from: number,
  options: PartsOptions,
  noteAt: NoteAt = () => undefined,
): Cut {
  const { text } = source;
  const render = (to: number) => source.render(from, to, noteAt(to));
  let to = longestFit(text, from, options, render);
  while (to > from) {
    const preferred = cutBefore(text, from, to);
    const moved = source.cutInstead(preferred);
    const end = moved > from ? moved : preferred;
    if (isWithinPair(text, end)) break;
    const part = render(end);
    // It rarely does not fit: a shorter part may need more marks.
    if (fits(part, options)) {
      const rich = { part, end, next: startOf(source, end) };
      return isWithinWord(text, end) ? wholeWords(text, rich, literalCut(source, from, options)) : rich;
    }
    to = end - Math.max(1, (end - from) >> 4);
  }
  return literalCut(source, from, options);
}

/** Drops the marks when a word would be cut only because of them. */
const wholeWords = (text: string, rich: Cut, literal: Cut): Cut =>
  literal.end > rich.end && !isWithinWord(text, literal.end) ? literal : rich;

const isWithinWord = (text: string, at: number) => /^\S\S$/.test(text.slice(at - 1, at + 1));

/** Skips the white space between two parts, and the line that closes a fence. */
function startOf({ text, startInstead }: TextSource, end: number): number {
  const start = startAfter(text, end);
  const instead = startInstead(start);
  return instead === start ? start : startAfter(text, instead);
}

/** Cuts without marks, for when the marks alone exceed the limit. */
function literalCut(source: TextSource, from: number, options: PartsOptions): Cut {
  const { text } = source;
  const render = (to: number) => source.renderLiteral(from, to);
  const end = cutBefore(text, from, longestFit(text, from, options, render));
  return { part: render(end), end, next: startAfter(text, end) };
}

function lastCut(source: TextSource, from: number, options: PartsOptions): Cut {
  const { text } = source;
  const next = text.length;
  const whole = longestFit(text, from, options, (to) => source.render(from, to));
  if (whole === next) return nextCut(source, from, options);
  const { wholeIn = "the transcript of the run" } = options;
  const noteAt = (end: number) =>
    `(${next - end} more characters are omitted. The whole text is in ${wholeIn}.)`;
  const isRoomy = [noteAt(0), "(…)"].map((note) => fits(source.render(from, from, note), options));
  if (isRoomy[0]) return { ...nextCut(source, from, options, noteAt), next };
  return { ...nextCut(source, from, options, isRoomy[1] ? () => "(…)" : undefined), next };
}

/** Returns approximately the last offset up to which `render` makes a part that fits; `from` when none fits. */
function longestFit(text: string, from: number, options: PartsOptions, render: (to: number) => Part): number {
  const { limit, unit } = options;
  // Every code unit counts at least one, except the second half of a surrogate pair.
  let tooFar = Math.min(text.length, from + limit * (unit === "codepoints" ? 2 : 1));
  if (fits(render(tooFar), options)) return tooFar;
  let good = from;
  while (tooFar - good > Math.max(1, Math.floor((good - from) / ACCURACY))) {
    const middle = (good + tooFar) >> 1;
    if (fits(render(middle), options)) good = middle;
    else tooFar = middle;
  }
  return good;
}

function fits({ text, html = "", plain }: Part, { format, limit, unit }: PartsOptions): boolean {
  // Telegram counts the text without its tags.
  const forms = [format === "telegram" ? visibleText(text) : text, html, plain];
  return forms.every((form) => lengthIn(form, unit) <= limit);
}

const isWithinPair = (text: string, at: number) => /^[\udc00-\udfff]/.test(text.charAt(at));

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
/** Chinese and Japanese punctuation, which no space follows. */
const WIDE_STOPS = "。！？；";
const WIDE_COMMAS = "，、";
/** A longer grapheme counts as ending at the last place to cut. */
const LOOK_AHEAD = 64;

/**
 * Returns where to end a part from `from` to at most `to`: between paragraphs, else lines, else sentences, if that uses
 * more than half; else between words, else between graphemes. Returns the end of the text when it fits, and `to` when
 * the cut would split the first grapheme; code points stay whole.
 */
function cutBefore(text: string, from: number, to: number): number {
  if (to >= text.length) return text.length;
  const half = from + Math.floor((to - from) / 2);
  const paragraph = text.lastIndexOf("\n\n", to);
  if (paragraph > half) return paragraph;
  const line = text.lastIndexOf("\n", to);
  if (line > half) return line;
  return (
    lastPlace(text, half, to, endsSentence) ??
    lastPlace(text, from, to, endsWord) ??
    withinWord(text, from, to)
  );
}

/** Returns where the next part begins: after the white space, but before the indent of a code line. */
function startAfter(text: string, cut: number): number {
  let start = cut;
  let at = cut;
  for (; at < text.length && isSpace(text, at); at += 1) if (text[at] === "\n") start = at + 1;
  // White space between words of one line is not an indent.
  return start > cut ? start : at;
}

function lastPlace(
  text: string,
  from: number,
  to: number,
  isPlace: (text: string, at: number) => boolean,
): number | undefined {
  for (let at = to; at > from; at -= 1) if (isPlace(text, at)) return at;
  return undefined;
}

function endsSentence(text: string, at: number): boolean {
  const before = text.charAt(at - 1);
  if (WIDE_STOPS.includes(before)) return true;
  return isSpace(text, at) && /[.!?…:;][)\]"'”’»]*$/.test(text.slice(Math.max(0, at - 4), at));
}

function endsWord(text: string, at: number): boolean {
  return (
    isSpace(text, at) || WIDE_STOPS.includes(text.charAt(at - 1)) || WIDE_COMMAS.includes(text.charAt(at - 1))
  );
}

const isSpace = (text: string, at: number) => /\s/.test(text.charAt(at));

function withinWord(text: string, from: number, to: number): number {
  const end = graphemes.segment(text.slice(from, to + LOOK_AHEAD)).containing(to - from)?.index ?? to - from;
  if (end > 0) return from + end;
  const isHalf = /[\udc00-\udfff]/.test(text.charAt(to));
  return isHalf && to - 1 > from ? to - 1 : to;
}

/** Returns the length of well-formed text as a platform counts it. */
export function lengthIn(text: string, unit: TextUnit): number {
  if (unit === "utf16") return text.length;
  let length = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    // A surrogate pair is one code point and four bytes.
    if (unit === "codepoints") length -= code >= 0xd800 && code < 0xdc00 ? 1 : 0;
    else if (code >= 0xd800 && code < 0xe000) length += 1;
    else length += code < 0x80 ? 0 : code < 0x800 ? 1 : 2;
  }
  return length;
}

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
  /** How the platform reads `commonmark`; for texts in pieces. Default: github. */
  readonly dialect?: MarkdownDialect;
  /** Longest part, in `unit`, in each of its forms; at least 16. Infinity: never split. */
  readonly limit: number;
  readonly unit: TextUnit;
  /** Whether a blank text has no parts, since something else is sent. Default: it is one part that says so. */
  readonly mayBeEmpty?: boolean;
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
  /** `signal`: ranges of `text` for signal-cli, `start:length:STYLE` in UTF-16 code units. */
  readonly styles?: readonly string[];
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

function openSource(text: MessageText, options: PartsOptions): TextSource {
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

function sourceOf(text: MessageText, { format, limit, dialect }: PartsOptions): TextSource {
  const reading = {
    maxHrefLength: Math.min(MAX_HREF_LENGTH, Math.floor(limit / LINK_SHARE)),
    keepsInnerMarks: INNER_MARKS.has(format),
  };
  if (typeof text !== "string")
    return sourceOfDocument(readPieces(text, reading), rendererOf(format, dialect));
  const document = readMarkdown(text, reading);
  if (format !== "commonmark") return sourceOfDocument(document, rendererOf(format, dialect));
  return sourceOfMarkdown(document.isRedacted ? document.text : text);
}

/** Formats that have no marks, or none inside words: their signs stay. */
const INNER_MARKS: ReadonlySet<TextFormat> = new Set(["plain", "signal", "whatsapp", "slack"]);

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

function sourceOfDocument(document: MarkdownDocument, render: Renderer): TextSource {
  const { text } = document;
  const isLiteral = document.runs.some((run) => run.isLiteral);
  return {
    text,
    render: (from, to, note) =>
      render([...slice(document, from, to), ...(note === undefined ? [] : [pieceOf(note)])]),
    renderLiteral: (from, to) => render(slice(literalDocument(text, isLiteral), from, to)),
    cutInstead: (at) => at,
    startInstead: (at) => at,
  };
}

type Renderer = (pieces: readonly Piece[]) => Part;

function rendererOf(format: TextFormat, dialect: MarkdownDialect = "github"): Renderer {
  if (format !== "commonmark") return RENDERERS[format];
  return (pieces) => ({ text: renderMarkdown(pieces, dialect), plain: renderPlain(pieces) });
}

const RENDERERS: Readonly<Record<Exclude<TextFormat, "commonmark">, Renderer>> = {
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
 * Returns a slice of the source. It reopens fences, quotes, `**`, `__`, `~~` and code that begin before the slice, and
 * closes those that end after it. Single `*` and `_` are left alone: only a parser knows which of them are marks.
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
