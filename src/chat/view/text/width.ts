/** How many cells of a terminal a text takes. */
import { eastAsianWidth } from "get-east-asian-width";

const TAB_CELLS = 4;
/** No real character has more code units; what has is measured by its first code point. */
const MAX_CLUSTER_LENGTH = 50;
const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;
const INVISIBLE =
  /^[\p{Default_Ignorable_Code_Point}\p{Control}\p{Format}\p{Nonspacing_Mark}\p{Enclosing_Mark}\p{Surrogate}]+$/v;
const EMOJI = /^\p{RGI_Emoji}$/v;
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** What a person takes for one character each: combining marks and joined emoji stay whole. */
export function clustersOf(text: string): readonly string[] {
  if (PRINTABLE_ASCII.test(text)) return text.split("");
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

/** Cells of one cluster: 0, 1 or 2. */
export function clusterWidth(cluster: string): number {
  const code = cluster.codePointAt(0);
  if (code === undefined) return 0;
  if (code >= 0x20 && code < 0x7f && cluster.length === 1) return 1;
  if (cluster.length > MAX_CLUSTER_LENGTH) return eastAsianWidth(code);
  if (INVISIBLE.test(cluster)) return 0;
  return EMOJI.test(cluster) ? 2 : eastAsianWidth(code);
}

/** Cells of a text without line breaks and tabs. */
export function widthOf(text: string): number {
  if (PRINTABLE_ASCII.test(text)) return text.length;
  let width = 0;
  for (const cluster of clustersOf(text)) width += clusterWidth(cluster);
  return width;
}

/** The text in at most `width` cells, with an ellipsis where something is cut off. */
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

/** One line: tabs become spaces, line breaks a sign. */
export function toOneLine(text: string): string {
  return text
    .trim()
    .replaceAll(/\s*[\r\n]+\s*/g, " ⏎ ")
    .replaceAll("\t", " ");
}

/** Tabs become spaces up to the next stop. */
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
