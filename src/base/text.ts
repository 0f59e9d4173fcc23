/** Shortens text and bytes between characters, never inside one. Pure. */

/** Returns at most the first `max` UTF-16 units of `text`; one less where a character would be split. */
export function headOf(text: string, max: number): string {
  return text.length <= max ? text : text.slice(0, startsInside(text, max) ? max - 1 : Math.max(0, max));
}

/** Returns at most the last `max` UTF-16 units of `text`; one less where a character would be split. */
export function tailOf(text: string, max: number): string {
  const from = text.length - Math.max(0, max);
  return from <= 0 ? text : text.slice(startsInside(text, from) ? from + 1 : from);
}

/** Returns at most the first `max` characters (code points) of `text`. */
export function firstCharacters(text: string, max: number): string {
  if (text.length <= max) return text;
  // Twice as many units hold at least so many characters, however long the text is.
  return Array.from(text.slice(0, 2 * max))
    .slice(0, max)
    .join("");
}

/** Returns at most `max` characters (code points) of `text`; a shortened text ends in "…". */
export function shorten(text: string, max: number): string {
  return firstCharacters(text, max) === text ? text : `${firstCharacters(text, max - 1).trimEnd()}…`;
}

/** Returns `text` with at most `max` UTF-16 units, the note in its middle included: a quarter of them is the beginning. */
export function excerptOf(text: string, max: number): string {
  if (text.length <= max) return text;
  const note = `\n[... ${text.length - max} characters omitted ...]\n`;
  const head = Math.floor(max / 4);
  return headOf(text, head) + note + tailOf(text, max - head - note.length);
}

/** Returns `text` on one line: blanks, line breaks and control characters become single spaces. */
export function toOneLine(text: string): string {
  // oxlint-disable-next-line no-control-regex -- matches control characters on purpose
  return text.replaceAll(/[\s\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
}

/** Returns whether the unit at `at` is the second half of a character. */
function startsInside(text: string, at: number): boolean {
  return isLow(text.charCodeAt(at)) && isHigh(text.charCodeAt(at - 1));
}

const isHigh = (unit: number): boolean => (unit & 0xfc00) === 0xd800;
const isLow = (unit: number): boolean => (unit & 0xfc00) === 0xdc00;

/** Returns how many bytes at the start of `bytes` are the rest of a UTF-8 character that began before them. */
export function strayBytes(bytes: Uint8Array): number {
  let count = 0;
  while (count < 4 && isContinuation(bytes[count] ?? 0)) count += 1;
  // Four in a row are not UTF-8.
  return count === 4 ? 0 : count;
}

/** Returns how many bytes at the end of `bytes` are the beginning of a UTF-8 character that is not whole yet. */
export function openBytes(bytes: Uint8Array): number {
  for (let count = 1; count <= Math.min(3, bytes.length); count += 1) {
    const byte = bytes[bytes.length - count] ?? 0;
    if (!isContinuation(byte)) return lengthOf(byte) > count ? count : 0;
  }
  return 0;
}

const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80;

/** Returns how many bytes a character has that begins with `byte`. */
function lengthOf(byte: number): number {
  if (byte >= 0xf5 || byte < 0xc2) return 1;
  if (byte >= 0xf0) return 4;
  return byte >= 0xe0 ? 3 : 2;
}
