/** Keeps the figures of the benches, and writes them as a page: `npm run bench -- --report chat-provider`. */
import { readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import { join } from "node:path";
import process from "node:process";
import packageFile from "../../package.json" with { type: "json" };
import { toChart } from "./report-chart.ts";
import { notes } from "./report-notes.ts";
import { percentile, type BenchRow } from "./row.ts";
import { root } from "./program.ts";

const FIGURES = join(root, "test/bench/figures.json");
const PAGE = join(root, "docs/benchmarks.md");
const CHART = join(root, "docs/benchmarks.svg");
/** Between two measurements of the same thing on a shared machine, less says nothing. */
const NOTABLE = 0.2;

/** A row, measured several times: the medians, and from where to where they went. */
export interface Figure extends BenchRow {
  readonly min: number;
  readonly max: number;
  readonly minRatio?: number;
  readonly maxRatio?: number;
}

/** The rows of a bench, and where they were measured. */
export interface BenchFigures {
  readonly measuredAt: string;
  readonly processor: string;
  readonly processors: number;
  readonly memoryGb: number;
  /** Processes that wanted to run before the bench began, on average over a minute. */
  readonly load: number;
  readonly node: string;
  readonly agentd: string;
  readonly runs: number;
  readonly rows: readonly Figure[];
}

export type Figures = Readonly<Record<string, BenchFigures>>;

/** Runs a bench several times. */
export async function measure(run: () => Promise<readonly BenchRow[]>, runs: number): Promise<BenchFigures> {
  const [load = 0] = os.loadavg();
  const all: (readonly BenchRow[])[] = [];
  for (let n = 0; n < runs; n++) all.push(await run());
  return {
    measuredAt: new Date().toISOString().slice(0, 16),
    processor: os.cpus()[0]?.model.trim() || os.arch(),
    processors: os.availableParallelism(),
    memoryGb: Math.round(os.totalmem() / 2 ** 30),
    load: Math.round(load * 10) / 10,
    node: process.version,
    agentd: packageFile.version,
    runs,
    rows: toFigures(all),
  };
}

/** The figures of rows that were measured several times. A goal is met when it was met in more than half of the runs. */
export function toFigures(runs: readonly (readonly BenchRow[])[]): readonly Figure[] {
  return (runs[0] ?? []).map((first, index) => {
    const rows = runs.flatMap((run) => run[index] ?? []);
    const values = rows.map(({ value }) => value);
    const controls = rows.flatMap(({ control }) => control ?? []);
    const ratios = rows.flatMap(({ ratio }) => ratio ?? []);
    return {
      ...first,
      value: percentile(values, 50),
      min: Math.min(...values),
      max: Math.max(...values),
      ...(controls.length === 0 ? {} : { control: percentile(controls, 50) }),
      ...(ratios.length === 0
        ? {}
        : {
            ratio: percentile(ratios, 50),
            minRatio: Math.min(...ratios),
            maxRatio: Math.max(...ratios),
          }),
      ...(first.met === undefined ? {} : { met: rows.filter(({ met }) => met).length * 2 > rows.length }),
    };
  });
}

export async function readFigures(): Promise<Figures> {
  return JSON.parse(await readFile(FIGURES, "utf8").catch(() => "{}")) as Figures;
}

/** Replaces the figures of these benches and writes the page of all. */
export async function writeReport(measured: Figures): Promise<void> {
  const kept = { ...(await readFigures()), ...measured };
  const figures = Object.fromEntries(Object.entries(kept).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  await writeFile(FIGURES, `${JSON.stringify(figures, undefined, 2)}\n`);
  await writeFile(CHART, toChart(figures));
  await writeFile(PAGE, toPage(figures));
}

/** The page. */
export function toPage(figures: Figures): string {
  const sections = Object.entries(figures).map(([bench, { rows, ...of }]) =>
    toSection(bench, [madeOn(of), toTable(rows)]),
  );
  const missing = Object.keys(notes).filter((bench) => !Object.hasOwn(figures, bench));
  for (const bench of missing) sections.push(toSection(bench, ["Not measured for this page yet."]));
  return `${INTRODUCTION}\n${sections.join("\n")}`;
}

function toSection(bench: string, parts: readonly string[]): string {
  return `${[`## ${bench}`, ...parts, ...(notes[bench] ?? [])].join("\n\n")}\n`;
}

const INTRODUCTION = `# Benchmarks

Each figure is shown next to a control: a bare program that does the same work without agentd, measured in the same run.
Machines differ and drift; the ratio to the control is what you can compare. Value, control and ratio are medians of
the runs. The spread is the smallest and the largest value. Figures with a high load average were measured on a machine
that did other work: read their ratios, not their rates.

Measure them yourself, in a checkout:

<!-- not run: benches take minutes -->

\`\`\`sh
npm run bench -- chat-provider                       # one bench; without a name all of them
npm run bench -- --compare chat-provider             # compares with this page
npm run bench -- --report --runs=3 chat-provider     # writes this page with the new figures of that bench
\`\`\`

![The ratio of each row to its control](benchmarks.svg)
`;

function madeOn(of: Omit<BenchFigures, "rows">): string {
  const machine = `${of.processor}, ${of.processors} processors, ${of.memoryGb} GB`;
  const runs = of.runs === 1 ? "one run" : `${of.runs} runs`;
  return `agentd ${of.agentd}, Node ${of.node.replace("v", "")}, ${machine}; ${runs} on ${of.measuredAt.replace("T", " ")} UTC, load average ${of.load}.`;
}

function toTable(rows: readonly Figure[]): string {
  const lines = rows.map((row) =>
    [
      row.name.trim(),
      `${short(row.value)} ${row.unit}`,
      `${short(row.min)} to ${short(row.max)}`,
      row.control === undefined ? "" : short(row.control),
      row.ratio === undefined ? "" : `${row.ratio.toFixed(2)}x`,
      row.goal ?? "",
      row.met === undefined ? "" : row.met ? "yes" : "no",
    ]
      .map((cell) => cell.replaceAll("|", "\\|").replaceAll("<", "&lt;"))
      .join(" | "),
  );
  const head = ["What", "Value", "Spread", "Control", "Ratio", "Goal", "Met"];
  return [head.join(" | "), head.map(() => "---").join(" | "), ...lines]
    .map((line) => `| ${line} |`)
    .join("\n");
}

function short(value: number): string {
  return value >= 100 ? Math.round(value).toString() : value.toFixed(value >= 10 ? 1 : 2);
}

/** What changed since the page was written, one line for each row that both have. */
export function compareFigures(before: Figures, now: Figures): readonly string[] {
  return Object.entries(now).flatMap(([bench, { rows }]) =>
    rows.flatMap((row) => {
      const old = before[bench]?.rows.find(({ name }) => name === row.name);
      return old ? [`${bench}: ${row.name.trim()}: ${describeChange(old, row)}`] : [];
    }),
  );
}

/** By the ratio to the control where there is one: the control feels the machine's load, too. */
function describeChange(old: Figure, row: Figure): string {
  const hasRatio = old.ratio !== undefined && row.ratio !== undefined;
  const [from = 0, to = 0] = hasRatio ? [old.ratio, row.ratio] : [old.value, row.value];
  const unit = hasRatio ? "x of the control" : ` ${row.unit}`;
  const change = from === 0 ? 0 : to / from - 1;
  const isWorse = row.unit.endsWith("/s") ? change < -NOTABLE : change > NOTABLE;
  const sign = change < 0 ? "" : "+";
  return `${short(from)} -> ${short(to)}${unit} (${sign}${Math.round(change * 100)} %)${isWorse ? " WORSE" : ""}`;
}
