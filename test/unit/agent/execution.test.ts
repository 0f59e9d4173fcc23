import assert from "node:assert/strict";
import { test } from "node:test";
import type { Engine, EngineTurn } from "../../../src/agent/engine.ts";
import { zeroUsage } from "../../../src/agent/usage/usage.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { callsOnce, createTestAgent, testTool } from "../../harness/agent.ts";

/** An engine that shows what it was given, and ends at once. */
function spyEngine(seen: EngineTurn[]): Engine {
  return {
    name: "spy",
    runTurn: async (turn) => {
      seen.push(turn);
      return { stop: "end", text: "ok", usage: zeroUsage };
    },
  };
}

test("a run that takes longer than it may fails as agent_timeout, and the session continues", async () => {
  const clock = new FakeClock();
  const working = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    clock,
    settings: { runTimeoutMs: 5_000 },
    script: ({ signal, user }) => {
      if (user === "next") return { text: "fine" };
      working.resolve();
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  });
  const { runId } = await agent.submit("slow", { id: "s" });
  await working.promise;
  clock.tick(4_999);
  assert.equal((await agent.run(runId)).status, "running");
  clock.tick(1);
  const final = (await agent.events(runId)).at(-1);
  assert.equal(final?.type, "run.failed");
});

test("the engine gets the transcript, the instructions in order, the place, the tools and the settings", async () => {
  const seen: EngineTurn[] = [];
  const tool = testTool(async () => "ok");
  await using agent = await createTestAgent({ engine: spyEngine(seen), tools: [tool] });
  const first = await agent.submit("one", { id: "s" });
  await agent.events(first.runId);
  const second = await agent.submit("two", {
    id: "s",
    input: {
      prompt: [{ role: "user", text: "two" }],
      instructions: "Speak softly.",
      settings: { temperature: 0.5 },
      answerable: false,
    },
  });
  await agent.events(second.runId);
  const turn = seen[1]!;
  assert.deepEqual(turn.messages, [
    { role: "user", text: "one" },
    { role: "user", text: "two" },
  ]);
  assert.match(turn.instructions, /^Be good\.\n\nYour tools work in \/workspace\.\n\nSpeak softly\.$/);
  assert.deepEqual(turn.model, { provider: "demo", id: "demo" });
  assert.deepEqual(turn.settings, { temperature: 0.5 });
  assert.deepEqual(
    turn.tools.map(({ name }) => name),
    ["terminal"],
  );
});

test("a run may narrow its tools to some sets, or to none", async () => {
  const seen: EngineTurn[] = [];
  await using agent = await createTestAgent({ engine: spyEngine(seen), tools: [testTool(async () => "ok")] });
  for (const toolsets of [["terminal"], ["files"], []]) {
    const input = {
      prompt: [{ role: "user" as const, text: "x" }],
      settings: {},
      answerable: false,
      toolsets,
    };
    await agent.events((await agent.submit("x", { input })).runId);
  }
  assert.deepEqual(
    seen.map(({ tools }) => tools.length),
    [1, 0, 0],
  );
});

test("steering that comes after the turn is over is not taken", async () => {
  await using agent = await createTestAgent();
  const { runId } = await agent.submit("go");
  await agent.events(runId);
  assert.equal(await agent.runs.steer(runId, "too late"), false);
});

test("steering that no step took is handed back with the run's end", async () => {
  const gate = Promise.withResolvers<void>();
  const engine: Engine = {
    name: "deaf",
    runTurn: async () => (await gate.promise, { stop: "end", text: "", usage: zeroUsage }),
  };
  await using agent = await createTestAgent({ engine });
  const { runId } = await agent.submit("go");
  assert.equal(await agent.runs.steer(runId, "hello?"), true);
  gate.resolve();
  const final = (await agent.events(runId)).at(-1);
  assert.deepEqual(final?.data["pending_steer"], ["hello?"]);
});

test("on_timeout cancel stops the whole run when no answer comes", async () => {
  const clock = new WatchedClock();
  await using agent = await createTestAgent({
    clock,
    tools: [testTool(async () => "ran")],
    script: callsOnce("rm -rf build"),
    settings: {
      questionTimeouts: { approvalMs: 1_000, clarifyMs: 0, passwordMs: 0 },
      onApprovalTimeout: "cancel",
    },
  });
  const { runId } = await agent.submit("go", { answerable: true });
  await agent.event(runId, "approval.request");
  const events = await clock.tickUntil(agent.events(runId), 1_000);
  assert.equal(events.at(-1)?.type, "run.cancelled");
});
