/** Draws Markdown tables: aligned columns, cut to the width. Pure. */
import { cutLine, lineWidth, span, type Line, type Span } from "./line.ts";

type Align = "left" | "right" | "center";

const DELIMITER = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const GAP = "  ";
const MIN_COLUMN = 4;
/** Larger tables stay as they are written. */
const MAX_ROWS = 200;
const MAX_COLUMNS = 20;

/** Returns the number of lines of the table that begins at `index`; 0 when none does. */
export function tableLength(lines: readonly string[], index: number): number {
  const [head = "", delimiter = ""] = lines.slice(index, index + 2);
  if (!head.includes("|") || !delimiter.includes("-") || !DELIMITER.test(delimiter)) return 0;
  const columns = cellsOf(head).length;
  if (columns < 1 || columns > MAX_COLUMNS || cellsOf(delimiter).length !== columns) return 0;
  let end = index + 2;
  while (end < lines.length && lines[end]?.includes("|") === true && lines[end]?.trim() !== "") end++;
  return end - index > MAX_ROWS ? 0 : end - index;
}

/** Draws the lines of a table; `inline` renders the Markdown of a cell. */
export function tableLines(
  sources: readonly string[],
  width: number,
  inline: (text: string) => readonly Span[],
): readonly Line[] {
  const [head = "", delimiter = "", ...body] = sources;
  const aligns = cellsOf(delimiter).map(alignOf);
  const rows = [head, ...body].map((source) => {
    const cells = cellsOf(source);
    return aligns.map((_, column) => inline(cells[column] ?? ""));
  });
  const widths = fit(
    aligns.map((_, column) => Math.max(1, ...rows.map((row) => lineWidth(row[column] ?? [])))),
    width,
  );
  const rule = [span(widths.map((cells) => "─".repeat(cells)).join(GAP), "dim")];
  const drawn = rows.map((row, index) => {
    const cells = index === 0 ? row.map((cell) => cell.map(({ text }) => span(text, "strong"))) : row;
    return cutLine(
      cells.flatMap((cell, column) => padded(cell, column, widths, aligns)),
      width,
    );
  });
  return [drawn[0] ?? [], cutLine(rule, width), ...drawn.slice(1)];
}

function padded(
  cell: Line,
  column: number,
  widths: readonly number[],
  aligns: readonly Align[],
): readonly Span[] {
  const space = widths[column] ?? 0;
  const text = cutLine(cell, space);
  const free = Math.max(0, space - lineWidth(text));
  const align = aligns[column] ?? "left";
  const before = align === "right" ? free : align === "center" ? Math.floor(free / 2) : 0;
  const isLast = column === widths.length - 1;
  const after = isLast ? "" : " ".repeat(free - before) + GAP;
  return [span(" ".repeat(before)), ...text, span(after)];
}

/** Narrows the widest columns until the table fits. */
function fit(wanted: readonly number[], width: number): readonly number[] {
  const widths = [...wanted];
  const total = () => widths.reduce((sum, cells) => sum + cells, 0) + GAP.length * (widths.length - 1);
  for (let over = total() - width; over > 0; over = total() - width) {
    const widest = Math.max(...widths);
    if (widest <= MIN_COLUMN) break;
    const column = widths.indexOf(widest);
    const second = Math.max(MIN_COLUMN, ...widths.filter((cells) => cells < widest));
    widths[column] = Math.max(second === widest ? widest - 1 : second - 1, widest - over, MIN_COLUMN);
  }
  return widths;
}

function alignOf(cell: string): Align {
  if (!cell.endsWith(":")) return "left";
  return cell.startsWith(":") ? "center" : "right";
}

/** Splits a row at its bars; `\|` and bars inside of backticks belong to a cell. */
function cellsOf(source: string): readonly string[] {
  const row = source.trim().replace(/^\|/, "");
  const cells: string[] = [];
  let [cell, isCode] = ["", false];
  for (let at = 0; at < row.length; at++) {
    const character = row[at] ?? "";
    if (character === "\\" && row[at + 1] === "|") {
      cell += "|";
      at++;
    } else if (character === "|" && !isCode) {
      cells.push(cell.trim());
      cell = "";
    } else {
      if (character === "`") isCode = !isCode && row.includes("`", at + 1);
      cell += character;
    }
  }
  return cell.trim() === "" && cells.length > 0 ? cells : [...cells, cell.trim()];
}

/** Longer tables are printed in parts, which stay as they are written. */
const MAX_KEPT_CHARACTERS = 20_000;

/** Returns `end`, or the start of the table that reaches over it: its columns are not known before its last row. */
export function beforeTable(text: string, start: number, end: number): number {
  const next = text.slice(end).split("\n", 2);
  const goesOn = next[0]?.includes("|") === true || (next[0] === "" && next.length === 1);
  if (!goesOn) return end;
  let begin = end;
  while (begin > start && end - begin <= MAX_KEPT_CHARACTERS) {
    const line = Math.max(start, text.lastIndexOf("\n", begin - 2) + 1);
    if (!text.slice(line, begin).includes("|")) break;
    begin = line;
  }
  const [, delimiter = ""] = text.slice(begin, end + (next[0]?.length ?? 0)).split("\n", 2);
  const isTable = delimiter === "" || DELIMITER.test(delimiter);
  return isTable && end - begin <= MAX_KEPT_CHARACTERS ? begin : end;
}
