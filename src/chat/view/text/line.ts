/** Screen lines as data: spans of text, each with a role, and their width in terminal cells. */
import { eastAsianWidth } from "get-east-asian-width";

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
  | "comment"
  | "string"
  | "number"
  | "keyword"
  | "added"
  | "removed";

export interface Span {
  readonly text: string;
  readonly role: Role;
}

/** A line without line breaks, at most as wide as requested. */
export type Line = readonly Span[];

export const BLANK: Line = [];

export function span(text: string, role: Role = "plain"): Span {
  return { text, role };
}

export function lineWidth(line: Line): number {
  return line.reduce((width, { text }) => width + widthOf(text), 0);
}

/** Returns the plain text of lines. */
export function textOf(lines: readonly Line[]): string {
  return lines.map((line) => line.map(({ text }) => text).join("")).join("\n");
}

/** The prefix of the first line of a paragraph and of the others. */
interface Margin {
  readonly first: Line;
  readonly rest: Line;
}

const NO_MARGIN: Margin = { first: [], rest: [] };

/** Returns a margin with a sign before the first line and spaces before the others. */
export function hanging(first: Line): Margin {
  return { first, rest: [span(" ".repeat(lineWidth(first)))] };
}

/** Wraps spans at words, and breaks words that are too long. Drops spaces at a break. */
export function wrap(spans: readonly Span[], width: number, margin: Margin = NO_MARGIN): readonly Line[] {
  const space = Math.max(1, width - Math.max(lineWidth(margin.first), lineWidth(margin.rest)));
  const body = spans.map(({ text, role }) => ({ text: expandTabs(text), role }));
  const rows = lineWidth(body) <= space ? [body] : breakRows(body, space);
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

export function cutLine(line: Line, width: number): Line {
  if (lineWidth(line) <= width) return line;
  const kept: Span[] = [];
  let left = width;
  for (const { text, role } of line) {
    const cells = widthOf(text);
    if (cells >= left) {
      // A span that fits exactly is also cut: more text follows.
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

function breakRows(spans: readonly Span[], space: number): readonly Line[] {
  const cells = spans.flatMap(({ text, role }) =>
    clustersOf(text).map((cluster): Cell => ({ cluster, cells: clusterWidth(cluster), role })),
  );
  const rows: Line[] = [];
  let start = 0;
  while (start < cells.length) {
    const end = rowEnd(cells, start, space);
    rows.push(join(cells.slice(start, end)));
    start = end;
    while (start < cells.length && cells[start]?.cluster === " ") start++;
  }
  return rows;
}

/** Returns the end of the row that starts at `start`. */
function rowEnd(cells: readonly Cell[], start: number, space: number): number {
  let used = 0;
  let lastBreak = -1;
  for (let at = start; at < cells.length; at++) {
    const { cluster, cells: width } = cells[at] ?? { cluster: "", cells: 0 };
    // Lines may break before any wide character.
    if (cluster === " " || width === 2) lastBreak = at;
    used += width;
    if (used > space)
      return lastBreak > start && hasInk(cells, start, lastBreak) ? lastBreak : Math.max(at, start + 1);
  }
  return cells.length;
}

/** Returns whether the range has more than spaces. */
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

const TAB_CELLS = 4;
/** Longer clusters are measured by their first code point. */
const MAX_CLUSTER_LENGTH = 50;
const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;
const INVISIBLE =
  /^[\p{Default_Ignorable_Code_Point}\p{Control}\p{Format}\p{Nonspacing_Mark}\p{Enclosing_Mark}\p{Surrogate}]+$/v;
const EMOJI = /^\p{RGI_Emoji}$/v;
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Splits text into grapheme clusters: combining marks and joined emoji stay whole. */
export function clustersOf(text: string): readonly string[] {
  if (PRINTABLE_ASCII.test(text)) return text.split("");
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** Returns the cells of one cluster: 0, 1 or 2. */
export function clusterWidth(cluster: string): number {
  const code = cluster.codePointAt(0);
  if (code === undefined) return 0;
  if (code >= 0x20 && code < 0x7f && cluster.length === 1) return 1;
  if (cluster.length > MAX_CLUSTER_LENGTH) return eastAsianWidth(code);
  if (INVISIBLE.test(cluster)) return 0;
  return EMOJI.test(cluster) ? 2 : eastAsianWidth(code);
}

/** Returns the cells of a text without line breaks and tabs. */
export function widthOf(text: string): number {
  if (PRINTABLE_ASCII.test(text)) return text.length;
  let width = 0;
  for (const cluster of clustersOf(text)) width += clusterWidth(cluster);
  return width;
}

/** Truncates text to `width` cells, with an ellipsis. */
export function cutToWidth(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let cut = "";
  let used = 1;
  for (const cluster of clustersOf(text)) {
    used += clusterWidth(cluster);
    if (used > width) break;
    cut += cluster;
  }
  return width < 1 ? "" : `${cut}…`;
}

/** Returns text on one line: tabs become spaces, line breaks a sign. */
export function toOneLine(text: string): string {
  return text
    .trim()
    .replaceAll(/\s*[\r\n]+\s*/g, " ⏎ ")
    .replaceAll("\t", " ");
}

/** Replaces tabs by spaces up to the next tab stop. */
export function expandTabs(line: string): string {
  if (!line.includes("\t")) return line;
  let column = 0;
  let expanded = "";
  for (const cluster of clustersOf(line)) {
    const cells = cluster === "\t" ? TAB_CELLS - (column % TAB_CELLS) : clusterWidth(cluster);
    expanded += cluster === "\t" ? " ".repeat(cells) : cluster;
    column += cells;
  }
  return expanded;
}
