const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
/** Signs of Chinese and Japanese, behind which no space stands. */
const WIDE_STOPS = "。！？；";
const WIDE_COMMAS = "，、";
/** A grapheme that ends further on is taken to end behind the last place to cut. */
const LOOK_AHEAD = 64;

/**
 * Where to end what begins at `from` and may go up to `to`: where paragraphs part, else lines, else sentences, as long
 * as more than half is used; else between words; else between graphemes. `to` itself when nothing is left behind it,
 * or when it would have to go through the first grapheme, which then only keeps its code points whole.
 */
export function cutBefore(text: string, from: number, to: number): number {
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

/** Where the next part begins: what parted the two is told by that they are two. Indents of code stay. */
export function startAfter(text: string, cut: number): number {
  let start = cut;
  let at = cut;
  for (; at < text.length && isSpace(text, at); at += 1) if (text[at] === "\n") start = at + 1;
  // Between words of one line nothing is an indent.
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
