import assert from "node:assert/strict";
import { test } from "node:test";
import { compareFigures, toFigures, toPage, type BenchFigures } from "../../bench/report.ts";
import { toChart } from "../../bench/report-chart.ts";
import type { BenchRow } from "../../bench/row.ts";

const row = (value: number, more: Partial<BenchRow> = {}): BenchRow => ({
  name: "a",
  value,
  unit: "ms",
  ...more,
});
const figures = (...runs: readonly (readonly BenchRow[])[]): BenchFigures => ({
  measuredAt: "2026-01-02T03:04",
  processor: "p",
  processors: 2,
  memoryGb: 8,
  load: 0.5,
  node: "v24.0.0",
  agentd: "1.0.0",
  runs: runs.length,
  rows: toFigures(runs),
});

test("a row of several runs has their medians and their spread, and meets its goal in more than half of them", () => {
  const runs = [
    [row(3, { control: 1, ratio: 3, met: true })],
    [row(1, { control: 1, ratio: 1, met: false })],
    [row(2, { control: 1, ratio: 2, met: false })],
  ];
  const expected = { value: 2, min: 1, max: 3, control: 1, ratio: 2, minRatio: 1, maxRatio: 3, met: false };
  assert.deepEqual(toFigures(runs), [{ name: "a", unit: "ms", ...expected }]);
});

test("a comparison names what became worse: more milliseconds, but fewer chats a second", () => {
  const before = { b: figures([row(10), row(10, { name: "rate", unit: "chats/s", control: 5, ratio: 2 })]) };
  const now = { b: figures([row(13), row(5, { name: "rate", unit: "chats/s", control: 5, ratio: 1 })]) };
  assert.deepEqual(compareFigures(before, now), [
    "b: a: 10.0 -> 13.0 ms (+30 %) WORSE",
    "b: rate: 2.00 -> 1.00x of the control (-50 %) WORSE",
  ]);
  assert.deepEqual(
    compareFigures(now, before).filter((line) => line.includes("WORSE")),
    [],
  );
  assert.deepEqual(compareFigures({}, now), []);
});

test("the page says where a bench was measured, and neither it nor the chart takes a goal for markup", () => {
  const all = {
    b: figures([row(1, { name: "a <b> | c", goal: "< 2 ms", ratio: 0.001, control: 1, met: true })]),
  };
  const page = toPage(all);
  assert.match(
    page,
    /Node 24\.0\.0, p, 2 processors, 8 GB; one run on 2026-01-02 03:04 UTC, load average 0\.5\./,
  );
  assert.match(page, /\| a &lt;b> \\\| c \| 1\.00 ms \|.*\| &lt; 2 ms \| yes \|/);
  assert.match(toChart(all), /<text [^>]*>a &lt;b&gt; \| c<\/text>/);
  assert.doesNotMatch(toChart(all), /NaN|Infinity/);
});
