import process from "node:process";
import { pathToFileURL } from "node:url";

/** One line of the table. Timings are told, never asserted: `met` is for the reader. */
export interface BenchRow {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** The same measure of the bare counterpart, taken in the same run. */
  readonly control?: number;
  /** Value by control. */
  readonly ratio?: number;
  readonly goal?: string;
  readonly met?: boolean;
}

/** Runs a bench whose file was started by itself. */
export async function runAlone(url: string, run: () => Promise<readonly BenchRow[]>): Promise<void> {
  if (url !== pathToFileURL(process.argv[1] ?? "").href) return;
  printRows(await run());
}

export function printRows(rows: readonly BenchRow[]): void {
  const cells = [["", "value", "unit", "control", "ratio", "goal", "met"], ...rows.map(toCells)];
  const widths = (cells[0] ?? []).map((_, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  );
  for (const row of cells) {
    const line = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return NUMERIC.has(column) ? cell.padStart(width) : cell.padEnd(width);
    });
    console.log(line.join("  ").trimEnd());
  }
}

/** The middle of the values; of an even number of them, the lower of the two. */
export function median(values: readonly number[]): number {
  return percentile(values, 50);
}

/** The smallest value that at least `percent` of the values do not exceed. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN;
}

const NUMERIC: ReadonlySet<number> = new Set([1, 3, 4]);

function toCells({ name, value, unit, control, ratio, goal, met }: BenchRow): string[] {
  return [
    name,
    toNumber(value),
    unit,
    control === undefined ? "" : toNumber(control),
    ratio === undefined ? "" : `${ratio.toFixed(2)}x`,
    goal ?? "",
    met === undefined ? "" : met ? "yes" : "NO",
  ];
}

function toNumber(value: number): string {
  return value >= 100 ? Math.round(value).toString() : value.toFixed(value >= 10 ? 1 : 3);
}
