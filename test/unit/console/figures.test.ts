import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  RunStep,
  RunTrace,
  UsageBucket,
  UsageResult,
} from "../../../generated/http/client/types.gen.ts";
import { curlOf, timelineOf } from "../../../src/console/pages/run/timeline.ts";
import { dailyOf, groupsOf, totalOf } from "../../../src/console/pages/usage-totals.ts";

function step(id: string, startedAt: number, seconds: number | null): RunStep {
  return {
    id,
    kind: "tool",
    name: id,
    parent_id: null,
    status: seconds === null ? "running" : "ok",
    started_at: startedAt,
    duration_seconds: seconds,
    first_output_seconds: null,
    preview: null,
    arguments: null,
    result: null,
    omitted_characters: 0,
    run_id: null,
    usage: null,
  };
}

function trace(endedAt: number | null, steps: RunStep[]): RunTrace {
  return {
    object: "agent.run.trace",
    run_id: "run_1",
    status: endedAt === null ? "running" : "completed",
    started_at: 100,
    ended_at: endedAt,
    duration_seconds: endedAt === null ? null : endedAt - 100,
    is_truncated: false,
    steps,
  };
}

test("steps lie on the line where they were, and a running one lasts until now", () => {
  const done = timelineOf(trace(110, [step("a", 100, 4), step("b", 104, 6)]), 999);
  assert.deepEqual(
    done.bars.map(({ left, width }) => [left, width]),
    [
      [0, 0.4],
      [0.4, 0.6],
    ],
  );
  const running = timelineOf(trace(null, [step("a", 100, 4), step("b", 104, null)]), 108);
  assert.deepEqual([running.seconds, running.bars[1]?.duration], [8, 4]);
});

test("the line has at most seven marks at round times, from the start on", () => {
  for (const seconds of [0.004, 0.07, 0.9, 1, 4.2, 6, 59, 3_600, 90_000]) {
    const { marks } = timelineOf(trace(100 + seconds, []), 0);
    assert.ok(marks.length >= 2 && marks.length <= 7, `${marks.length} marks in ${seconds} s`);
    assert.equal(marks[0]?.seconds, 0);
    assert.ok(marks.every(({ left }) => left <= 1 + 1e-9));
  }
});

test("a run without any time has a line all the same", () => {
  const { bars } = timelineOf(trace(100, [step("a", 100, 0)]), 100);
  assert.deepEqual([bars[0]?.left, bars[0]?.width], [0, 0]);
});

test("the command that repeats a run survives quotes", () => {
  const command = curlOf("http://127.0.0.1:8642", { model: "demo:demo" }, 'it\'s "quoted"');
  assert.ok(command.includes(`it'\\''s`));
});

function result(model: string, more: Partial<UsageResult>): UsageResult {
  return {
    model,
    owner: null,
    key: null,
    source: null,
    kind: null,
    runs: 1,
    failed_runs: 0,
    model_calls: 1,
    tool_calls: 0,
    input_tokens: 10,
    cached_input_tokens: 0,
    cache_write_tokens: 0,
    output_tokens: 5,
    reasoning_tokens: 0,
    cost_usd: null,
    unpriced_tokens: 0,
    ...more,
  };
}

function day(start: number, results: UsageResult[]): UsageBucket {
  return { object: "agent.usage.bucket", start_at: start, end_at: start + 86_400, results, truncated: false };
}

const DAYS = [
  day(86_400, [result("a:x", { input_tokens: 90, cost_usd: 0.5 }), result("b:y", { failed_runs: 1 })]),
  day(0, [result("b:y", { input_tokens: 20, cost_usd: 0.25 })]),
];

test("usage of days is summed by group, and a cost is unknown only where no call has a price", () => {
  assert.deepEqual([totalOf(DAYS).runs, totalOf(DAYS).cost_usd, totalOf(DAYS).failed_runs], [3, 0.75, 1]);
  assert.equal(totalOf([day(0, [result("a:x", {})])]).cost_usd, null);
  const groups = groupsOf(DAYS, "model");
  assert.deepEqual(
    groups.map(({ name, total }) => [name, total.input_tokens]),
    [
      ["a:x", 90],
      ["b:y", 30],
    ],
  );
});

test("groups without a series of their own share one", () => {
  const valueOf = ({ input_tokens: tokens }: UsageResult) => tokens;
  assert.deepEqual(dailyOf(DAYS, { by: "model", valueOf, names: ["a:x"] }), [
    { name: "a:x", values: [90, 0] },
    { name: "Others", values: [10, 20] },
  ]);
});
