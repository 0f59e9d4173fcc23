/** Sessions of gone processes that somebody reads before recovery comes to them. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { LEASE_MS, UNOWNED } from "../../../src/agent/run/session-queue.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { abandonSessions, GHOST } from "../../harness/abandoned.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";
import { failWrites } from "../../harness/failing-store.ts";

const OWNER = "tester";

/** The ends that the journal tells of a run. */
async function endsOf({ store }: TestAgent, runId: string): Promise<number> {
  const events = await store.journal.read({ runId });
  return events.filter(({ type }) => type === "run.interrupted").length;
}

for (const { how, read } of [
  { how: "its run", read: ({ core }: TestAgent, _: string, runId: string) => core.findRun(runId, OWNER) },
  { how: "its status", read: ({ core }: TestAgent, id: string) => core.status(id, OWNER) },
  { how: "it by its id", read: ({ core }: TestAgent, id: string) => core.sessions.saved(id, OWNER) },
  { how: "it by its id or title", read: ({ core }: TestAgent, id: string) => core.sessions.find(id, OWNER) },
]) {
  test(`a session whose process is gone is closed for who reads ${how}`, async () => {
    await using agent = await createTestAgent();
    const [one] = await abandonSessions(agent.store, 1);
    const { sessionId, runId } = one!;
    const found: { lease_owner?: string | null; status?: string; isBusy?: boolean } | undefined = await read(
      agent,
      sessionId,
      runId,
    );
    assert.ok(!found?.lease_owner);
    assert.ok(!found?.isBusy);
    if (found?.status) assert.equal(found.status, "interrupted");
    assert.equal((await agent.run(runId)).status, "interrupted");
    const said = await agent.transcript(sessionId);
    assert.deepEqual(
      said.map(({ role }) => role),
      ["assistant", "tool"],
    );
    assert.equal(await agent.recovery.recover(), 0);
  });
}

test("many readers of one session and a round of recovery at the same time close its run once", async () => {
  await using agent = await createTestAgent();
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const sessions = await abandonSessions(agent.store, 20);
  const reads = sessions.flatMap(({ sessionId, runId }) =>
    [agent, other, agent].flatMap(({ core }) => [
      core.findRun(runId, OWNER).then(({ status }) => assert.equal(status, "interrupted")),
      core.sessions.get(sessionId, OWNER).then((row) => assert.equal(row.lease_owner, null)),
    ]),
  );
  await Promise.all([agent.recovery.recover(), ...reads, other.recovery.recover()]);
  for (const { runId } of sessions) assert.equal(await endsOf(agent, runId), 1);
});

test("what a gone process left queued continues when someone reads the session", async () => {
  await using agent = await createTestAgent({ script: ({ user }) => ({ text: `did ${user}` }) });
  const [one] = await abandonSessions(agent.store, 1);
  const { runId } = await agent.submit("next", { id: one!.sessionId });
  assert.notEqual((await agent.core.findRun(runId, OWNER)).status, "interrupted");
  await agent.events(runId);
  assert.equal((await agent.run(runId)).output, "did next");
});

test("a run that waits for approval and can continue keeps waiting when its process is gone and someone reads it", async () => {
  await using agent = await createTestAgent({
    script: callsOnce("rm -rf build"),
    tools: [testTool(async () => "ran")],
  });
  const { runId } = await agent.submit("x", {
    id: "s1",
    input: {
      prompt: [{ role: "user", text: "x" }],
      settings: {},
      answerable: true,
      isDetached: true,
    },
  });
  const asked = await agent.event(runId, "approval.request");
  const dead = { lease_owner: GHOST, lease_until: 1 };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s1" }, dead)));
  await using other = await createTestAgent({
    database: agent.databaseUrl,
    script: callsOnce("rm -rf build"),
    tools: [testTool(async () => "ran")],
  });
  assert.equal((await other.core.findRun(runId, OWNER)).status, "waiting_for_approval");
  assert.equal(other.runs.isAtWork(runId), true);
  const answer = { owner: OWNER, choice: "once" as const, by: "t" };
  await other.deps.questions.answer(String(asked.data["request_id"]), answer);
  await other.events(runId);
  assert.equal((await other.run(runId)).status, "completed");
});

test("a session that a living process holds, or a shutdown left, is read as it is", async () => {
  const clock = new FakeClock(Date.now());
  await using agent = await createTestAgent({ clock });
  const [one] = await abandonSessions(agent.store, 1);
  const { sessionId: id, runId } = one!;
  const until = { lease_owner: GHOST, lease_until: clock.now() + LEASE_MS };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id }, until)));
  assert.equal((await agent.core.findRun(runId, OWNER)).status, "running");
  assert.equal((await agent.core.status(id, OWNER)).isBusy, true);
  const left = { lease_owner: UNOWNED, lease_until: 0 };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id }, left)));
  assert.equal((await agent.core.findRun(runId, OWNER)).status, "running");
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id }, until)));
  clock.tick(LEASE_MS + 1);
  assert.equal((await agent.core.findRun(runId, OWNER)).status, "interrupted");
});

test("a process that drains takes nothing over for its readers", async () => {
  await using agent = await createTestAgent();
  const [one] = await abandonSessions(agent.store, 1);
  await agent.runs.drain(0);
  assert.equal((await agent.core.findRun(one!.runId, OWNER)).status, "running");
});

test("a session that cannot be closed is read as it is, and is not tried again before the next round", async () => {
  await using agent = await createTestAgent();
  const { recovery } = agent;
  const [one] = await abandonSessions(agent.store, 1);
  const { sessionId, runId } = one!;
  await agent.store.write(async (tx) => void (await tx.update("runs", { id: runId }, { input: "broken" })));
  for (let reads = 0; reads < 3; reads++)
    assert.equal((await agent.core.findRun(runId, OWNER)).status, "running");
  const complaints = agent.logLines.filter((line) => line.includes("could not be taken over"));
  assert.equal(complaints.length, 1);
  assert.ok(complaints[0]?.includes(sessionId));
  assert.equal(await recovery.recover(), 0);
});

test("a read fails when the session of a gone process cannot be closed because the database is away", async (t) => {
  await using agent = await createTestAgent();
  const [one] = await abandonSessions(agent.store, 1);
  const writes = failWrites(t as TestContext, agent.store);
  writes.begin((write) => (write === 1 ? "refused" : undefined));
  const read = () => agent.core.findRun(one!.runId, OWNER);
  await assert.rejects(read(), { code: "state_store_unavailable" });
  assert.equal((await read()).status, "interrupted");
});
