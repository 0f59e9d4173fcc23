import { visibleText } from "./render.ts";
import { openSource, type Part, type PartsOptions, type TextSource, type TextUnit } from "./source.ts";
import { cleanText, EMPTY_ANSWER, isBlank } from "./text.ts";

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
export function renderParts(markdown: string, options: PartsOptions): readonly Part[] {
  if (!(options.limit >= MIN_LIMIT))
    throw new RangeError(`A limit of ${options.limit} is below ${MIN_LIMIT}.`);
  const source = openSource(cleanText(markdown) || EMPTY_ANSWER, options);
  const { text } = source;
  const parts: Part[] = [];
  for (let from = /^\s*\n/.exec(text)?.[0].length ?? 0; from < text.length;) {
    const isLast = parts.length >= (options.maxParts ?? MAX_PARTS) - 1;
    const cut = isLast ? lastCut(source, from, options) : nextCut(source, from, options);
    if (!isBlank(cut.part.plain)) parts.push(cut.part);
    from = cut.next;
  }
  // Only marks and invisible characters: nothing is left to send.
  return parts.length > 0 ? parts : renderParts(EMPTY_ANSWER, options);
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
