import assert from "node:assert/strict";
import { test } from "node:test";
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { ToolCalls, LIVE_INTERVAL_MS } from "../../../src/acp/tools/calls.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import type { JournalEvent } from "../../../src/store/journal/journal.ts";

const event = (type: string, data: object): JournalEvent => ({
  seq: 1,
  runSeq: 1,
  runId: "run_1",
  sessionId: "s",
  type,
  data: { tool_call_id: "c", tool: "terminal", ...data },
  atMs: 0,
});

/** What is told of a command that says a line every `everyMs`, `lines` times. */
async function toldOf(
  command: string,
  lines: number,
  everyMs = LIVE_INTERVAL_MS,
): Promise<readonly SessionUpdate[]> {
  const clock = new FakeClock();
  const told: SessionUpdate[] = [];
  const send = async (update: SessionUpdate) => void told.push(update);
  const calls = new ToolCalls({ features: { terminalOutput: "no" }, cwd: "/", clock, send });
  await calls.take(event("tool.started", { arguments: { command } }));
  for (let line = 0; line < lines; line++) {
    await calls.take(event("tool.progress", { delta: `line ${line}\n` }));
    clock.tick(everyMs);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  await calls.take(event("tool.completed", { status: "ok", result: "done" }));
  return told;
}

const texts = (update: SessionUpdate | undefined) => JSON.stringify(update);

test("a long command is sent at its start and end, not with every output update", async () => {
  const command = `cat <<'END'\n${"word ".repeat(10_000)}\nEND`;
  const told = await toldOf(command, 20);
  assert.ok(told.filter((update) => texts(update).includes("line 3")).length > 0);
  const whole = told.filter((update) => texts(update).length > command.length);
  assert.deepEqual(
    whole.map(({ sessionUpdate }) => sessionUpdate),
    ["tool_call", "tool_call_update"],
  );
  assert.match(texts(told.at(-1)), /word word .*done/);
});

test("a short command precedes its live output", async () => {
  const live = (await toldOf("make all", 3)).filter((update) => texts(update).includes("line 0"));
  assert.ok(live.length > 0);
  assert.ok(live.every((update) => texts(update).includes("$ make all")));
});

test("live output is sent at most four times a second", async () => {
  const told = await toldOf("make all", 80, 25);
  const live = told.filter((update) => texts(update).includes("line ") && !texts(update).includes("done"));
  // Two seconds of output, and what comes at once at their beginning.
  assert.equal(live.length, 2 * 4 + 1);
  assert.match(texts(live.at(-1)), /line 79/);
});
