import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { requestSteer } from "../../../src/agent/run/control.ts";
import { testDialect } from "../../harness/store.ts";
import { createTestAgent, testTool } from "../../harness/agent.ts";

/** Speaks until it is stopped or `gate` opens; what it is told meanwhile it repeats at the end. */
function talker(gate: Promise<void>) {
  return ({
    signal,
    step,
    messages,
  }: {
    signal: AbortSignal;
    step: number;
    messages: readonly { role: string }[];
  }) => {
    if (step > 0) return { text: `heard: ${lastUserText(messages)}` };
    const stopped = new Promise<void>((resolve) =>
      signal.addEventListener("abort", () => resolve(), { once: true }),
    );
    async function* words() {
      yield "working";
      await Promise.race([gate, stopped]);
    }
    return { text: words() };
  };
}

function lastUserText(messages: readonly { role: string }[]): string {
  const last = messages.findLast(({ role }) => role === "user");
  return (last as { text?: string } | undefined)?.text ?? "";
}

test("a run is stopped from another process: stopping at once, cancelled when it has really ended", async () => {
  await using agent = await createTestAgent({ script: talker(new Promise(() => {})) });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { runId } = await agent.submit("go", { id: "s" });
  await agent.event(runId, "message.delta");
  assert.equal(await other.runs.stop(runId, "enough"), true);
  const types = (await agent.events(runId)).map(({ type }) => type);
  assert.deepEqual(types.slice(-1), ["run.cancelled"]);
  assert.equal(types.filter((type) => type === "run.stopping").length, 1);
  assert.equal((await other.run(runId)).status, "cancelled");
  assert.equal(await other.runs.stop(runId, "again"), false);
});

test("a run that waits for approval is stopped from another process, and its question is closed", async () => {
  await using agent = await createTestAgent({
    script: ({ step }) =>
      step === 0 ? { calls: [{ tool: "terminal", input: { command: "rm -rf x" } }] } : {},
    tools: [testTool(async () => "ran")],
  });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  await agent.event(runId, "approval.request");
  assert.equal(await other.runs.stop(runId, "enough"), true);
  const types = (await agent.events(runId)).map(({ type }) => type);
  assert.ok(types.includes("approval.expired"));
  assert.equal(types.at(-1), "run.cancelled");
  assert.deepEqual(await other.deps.questions.open({ runId }), []);
});

test("text from another process reaches the model at its next step, once", async () => {
  await using agent = await createTestAgent({
    script: ({ messages }) => {
      const said = lastUserText(messages);
      return said === "go"
        ? { calls: [{ tool: "terminal", input: { command: "true" } }] }
        : { text: `heard: ${said}` };
    },
    tools: [
      testTool(async () => {
        await sleep(20);
        return "nothing yet";
      }),
    ],
    settings: { maxSteps: 1000 },
  });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { runId } = await agent.submit("go", { id: "s" });
  assert.equal(await other.runs.steer(runId, "be quick"), true);
  const events = await agent.events(runId);
  assert.equal(events.filter(({ type }) => type === "run.steer_accepted").length, 1);
  assert.equal(events.filter(({ type }) => type === "run.steered").length, 1);
  assert.equal(events.at(-1)!.data["output"], "heard: be quick");
});

test("text that another process gave as the run ended comes back in its final event", async () => {
  await using agent = await createTestAgent();
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const release = Promise.withResolvers<void>();
  const { engine } = agent.deps;
  const { runTurn } = engine;
  Object.assign(engine, {
    runTurn: async (turn: Parameters<typeof runTurn>[0]) => {
      await release.promise;
      const end = await runTurn.call(engine, turn);
      // The turn is over and takes no more steps, but its end is not committed yet.
      assert.equal(await other.runs.steer(turn.runId, "too late"), true);
      return end;
    },
  });
  const { runId } = await agent.submit("go", { id: "s" });
  release.resolve();
  const final = (await agent.events(runId)).at(-1)!;
  assert.equal(final.type, "run.completed");
  assert.deepEqual(final.data["pending_steer"], ["too late"]);
  assert.deepEqual(JSON.parse((await agent.run(runId)).pending_steer!), ["too late"]);
});

test(
  "text whose transaction is open as the run ends is waited for",
  { skip: testDialect === "sqlite" && "there is one writer at a time" },
  async () => {
    const gate = Promise.withResolvers<void>();
    await using agent = await createTestAgent({ script: talker(gate.promise) });
    await using other = await createTestAgent({ database: agent.databaseUrl });
    const { runId } = await agent.submit("go", { id: "s" });
    await agent.event(runId, "message.delta");
    assert.equal(await other.runs.steer(runId, "first"), true);
    const accepted = other.store.write(async (tx) => {
      const { taken } = await requestSteer(tx, other.store, runId, "second");
      gate.resolve();
      await sleep(150); // the run ends meanwhile, if nothing keeps it from it
      return taken;
    });
    assert.equal(await accepted, true);
    const events = await agent.events(runId);
    const told = events.filter(({ type }) => type === "run.steered").map(({ data }) => data["text"]);
    const left = (events.at(-1)!.data["pending_steer"] ?? []) as string[];
    assert.deepEqual([...told, ...left].toSorted(), ["first", "second"]);
  },
);

test("a run that is queued, over or unknown takes no text from another process", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({ script: talker(gate.promise) });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const first = await agent.submit("go", { id: "s" });
  const second = await agent.submit("next", { id: "s" });
  assert.equal(await other.runs.steer(second.runId, "x"), false);
  assert.equal(await other.runs.steer("run_nope", "x"), false);
  gate.resolve();
  await agent.events(first.runId);
  await agent.events(second.runId);
  assert.equal(await other.runs.steer(first.runId, "x"), false);
});

test("a run's own process does not read its events again to hear requests", async (t) => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({ script: talker(gate.promise) });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { journal } = agent.store;
  const follow = t.mock.method(journal, "follow");
  const read = t.mock.method(journal, "read");
  const listen = t.mock.method(journal, "listen");
  const { runId } = await agent.submit("go", { id: "s" });
  assert.equal(await other.runs.steer(runId, "be quick"), true);
  gate.resolve();
  await other.events(runId);
  assert.deepEqual([follow.mock.callCount(), read.mock.callCount()], [0, 0]);
  assert.equal(listen.mock.callCount(), 1);
});
