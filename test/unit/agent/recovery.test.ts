import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { sql, type CompiledQuery } from "kysely";
import { LEASE_MS } from "../../../src/agent/run/session-queue.ts";
import { Recovery } from "../../../src/agent/recovery/recovery.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { abandonSessions, GHOST } from "../../harness/abandoned.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";
import { failWrites } from "../../harness/failing-store.ts";
import { testDialect } from "../../harness/store.ts";

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

test("a session whose lease ran out is taken over: its run ends as interrupted, its queue continues", async () => {
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
  await agent.runs.drain(1000);
  const session = await agent.session("s1");
  assert.deepEqual([session.lease_owner, session.queued], [null, 0]);
});

test("a queue that a shutdown left continues at the next start, and no later prompt overtakes it", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({ script: async () => (await gate.promise, { text: "ok" }) });
  await agent.submit("first", { id: "s1" });
  const left = await agent.submit("left", { id: "s1" });
  const drained = agent.runs.drain(60_000);
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
  assert.deepEqual(await other.deps.questions.open({ runId }), []);
  const answer = { owner: "tester", choice: "once" as const, by: "t" };
  await assert.rejects(other.deps.questions.answer(String(asked.data["request_id"]), answer), {
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
  await agent.runs.drain(5000);
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
  await sleeper.runs.drain(0);
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

const until = async (isTrue: () => boolean | Promise<boolean>) => {
  while (!(await isTrue())) await new Promise((resolve) => setImmediate(resolve));
};

test("one round settles all that dead processes left, however much it is, and each run once", async () => {
  const COUNT = 1_000;
  await using agent = await createTestAgent();
  await abandonSessions(agent.store, COUNT);
  assert.equal(await agent.recovery.recover(), COUNT);
  const { read } = agent.store;
  const runs = await read.selectFrom("runs").select("id").where("status", "!=", "interrupted").execute();
  assert.deepEqual(runs, []);
  const leased = await read
    .selectFrom("sessions")
    .select("id")
    .where("lease_owner", "is not", null)
    .execute();
  assert.deepEqual(leased, []);
  const ends = await read
    .selectFrom("events")
    .select(({ fn }) => [fn.countAll().as("all"), fn.count("run_id").distinct().as("runs")])
    .where("type", "=", "run.interrupted")
    .executeTakeFirstOrThrow();
  assert.deepEqual([Number(ends.all), Number(ends.runs)], [COUNT, COUNT]);
  const answers = await read.selectFrom("messages").select("role").execute();
  assert.equal(answers.filter(({ role }) => role === "assistant").length, COUNT);
  assert.equal(answers.filter(({ role }) => role === "tool").length, COUNT);
  assert.equal(await agent.recovery.recover(), 0);
});

test("a session that cannot be taken over stops none of the others, and is tried again in the next round", async () => {
  await using agent = await createTestAgent();
  const sessions = await abandonSessions(agent.store, 40);
  const broken = sessions[7]!.runId;
  const input = JSON.stringify({ prompt: [], settings: {}, answerable: false, isDetached: true });
  await agent.store.write(async (tx) => void (await tx.update("runs", { id: broken }, { input: "broken" })));
  assert.equal(await agent.recovery.recover(), 39);
  assert.equal((await agent.run(broken)).status, "running");
  assert.ok(agent.logLines.some((line) => line.includes(sessions[7]!.sessionId)));
  assert.equal(await agent.recovery.recover(), 0);
  await agent.store.write(async (tx) => void (await tx.update("runs", { id: broken }, { input })));
  assert.equal(await agent.recovery.recover(), 1);
  assert.equal((await agent.run(broken)).status, "interrupted");
});

test("a round that the database breaks is repeated until it is through, and nothing is settled twice", async (t) => {
  await using agent = await createTestAgent({ clock: new FakeClock(Date.now()) });
  const clock = agent.deps.clock as FakeClock;
  const sessions = await abandonSessions(agent.store, 100);
  const writes = failWrites(t as TestContext, agent.store);
  writes.begin((write) => (write === 2 ? "unanswered" : write === 3 ? "refused" : undefined));
  agent.core.start();
  let isRecovered = false;
  void agent.core.recovered.then(() => (isRecovered = true));
  await until(() => {
    clock.tick(500);
    return isRecovered;
  });
  for (const { runId } of sessions) {
    const events = await agent.store.journal.read({ runId });
    assert.equal(events.at(-1)?.type, "run.interrupted");
    assert.equal(events.filter(({ type }) => type === "run.interrupted").length, 1);
  }
});

test("a lease of this process under which nothing is alive runs out, and its session is taken over", async () => {
  const clock = new WatchedClock(Date.now());
  await using agent = await createTestAgent({ clock });
  const { runId, queued } = await abandon(agent, { leaseUntil: clock.now() + LEASE_MS, queue: ["one"] });
  const ours = { lease_owner: agent.store.owner, lease_until: clock.now() + LEASE_MS };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s1" }, ours)));
  agent.core.start();
  await agent.core.recovered;
  for (let round = 0; round < 3; round++) {
    assert.equal((await agent.run(runId)).status, "running");
    clock.tick(LEASE_MS / 3);
    for (let turn = 0; turn < 50; turn++) await agent.store.write(() => {});
  }
  assert.equal((await agent.run(runId)).status, "running");
  await clock.tickUntil(agent.events(queued[0]!), LEASE_MS / 3);
  assert.equal((await agent.run(runId)).status, "interrupted");
  assert.equal((await agent.run(queued[0]!)).status, "completed");
});

test("a run at work keeps its lease, and this process does not take it for abandoned when it was late", async () => {
  const clock = new FakeClock(Date.now());
  const release = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    clock,
    script: async () => (await release.promise, { text: "ok" }),
  });
  const { runId } = await agent.submit("go", { id: "s1" });
  agent.core.start();
  await agent.core.recovered;
  clock.tick(LEASE_MS / 3);
  const untilMs = clock.now() + LEASE_MS;
  await until(async () => (await agent.session("s1")).lease_until === untilMs);
  // Asleep for longer than the lease: its timer is as late.
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s1" }, { lease_until: 1 })));
  assert.equal(await agent.recovery.recover(), 0);
  assert.equal((await agent.run(runId)).status, "running");
  release.resolve();
  await agent.events(runId);
  assert.equal((await agent.run(runId)).status, "completed");
});

test("runs that wait for a permit keep their leases", async () => {
  const clock = new FakeClock(Date.now());
  const release = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    clock,
    script: async () => (await release.promise, { text: "ok" }),
    settings: { maxConcurrentRuns: 1 },
  });
  const slot = { group: "g" };
  const input = { prompt: [{ role: "user" as const, text: "x" }], settings: {}, answerable: false, slot };
  await agent.submit("first", { id: "s1" });
  const second = await agent.submit("second", { id: "s2", input });
  assert.equal(second.status, "queued");
  agent.core.start();
  await agent.core.recovered;
  clock.tick(LEASE_MS / 3);
  const untilMs = clock.now() + LEASE_MS;
  await until(async () => (await agent.session("s2")).lease_until === untilMs);
  assert.equal(await agent.recovery.recover(), 0);
  release.resolve();
  await agent.events(second.runId);
  assert.equal((await agent.run(second.runId)).status, "completed");
});

