import assert from "node:assert/strict";
import { test } from "node:test";
import { LEASE_MS } from "../../../src/agent/lane.ts";
import { FakeClock } from "../../../src/base/clock.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";

const GHOST = "process-that-never-was";

/** Leaves a session as a process leaves it that dies in the middle of a run: with its lease, and open ends. */
async function abandon(agent: TestAgent, more: { leaseUntil: number; queue?: readonly string[] }) {
  const first = await agent.submit("at work", { id: "s1" });
  await agent.events(first.runId);
  const { store } = agent;
  await store.write(async (tx) => {
    await tx.update("runs", { id: first.runId }, { status: "running", ended_at: null, output: null });
    const lease = { lease_owner: GHOST, lease_until: more.leaseUntil };
    await tx.update("sessions", { id: "s1" }, lease);
  });
  const queued = [];
  for (const text of more.queue ?? []) queued.push((await agent.submit(text, { id: "s1" })).runId);
  return { runId: first.runId, queued };
}

test("a session whose lease ran out is taken over: its run ends as interrupted, its queue goes on", async () => {
  const clock = new FakeClock(Date.now());
  await using agent = await createTestAgent({ clock, script: ({ user }) => ({ text: `did ${user}` }) });
  const { runId, queued } = await abandon(agent, {
    leaseUntil: clock.now() + LEASE_MS,
    queue: ["one", "two"],
  });
  assert.equal(await agent.recovery.recover(), 0);
  assert.equal((await agent.run(runId)).status, "running");
  clock.tick(LEASE_MS + 1);
  assert.equal(await agent.recovery.recover(), 1);
  const run = await agent.run(runId);
  assert.equal(run.status, "interrupted");
  assert.equal(JSON.parse(run.error!).code, "interrupted");
  for (const [index, id] of queued.entries()) {
    await agent.events(id);
    assert.equal((await agent.run(id)).output, `did ${["one", "two"][index]}`);
  }
  await agent.turns.drain(1000);
  const session = await agent.session("s1");
  assert.deepEqual([session.lease_owner, session.queued], [null, 0]);
});

test("a queue that a shutdown left goes on at the next start, and no later prompt overtakes it", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({ script: async () => (await gate.promise, { text: "ok" }) });
  await agent.submit("first", { id: "s1" });
  const left = await agent.submit("left", { id: "s1" });
  const drained = agent.turns.drain(60_000);
  gate.resolve();
  await drained;
  await using next = await createTestAgent({ database: agent.databaseUrl });
  const later = await next.submit("later", { id: "s1" });
  assert.equal(later.status, "queued");
  assert.equal(await next.recovery.recover(), 1);
  await next.events(later.runId);
  const [before, after] = [await next.run(left.runId), await next.run(later.runId)];
  assert.equal(before.status, "completed");
  assert.ok(before.ended_at! <= after.started_at!);
});

test("two processes that recover at once take a session over once", async () => {
  await using one = await createTestAgent();
  await using two = await createTestAgent({ database: one.databaseUrl });
  const { runId } = await abandon(one, { leaseUntil: 1 });
  const counts = await Promise.all([one.recovery.recover(), two.recovery.recover()]);
  assert.equal(counts[0]! + counts[1]!, 1);
  assert.equal((await one.run(runId)).status, "interrupted");
  const ends = (await one.store.journal.read({ runId }, { after: 0 })).filter(
    ({ type }) => type === "run.interrupted",
  );
  assert.equal(ends.length, 1);
});

test("a session that another live process works in is left alone", async () => {
  const release = Promise.withResolvers<void>();
  await using one = await createTestAgent({
    script: async () => {
      await release.promise;
      return { text: "done" };
    },
  });
  await using two = await createTestAgent({ database: one.databaseUrl });
  const { runId } = await one.submit("hi", { id: "s1" });
  assert.equal(await two.recovery.recover(), 0);
  release.resolve();
  await one.events(runId);
  assert.equal((await one.run(runId)).status, "completed");
});

test("questions that the dead process left open are cancelled before its run ends", async () => {
  await using agent = await createTestAgent({
    script: callsOnce("rm -rf build"),
    tools: [testTool(async () => "ran")],
  });
  const { runId } = await agent.submit("x", { id: "s1", answerable: true });
  const asked = await agent.event(runId, "approval.request");
  const dead = { lease_owner: GHOST, lease_until: 1 };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s1" }, dead)));
  await using other = await createTestAgent({ database: agent.databaseUrl });
  assert.equal(await other.recovery.recover(), 1);
  const types = (await other.events(runId)).map(({ type }) => type);
  assert.deepEqual(types.slice(-3), ["approval.expired", "tool.completed", "run.interrupted"]);
  assert.deepEqual(await other.parts.asks.open({ runId }), []);
  const answer = { owner: "tester", choice: "once" as const, by: "t" };
  await assert.rejects(other.parts.asks.answer(String(asked.data["request_id"]), answer), {
    code: "ask_not_pending",
  });
});

test("a run that was taken for dead writes nothing after its end", async () => {
  const release = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    script: async () => {
      await release.promise;
      return { text: "back from the dead" };
    },
  });
  const { runId } = await agent.submit("x", { id: "s1" });
  const dead = { lease_owner: GHOST, lease_until: 1 };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s1" }, dead)));
  await using other = await createTestAgent({ database: agent.databaseUrl });
  assert.equal(await other.recovery.recover(), 1);
  release.resolve();
  await agent.turns.drain(5000);
  const run = await agent.run(runId);
  assert.equal(run.status, "interrupted");
  const all = await agent.store.journal.read({ runId }, { after: 0 });
  assert.equal(all.at(-1)!.type, "run.interrupted");
});

test("a process that slept past its lease writes nothing into what another took over, and stops its turn", async () => {
  const gate = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<string>();
  await using sleeper = await createTestAgent({
    script: ({ signal }) => {
      signal.addEventListener("abort", () => stopped.resolve(signal.reason.kind));
      return { text: words(signal) };
    },
  });
  async function* words(signal: AbortSignal) {
    yield "before ";
    await gate.promise;
    yield "after";
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  }
  const { runId } = await sleeper.submit("go", { id: "s" });
  await sleeper.event(runId, "message.delta");
  const later = new FakeClock(Date.now() + 2 * LEASE_MS);
  await using other = await createTestAgent({ database: sleeper.databaseUrl, clock: later });
  assert.equal(await other.recovery.recover(), 1);
  assert.equal((await other.run(runId)).status, "interrupted");
  gate.resolve();
  assert.equal(await stopped.promise, "failure");
  await sleeper.turns.drain(0);
  const events = await other.events(runId);
  assert.equal(events.at(-1)?.type, "run.interrupted");
  assert.equal((await other.run(runId)).last_seq, events.length);
  assert.equal((await other.run(runId)).status, "interrupted");
});

test("a process whose clock is ahead of the store's leaves sessions to those who hold their leases", async () => {
  const storeClock = new FakeClock(Date.now());
  const ahead = new FakeClock(storeClock.now() + 10 * LEASE_MS);
  await using agent = await createTestAgent({ clock: storeClock });
  const { runId } = await abandon(agent, { leaseUntil: storeClock.now() + LEASE_MS });
  await using fast = await createTestAgent({ clock: ahead, storeClock, database: agent.databaseUrl });
  assert.equal(await fast.recovery.recover(), 0);
  assert.equal((await agent.run(runId)).status, "running");
  storeClock.tick(LEASE_MS + 1);
  assert.equal(await fast.recovery.recover(), 1);
});
