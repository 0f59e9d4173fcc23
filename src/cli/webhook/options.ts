/** Options of commands in forms that the parser does not know. Pure. */

/** Every value of an option that may be given again, from words as `normalizeArguments` leaves them. */
export function repeatedOption(words: readonly string[], name: string): readonly string[] {
  const end = words.indexOf("--");
  const start = `--${name}=`;
  return words
    .slice(0, end < 0 ? words.length : end)
    .flatMap((word) => (word.startsWith(start) ? [word.slice(start.length)] : []));
}

/** `a, b` as a list; empty parts do not count. */
export function commaList(text: string | undefined): readonly string[] {
  return (text ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** A port that others can be told. Undefined for anything else. */
export function toPort(text: string): number | undefined {
  const port = /^\d{1,5}$/.test(text.trim()) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
}
