/** Screen lines as data: spans of text with a role each. What a role looks like is the palette's. */
import { clustersOf, clusterWidth, cutToWidth, expandTabs, widthOf } from "./width.ts";

export type Role =
  | "plain"
  | "dim"
  | "strong"
  | "accent"
  | "emphasis"
  | "code"
  | "heading"
  | "thought"
  | "good"
  | "warning"
  | "bad"
  | "added"
  | "removed";

export interface Span {
  readonly text: string;
  readonly role: Role;
}

/** Never wider than the width it was made for; has no line breaks. */
export type Line = readonly Span[];

export const BLANK: Line = [];

export function span(text: string, role: Role = "plain"): Span {
  return { text, role };
}

export function lineWidth(line: Line): number {
  return line.reduce((width, { text }) => width + widthOf(text), 0);
}

/** The text of lines, as tests and logs want it. */
export function textOf(lines: readonly Line[]): string {
  return lines.map((line) => line.map(({ text }) => text).join("")).join("\n");
}

/** What stands before the first line of a paragraph and before the others. */
export interface Margin {
  readonly first: Line;
  readonly rest: Line;
}

export const NO_MARGIN: Margin = { first: [], rest: [] };

/** A sign before the first line, and its width in spaces before the others. */
export function hanging(first: Line): Margin {
  return { first, rest: [span(" ".repeat(lineWidth(first)))] };
}

/** Wraps spans at words, and words that are too long anywhere. Spaces at a break are kept out of the next line. */
export function wrap(spans: readonly Span[], width: number, margin: Margin = NO_MARGIN): readonly Line[] {
  const deps = Math.max(1, width - Math.max(lineWidth(margin.first), lineWidth(margin.rest)));
  const body = spans.map(({ text, role }) => ({ text: expandTabs(text), role }));
  const rows = lineWidth(body) <= deps ? [body] : breakRows(body, deps);
  return rows.map((row, index) => [...(index === 0 ? margin.first : margin.rest), ...row]);
}

/** Wraps a text of several lines, all in one role. */
export function wrapText(
  text: string,
  role: Role,
  width: number,
  margin: Margin = NO_MARGIN,
): readonly Line[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) =>
    wrap([span(line, role)], width, index === 0 ? margin : { first: margin.rest, rest: margin.rest }),
  );
}

/** Left and right, with the room between them; the left is cut if both do not fit. */
export function spread(left: Line, right: Line, width: number): Line {
  const deps = width - lineWidth(right) - (right.length > 0 ? 1 : 0);
  if (deps < 1) return cutLine(left, width);
  const cut = cutLine(left, deps);
  const gap = width - lineWidth(cut) - lineWidth(right);
  return right.length === 0 ? cut : [...cut, span(" ".repeat(gap)), ...right];
}

export function cutLine(line: Line, width: number): Line {
  if (lineWidth(line) <= width) return line;
  const kept: Span[] = [];
  let left = width;
  for (const { text, role } of line) {
    const cells = widthOf(text);
    if (cells >= left) {
      // A span that fits exactly is still cut: something follows it.
      kept.push(span(cutToWidth(`${text} `, left), role));
      break;
    }
    kept.push(span(text, role));
    left -= cells;
  }
  return kept;
}

interface Cell {
  readonly cluster: string;
  readonly cells: number;
  readonly role: Role;
}

function breakRows(spans: readonly Span[], deps: number): readonly Line[] {
  const cells = spans.flatMap(({ text, role }) =>
    clustersOf(text).map((cluster): Cell => ({ cluster, cells: clusterWidth(cluster), role })),
  );
  const rows: Line[] = [];
  let start = 0;
  while (start < cells.length) {
    const end = rowEnd(cells, start, deps);
    rows.push(join(cells.slice(start, end)));
    start = end;
    while (start < cells.length && cells[start]?.cluster === " ") start++;
  }
  return rows;
}

/** Behind the last cell of the row that starts at `start`. */
function rowEnd(cells: readonly Cell[], start: number, deps: number): number {
  let used = 0;
  let lastBreak = -1;
  for (let at = start; at < cells.length; at++) {
    const { cluster, cells: width } = cells[at] ?? { cluster: "", cells: 0 };
    // Wide characters of East Asia break anywhere.
    if (cluster === " " || width === 2) lastBreak = at;
    used += width;
    if (used > deps)
      return lastBreak > start && hasInk(cells, start, lastBreak) ? lastBreak : Math.max(at, start + 1);
  }
  return cells.length;
}

/** Leading spaces alone make no row. */
function hasInk(cells: readonly Cell[], start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (cells[at]?.cluster !== " ") return true;
  return false;
}

function join(cells: readonly Cell[]): Line {
  const spans: Span[] = [];
  let text = "";
  let role: Role | undefined;
  for (const cell of cells) {
    if (role !== undefined && cell.role !== role) {
      spans.push(span(text, role));
      text = "";
    }
    text += cell.cluster;
    role = cell.role;
  }
  if (role !== undefined) spans.push(span(text.trimEnd(), role));
  return spans;
}
