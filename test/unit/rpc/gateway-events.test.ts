import assert from "node:assert/strict";
import { test } from "node:test";
import { gatewayEvents } from "../../../generated/gateway/host.gen.ts";
import type { SessionInfo } from "../../../generated/gateway/types/types.gen.ts";
import { GatewayReducer } from "../../../src/rpc/events/gateway-events.ts";
import { rpcSchemas } from "../../../src/rpc/connection/calls.ts";
import { contextLine } from "../../../src/rpc/events/payloads.ts";

type Entry = readonly [type: string, data: Readonly<Record<string, unknown>>];

/** Tells of entries of one run, each held to the spec. */
function project(...entries: readonly Entry[]) {
  const reducer = new GatewayReducer("s");
  return entries.map(([type, data], at) => {
    const entry = { sessionId: "s", seq: at + 1, runId: "run_1", runSeq: at + 1, type, data, atMs: 5 };
    const projected = reducer.project(entry);
    assert.equal(
      projected.filter(({ seq }) => seq === at + 1).length,
      1,
      `${type} gives one event with its number`,
    );
    for (const event of projected) {
      const issues = rpcSchemas.check(gatewayEvents[event.type].event, event);
      assert.equal(issues, undefined, `${event.type}: ${JSON.stringify(issues)}`);
    }
    return projected[0];
  });
}

const about = { session_id: "s", model: "demo:demo", kind: "run" };
const started: readonly Entry[] = [
  ["run.queued", about],
  ["run.started", about],
];
const usage = {
  input_tokens: 1,
  output_tokens: 2,
  total_tokens: 3,
  cached_input_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  cost_usd: null,
  model_calls: 1,
  tool_calls: 0,
};

test("sub-agent events carry the goal from start to end", () => {
  const start = {
    subagent_id: "run_2",
    tool_call_id: "c",
    parent_id: "run_1",
    child_session_id: "t",
    goal: "look",
    depth: 1,
    task_index: 0,
    task_count: 1,
    model: "demo:demo",
  };
  const projected = project(
    ...started,
    ["subagent.start", start],
    ["subagent.tool", { subagent_id: "run_2", tool: "read_file", tool_count: 1 }],
    ["subagent.progress", { subagent_id: "run_2", text: "on it" }],
    ["subagent.complete", { subagent_id: "run_2", status: "cancelled", duration_seconds: 1, usage }],
  );
  const payloads = projected.slice(2).map((event) => event?.payload as unknown as Record<string, unknown>);
  assert.deepEqual(
    payloads.map(({ goal, status, tool_count: count }) => [goal, status, count]),
    [
      ["look", "running", undefined],
      ["look", "running", 1],
      ["look", "running", 1],
      ["look", "interrupted", 1],
    ],
  );
});

test("message.complete reports how a turn ended", () => {
  const ends: readonly Entry[] = [
    ["run.completed", { output: "x", usage, stop: "length" }],
    ["run.failed", { error: { code: "provider_error", message: "away" }, usage }],
    ["run.cancelled", { reason: "stop", pending_steer: ["late"] }],
    ["run.interrupted", { error: { code: "interrupted", message: "gone" } }],
  ];
  const payloads = ends.map(
    (end) => project(...started, end).at(-1)?.payload as unknown as Record<string, unknown>,
  );
  assert.deepEqual(
    payloads.map(({ status }) => status),
    ["complete", "error", "interrupted", "interrupted"],
  );
  assert.match(String(payloads[0]?.["warning"]), /maximum length/);
  assert.deepEqual(payloads[1]?.["error_info"], {
    code: "provider_error",
    retryable: true,
    layer: "provider",
  });
  assert.deepEqual(payloads[2]?.["undelivered_steer"], ["late"]);
});

test("entries without an event of their own become status updates, so that no number is missing", () => {
  const projected = project(
    ...started,
    ["run.steer_accepted", { steer_id: "a", text: "b" }],
    ["run.steered", { steer_id: "a", text: "b" }],
    ["compression.started", { reason: "near_limit" }],
    [
      "compression.completed",
      { status: "compressed", before_messages: 9, after_messages: 3, before_tokens: 9, after_tokens: 3 },
    ],
    ["run.notice", { message: "trying again" }],
    ["run.stopping", {}],
    ["something.new", {}],
  );
  assert.deepEqual(new Set(projected.slice(2).map((event) => event?.type)), new Set(["status.update"]));
});

test("a run that resumes in another process starts no second turn", () => {
  const projected = project(
    ...started,
    ["run.started", about],
    ["run.completed", { output: "x", usage, stop: "end" }],
  );
  assert.deepEqual(
    projected.map((event) => event?.type),
    ["session.queue", "message.start", "status.update", "message.complete"],
  );
});

test("a compression is not a turn", () => {
  const compression = { ...about, kind: "compression" };
  const projected = project(
    ["run.queued", compression],
    ["run.started", compression],
    ["run.completed", { output: "", usage, stop: "end" }],
  );
  assert.deepEqual(
    projected.map((event) => event?.type),
    ["session.queue", "status.update", "status.update"],
  );
});

test("the context of a call is one line of at most 80 characters", () => {
  const line = contextLine(`a\n${"😀".repeat(100)}`);
  assert.equal(Array.from(line).length, 80);
  assert.doesNotMatch(line, /\n/);
});

test("a call that the model begins to write is reported by its name", () => {
  const reducer = new GatewayReducer("s");
  const entry = { sessionId: "s", seq: 1, runId: "run_1", runSeq: 1, atMs: 1, type: "tool.generating" };
  const [event] = reducer.project({ ...entry, data: { tool: "terminal" } });
  assert.deepEqual([event?.type, event?.seq, event?.payload], ["tool.generating", 1, { name: "terminal" }]);
});

test("a new title gives its own event, and a session.info without a number, also during a turn", () => {
  const reducer = new GatewayReducer("s");
  const entry = (seq: number, [type, data]: Entry, runId: string | null = "run_1") => ({
    sessionId: "s",
    seq,
    runId,
    runSeq: seq,
    type,
    data,
    atMs: 5,
  });
  started.forEach((each, at) => reducer.project(entry(at + 1, each)));
  const title = entry(3, ["session.updated", { title: "New" }], null);
  const info = { running: false, title: "New" } as unknown as SessionInfo;
  assert.equal(reducer.wantsInfo(title), true);
  const projected = reducer.project(title, { info });
  assert.deepEqual(
    projected.map(({ type, seq }) => [type, seq]),
    [
      ["session.title", 3],
      ["session.info", undefined],
    ],
  );
  assert.equal((projected[1] as { payload: SessionInfo } | undefined)?.payload.running, true);
  assert.equal(reducer.hasTrailer(title), true);
  assert.equal(reducer.hasTrailer(entry(4, ["session.updated", { model: "demo:demo" }], null)), false);
});
