/** Rows in aligned columns. Pure. */
import { eastAsianWidth } from "get-east-asian-width";

const GAP = "  ";
/** The last column never becomes narrower than this. */
const MIN_LAST_WIDTH = 12;
/** No other column becomes narrower than this. */
const MIN_WIDTH = 8;
/** People copy ids, so they stay whole in whatever column they are. */
const ID = /^(?:[a-z]{2,5}_[0-9a-z]{20,}|\d{8}_\d{6}_[0-9a-f]{12}|[0-9a-f]{12})\b/;

/**
 * Returns a table with a header. With `width`, the columns of the terminal, cells are shortened so that no line wraps:
 * first those of the last column, then those of the widest other ones. The first column and columns of ids stay whole.
 */
export function toTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  width?: number,
): string {
  const all = [head, ...rows];
  return alignColumns(width === undefined ? all : fitColumns(all, width)).join("\n");
}

function fitColumns(rows: readonly (readonly string[])[], width: number): readonly (readonly string[])[] {
  const last = Math.max(0, ...rows.map((row) => row.length - 1));
  const widths = [...widthsOf(rows, last + 1)];
  const isFixed = (column: number) => column === 0 || rows.some((row) => ID.test(row[column] ?? ""));
  let excess = widths.reduce((sum, each) => sum + each + GAP.length, -GAP.length) - width;
  const shrink = (column: number, least: number) => {
    const before = widths[column] ?? 0;
    const after = Math.max(Math.min(before, least), before - Math.max(0, excess));
    widths[column] = after;
    excess -= before - after;
  };
  shrink(last, MIN_LAST_WIDTH);
  const others = widths.keys().filter((column) => column < last && !isFixed(column));
  for (const column of [...others].toSorted((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0)))
    shrink(column, Math.max(MIN_WIDTH, widthOf(rows[0]?.[column] ?? "")));
  return rows.map((row) => row.map((cell, column) => shortenTo(cell, widths[column] ?? Infinity)));
}

/** Returns a block of names and values, without the values that are missing. */
export function toBlock(rows: readonly (readonly [name: string, value: string | undefined])[]): string {
  return alignColumns(rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))).join(
    "\n",
  );
}

/** Pads every column but the last to its widest cell. Returns a line per row. */
function alignColumns(rows: readonly (readonly string[])[]): readonly string[] {
  const columns = Math.max(0, ...rows.map((row) => row.length - 1));
  const widths = widthsOf(rows, columns);
  return rows.map((row) =>
    row
      .map((cell, column) => cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - widthOf(cell))))
      .join(GAP)
      .trimEnd(),
  );
}

/** Returns the widths of the first columns. */
function widthsOf(rows: readonly (readonly string[])[], columns: number): readonly number[] {
  return Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => widthOf(row[column] ?? ""))),
  );
}

const PLAIN = /^[\x20-\x7e]*$/;

/** Returns the columns of the terminal that a text takes: two for a Chinese, Japanese or Korean character. */
function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

/** Marks combine with the character before them. */
function widthOfCharacter(character: string): number {
  return /^[\p{M}\u200b-\u200d]$/u.test(character) ? 0 : eastAsianWidth(character.codePointAt(0) ?? 0);
}

/** Returns at most `max` columns of `text`; a shortened text ends in "…". */
function shortenTo(text: string, max: number): string {
  if (widthOf(text) <= max) return text;
  let kept = "";
  let left = max - 1;
  for (const character of text) {
    left -= widthOfCharacter(character);
    if (left < 0) break;
    kept += character;
  }
  return `${kept.trimEnd()}…`;
}