test("queues that dead processes left do not start more runs at once than the limit", async () => {
  const release = Promise.withResolvers<void>();
  let [atWork, most] = [0, 0];
  await using agent = await createTestAgent({
    script: async () => {
      most = Math.max(most, ++atWork);
      await release.promise;
      atWork--;
      return { text: "ok" };
    },
    settings: { maxConcurrentRuns: 2 },
  });
  const sessions = await abandonSessions(agent.store, 6);
  const runs: string[] = [];
  for (const { sessionId: id } of sessions) runs.push((await agent.submit("go on", { id })).runId);
  assert.equal(await agent.recovery.recover(), 6);
  await until(() => atWork === 2);
  release.resolve();
  for (const runId of runs) await agent.events(runId);
  assert.equal(most, 2);
});

test("abandoned sessions are found by the index of leases, and not by a look at all sessions", async () => {
  await using agent = await createTestAgent();
  const { store } = agent;
  await abandonSessions(store, 300);
  const queries: CompiledQuery[] = [];
  const read = store.read.withPlugin({
    transformQuery: ({ node }) => {
      queries.push(store.read.getExecutor().compileQuery(node, { queryId: "plan" }));
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  await new Recovery({ ...agent.deps, store: { ...store, read } }, agent.runs).recover();
  assert.ok(queries.length >= 2);
  for (const query of queries.filter((one) => one.sql.includes('from "sessions"'))) {
    assert.match(await planOf(agent, query), /sessions_leased/, query.sql);
  }
});

/** What the database would do, where looking at a whole table costs more than it does in a small one. */
async function planOf({ store }: TestAgent, query: CompiledQuery): Promise<string> {
  const isSqlite = testDialect === "sqlite";
  const values = query.parameters.map((value) => `'${String(value)}'`);
  const text = query.sql.replaceAll(/\$\d+|\?/g, () => values.shift() ?? "null");
  return store.write(async (tx) => {
    if (!isSqlite) await sql`set local enable_seqscan = off`.execute(tx.db);
    const { rows } = await sql.raw(`explain ${isSqlite ? "query plan " : ""}${text}`).execute(tx.db);
    return JSON.stringify(rows);
  });
}
