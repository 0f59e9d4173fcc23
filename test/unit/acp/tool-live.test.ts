import assert from "node:assert/strict";
import { test } from "node:test";
import { LivePieces, LiveTail, Throttle, ToolSubagents } from "../../../src/acp/tools/live.ts";
import { FakeClock } from "../../../src/base/clock.ts";

test("what is told of an output that comes slowly never exceeds twice the output and a little", () => {
  const live = new LiveTail();
  let told = 0;
  for (let at = 0; at < 5_000; at++) {
    live.push(`line ${at} of an output\n`);
    told += Buffer.byteLength(live.take()?.text ?? "");
  }
  assert.ok(told <= 2 * 5_000 * 25 + 16_384, String(told));
});

test("a tail is the end of the output; without anything new there is none", () => {
  const live = new LiveTail();
  live.push("a".repeat(10_000));
  live.push("the end");
  const taken = live.take();
  assert.ok(taken?.text.endsWith("the end"));
  assert.equal(taken?.text.length, 8_192);
  assert.equal(taken?.omittedBytes, 10_007 - 8_192);
  assert.equal(live.take(), undefined);
});

test("a text that another came in place of is not missing", () => {
  const live = new LiveTail();
  live.replace("1. waits");
  live.replace("1. at work");
  assert.deepEqual(live.take(), { text: "1. at work", omittedBytes: 0 });
  live.replace("1. at work");
  assert.equal(live.take(), undefined);
});

test("pieces come once, and say what was left out between them", () => {
  const pieces = new LivePieces();
  pieces.push("one ");
  pieces.push("two");
  assert.equal(pieces.take(), "one two");
  assert.equal(pieces.take(), undefined);
  pieces.push("x".repeat(9_000));
  assert.match(pieces.take() ?? "", /^\n\[808 bytes omitted\]\nx{8192}$/);
  assert.equal(pieces.seenBytes, 9_007);
});

test("a pace runs at once, then at most every so often, and never after its stop", async () => {
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

test("sub-agents are a list in the call that asked for them", () => {
  const subagents = new ToolSubagents();
  const event = (type: string, data: object) =>
    subagents.take({ type, data: { subagent_id: "run_1", ...data } });
  assert.equal(event("subagent.tool", { tool: "terminal", tool_count: 1 }), undefined);
  assert.equal(event("subagent.spawn_requested", { tool_call_id: "call_1", goal: "Find\nout" }), "call_1");
  assert.equal(event("subagent.start", { tool_call_id: "call_1" }), "call_1");
  assert.equal(event("subagent.tool", { tool: "terminal", preview: "Run: ls", tool_count: 2 }), "call_1");
  assert.equal(subagents.text("call_1"), "1. Find out\n   at work, 2 tool calls: Run: ls");
  event("subagent.complete", { status: "completed", summary: "It is so." });
  assert.match(subagents.text("call_1"), /completed, 2 tool calls: It is so\.$/);
  assert.equal(subagents.text("call_2"), "");
});

async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}
