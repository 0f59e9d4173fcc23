import { visibleText } from "../markdown/telegram.ts";
import { cutBefore, startAfter } from "./cut.ts";
import { lengthIn } from "./length.ts";
import type { Part, PartsOptions } from "./part.ts";
import { openSource, type TextSource } from "./source.ts";
import { cleanText, EMPTY_ANSWER, isBlank } from "./text.ts";

export type { Part, PartsOptions };

const MAX_PARTS = 40;
/** Room for one code point in any format, with all that escapes it. */
const MIN_LIMIT = 16;
/** A part may be shorter than it could be by one in so many: to know exactly costs twice as much. */
const ACCURACY = 100;

/**
 * The messages that an answer makes on a platform: at least one, each within the limit in each of its forms and
 * rendering on its own. The answer is cleaned, and secrets in it are redacted, first. The same answer with the same
 * options always makes the same parts, so that a later attempt can go on behind those that arrived. RangeError for a
 * limit below 16.
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
  // Marks and invisible characters alone: nothing would be left to send.
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
    const wish = cutBefore(text, from, to);
    const moved = source.cutInstead(wish);
    const end = moved > from ? moved : wish;
    if (isWithinPair(text, end)) break;
    const part = render(end);
    // Seldom not: what is shorter may need more signs.
    if (fits(part, options)) {
      const rich = { part, end, next: startOf(source, end) };
      return isWithinWord(text, end) ? wholeWords(text, rich, literalCut(source, from, options)) : rich;
    }
    to = end - Math.max(1, (end - from) >> 4);
  }
  return literalCut(source, from, options);
}

/** Marks are given up for a word that would be cut only because of them. */
const wholeWords = (text: string, rich: Cut, literal: Cut): Cut =>
  literal.end > rich.end && !isWithinWord(text, literal.end) ? literal : rich;

const isWithinWord = (text: string, at: number) => /^\S\S$/.test(text.slice(at - 1, at + 1));

/** Behind what parts the two, and behind the line that closes a fence. */
function startOf({ text, startInstead }: TextSource, end: number): number {
  const start = startAfter(text, end);
  const instead = startInstead(start);
  return instead === start ? start : startAfter(text, instead);
}

/** Where the marks alone are too long for the limit. */
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
    `(${next - end} more characters are left out. The whole text is in ${wholeIn}.)`;
  const isRoomy = [noteAt(0), "(…)"].map((note) => fits(source.render(from, from, note), options));
  if (isRoomy[0]) return { ...nextCut(source, from, options, noteAt), next };
  return { ...nextCut(source, from, options, isRoomy[1] ? () => "(…)" : undefined), next };
}

/** About the last place up to which `render` makes a part that fits; `from` when there is none. */
function longestFit(text: string, from: number, options: PartsOptions, render: (to: number) => Part): number {
  const { limit, unit } = options;
  // No code unit counts less than one, but for the second half of a code point.
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
  // Telegram counts what is left when the tags are read.
  const forms = [format === "telegram" ? visibleText(text) : text, html, plain];
  return forms.every((form) => lengthIn(form, unit) <= limit);
}

const isWithinPair = (text: string, at: number) => /^[\udc00-\udfff]/.test(text.charAt(at));
