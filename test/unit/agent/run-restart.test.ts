/** Runs that start again when their process is gone before they did anything. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import type { Prompt } from "../../../src/agent/run/run.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";

const GHOST = { lease_owner: "process-that-never-was", lease_until: 1 };

function detached(text: string, more: object = { startsAgain: true }): Partial<Prompt> {
  const prompt = [{ role: "user", text }] as const;
  return { input: { prompt, settings: {}, answerable: false, isDetached: true, ...more } };
}

/** A model that is never done, as a process has it that is killed then. */
function hanging() {
  const begun = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const script: Script = async (turn) => {
    begun.resolve();
    await release.promise;
    return callsOnce("ls")(turn);
  };
  return { begun: begun.promise, release: release.resolve, script };
}

/** The session's lease is somebody's who is gone: as after a kill, or a sleep that was too long. */
async function lose(agent: TestAgent): Promise<void> {
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s1" }, GHOST)));
}

test("a run whose process is gone during the first answer starts again, with its prompt once in the transcript", async () => {
  const model = hanging();
  await using one = await createTestAgent({ script: model.script });
  const { runId } = await one.submit("", { id: "s1", ...detached("hello") });
  await model.begun;
  await lose(one);
  await using two = await createTestAgent({
    database: one.databaseUrl,
    script: ({ user }) => ({ text: `did ${user}` }),
  });
  assert.equal(await two.recovery.recover(), 1);
  const types = (await two.events(runId)).map(({ type }) => type);
  assert.equal(types.filter((type) => type === "run.started").length, 2);
  assert.ok(types.includes("run.notice"));
  assert.deepEqual(
    [(await two.run(runId)).status, (await two.run(runId)).output],
    ["completed", "did hello"],
  );
  assert.deepEqual(
    (await two.transcript("s1")).map(({ role }) => role),
    ["user", "assistant"],
  );
  model.release();
});

test("a process that slept while its run was started again elsewhere runs none of its tools", async () => {
  const model = hanging();
  let deeds = 0;
  const tools = [testTool(async () => `deed ${(deeds += 1)}`)];
  await using one = await createTestAgent({ script: model.script, tools });
  const { runId } = await one.submit("", { id: "s1", ...detached("hello") });
  await model.begun;
  await lose(one);
  await using two = await createTestAgent({ database: one.databaseUrl, script: callsOnce("ls"), tools });
  assert.equal(await two.recovery.recover(), 1);
  await two.events(runId);
  assert.deepEqual([(await two.run(runId)).output, deeds], ["ok: deed 1", 1]);
  model.release();
  await one.runs.drain(10_000);
  assert.equal(deeds, 1);
  assert.equal((await one.run(runId)).output, "ok: deed 1");
});

test("the first call of a run that would start again is in the journal before its tool begins", async () => {
  const seen: number[] = [];
  const tool = testTool(async () => {
    const calls = agent.store.read.selectFrom("events").select("seq").where("type", "=", "tool.started");
    seen.push((await calls.execute()).length);
    return "ok";
  });
  await using agent = await createTestAgent({ script: callsOnce("ls"), tools: [tool] });
  const { runId } = await agent.submit("", { id: "s1", ...detached("hello") });
  await agent.events(runId);
  assert.deepEqual(seen, [1]);
});

for (const [what, more, act] of [
  ["that did not ask for it", {}, async () => {}],
  [
    "that somebody asked to stop",
    { startsAgain: true },
    (agent: TestAgent, runId: string) =>
      agent.store.write(
        async (tx) =>
          void (await tx.update("runs", { id: runId }, { status: "stopping", stop_requested: 1 })),
      ),
  ],
  [
    "that somebody steered",
    { startsAgain: true },
    async (agent: TestAgent, runId: string) => void (await agent.runs.steer(runId, "Be brief.")),
  ],
] as const) {
  test(`a run ${what} does not start again`, async () => {
    const model = hanging();
    await using one = await createTestAgent({ script: model.script });
    const { runId } = await one.submit("", { id: "s1", ...detached("hello", more) });
    await model.begun;
    await act(one, runId);
    await lose(one);
    await using two = await createTestAgent({ database: one.databaseUrl });
    assert.equal(await two.recovery.recover(), 1);
    assert.match((await two.run(runId)).status, /^(interrupted|cancelled)$/);
    model.release();
  });
}
