import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunView } from "../../../src/agent/run/run.ts";
import { traceOf } from "../../../src/agent/run/trace.ts";

const run = {
  id: "run_1",
  status: "waiting_for_approval",
  model: "demo:demo",
  created_at: 1_000,
  started_at: 1_000,
  ended_at: null,
  usage: null,
} as RunView;

test("of steps that begin in the same millisecond, a question comes after its tool call, and that after the model", () => {
  const events = [
    { type: "message.started", atMs: 1_000, data: {} },
    { type: "tool.started", atMs: 1_000, data: { tool_id: "call_1", name: "terminal" } },
    { type: "approval.request", atMs: 1_000, data: { request_id: "ask_1", tool_call_id: "call_1" } },
  ];
  const { steps } = traceOf(run, { events, isTruncated: false, hasContent: false });
  assert.deepEqual(
    steps.map(({ kind }) => kind),
    ["model", "tool", "question"],
  );
});
