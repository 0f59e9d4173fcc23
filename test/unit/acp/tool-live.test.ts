import assert from "node:assert/strict";
import { test } from "node:test";
import { LivePieces, LiveTail, Throttle, ToolSubagents } from "../../../src/acp/tools/calls.ts";
import { FakeClock } from "../../harness/fake-clock.ts";

test("updates of slow output never exceed twice its size plus the allowance", () => {
  const live = new LiveTail();
  let told = 0;
  for (let at = 0; at < 5_000; at++) {
    live.push(`line ${at} of an output\n`);
    told += Buffer.byteLength(live.take()?.text ?? "");
  }
  assert.ok(told <= 2 * 5_000 * 25 + 16_384, String(told));
});

test("a tail is the end of the output, and is returned only after new output", () => {
  const live = new LiveTail();
  live.push("a".repeat(10_000));
  live.push("the end");
  const taken = live.take();
  assert.ok(taken?.text.endsWith("the end"));
  assert.equal(taken?.text.length, 8_192);
  assert.equal(taken?.omittedBytes, 10_007 - 8_192);
  assert.equal(live.take(), undefined);
});

test("replaced text does not count as omitted", () => {
  const live = new LiveTail();
  live.replace("1. waits");
  live.replace("1. running");
  assert.deepEqual(live.take(), { text: "1. running", omittedBytes: 0 });
  live.replace("1. running");
  assert.equal(live.take(), undefined);
});

test("each piece is returned once and says how much was omitted", () => {
  const pieces = new LivePieces();
  pieces.push("one ");
  pieces.push("two");
  assert.equal(pieces.take(), "one two");
  assert.equal(pieces.take(), undefined);
  pieces.push("x".repeat(9_000));
  assert.match(pieces.take() ?? "", /^\n\[808 bytes omitted\]\nx{8192}$/);
  assert.equal(pieces.seenBytes, 9_007);
});

test("a throttle runs at once, then at most once per interval, and never after its stop", async () => {
  const clock = new FakeClock();
  let runs = 0;
  const pace = new Throttle(clock, 250, async () => void runs++);
  for (let at = 0; at < 10; at++) pace.request();
  await settled();
  assert.equal(runs, 1);
  clock.tick(100);
  pace.request();
  await settled();
  assert.equal(runs, 1);
  clock.tick(150);
  await settled();
  assert.equal(runs, 2);
  pace.request();
  pace.stop();
  clock.tick(1_000);
  await settled();
  assert.equal(runs, 2);
});

test("sub-agents are listed in the call that started them", () => {
  const subagents = new ToolSubagents();
  const event = (type: string, data: object) =>
    subagents.take({ type, data: { subagent_id: "run_1", ...data } });
  assert.equal(event("subagent.tool", { tool: "terminal", tool_count: 1 }), undefined);
  assert.equal(event("subagent.spawn_requested", { tool_call_id: "call_1", goal: "Find\nout" }), "call_1");
  assert.equal(event("subagent.start", { tool_call_id: "call_1" }), "call_1");
  assert.equal(event("subagent.tool", { tool: "terminal", preview: "Run: ls", tool_count: 2 }), "call_1");
  assert.equal(subagents.text("call_1"), "1. Find out\n   running, 2 tool calls: Run: ls");
  event("subagent.complete", { status: "completed", summary: "It is so." });
  assert.match(subagents.text("call_1"), /completed, 2 tool calls: It is so\.$/);
  assert.equal(subagents.text("call_2"), "");
});

async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}
