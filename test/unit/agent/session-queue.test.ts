import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import type { BusyMode } from "../../../src/agent/run/run.ts";
import { createTestAgent, type TestAgent } from "../../harness/agent.ts";
import { testDialect } from "../../harness/store.ts";

const isCode = (code: string) => (error: unknown) => error instanceof ServiceError && error.code === code;

/** Turns that wait until the test opens the gate, or they are stopped; `order` is what they were asked. */
function gated() {
  const gate = Promise.withResolvers<void>();
  const order: string[] = [];
  const script: Script = async ({ user, step, signal }) => {
    order.push(user);
    if (step > 0) return { text: `then ${user}` };
    const stopped = new Promise<void>((resolve) =>
      signal.addEventListener("abort", () => resolve(), { once: true }),
    );
    await Promise.race([gate.promise, stopped]);
    return { text: user };
  };
  return { script, order, open: gate.resolve };
}

const keyed = (key: string, whenBusy?: BusyMode) => ({
  address: { owner: "tester", key },
  ...(whenBusy ? { whenBusy } : {}),
});

const sessionsOf = (agent: TestAgent) =>
  agent.store.read.selectFrom("sessions").select(["id", "queued"]).execute();

test("prompts made at once under one session key go into one session", async () => {
  const { script, open, order } = gated();
  await using agent = await createTestAgent({ script });
  const all = await Promise.all(Array.from({ length: 12 }, (_, i) => agent.submit(String(i), keyed("room"))));
  assert.equal(new Set(all.map(({ sessionId }) => sessionId)).size, 1);
  assert.equal((await sessionsOf(agent)).length, 1);
  assert.deepEqual(
    all.map(({ status }) => status),
    ["running", ...Array(11).fill("queued")],
  );
  open();
  for (const { runId } of all) await agent.events(runId);
  assert.deepEqual(
    order,
    Array.from({ length: 12 }, (_, i) => String(i)),
  );
});

test("prompts made at once by two processes under one session key go into one session", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script });
  await using other = await createTestAgent({ database: agent.databaseUrl, script });
  for (let round = 0; round < 5; round++) {
    const all = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        (i % 2 === 0 ? agent : other).submit(String(i), keyed(`room ${round}`)),
      ),
    );
    assert.equal(new Set(all.map(({ sessionId }) => sessionId)).size, 1);
    assert.equal(all.filter(({ status }) => status === "running").length, 1);
  }
  assert.equal((await sessionsOf(agent)).length, 5);
  open();
});

test("prompts made at once by two processes for one new session id join that session", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script });
  await using other = await createTestAgent({ database: agent.databaseUrl, script });
  for (let round = 0; round < 10; round++) {
    const id = `new ${round}`;
    const all = await Promise.all(
      Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? agent : other).submit(String(i), { id })),
    );
    assert.deepEqual(new Set(all.map(({ sessionId }) => sessionId)), new Set([id]));
    assert.equal(all.filter(({ status }) => status === "running").length, 1);
  }
  open();
});

test("of prompts made at once under one key that steer, one starts and the others go into its turn", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script });
  const all = await Promise.all(
    Array.from({ length: 4 }, (_, i) => agent.submit(String(i), keyed("room", "steer"))),
  );
  assert.equal(new Set(all.map(({ runId }) => runId)).size, 1);
  assert.deepEqual(all.map(({ status }) => status).toSorted(), ["running", "steered", "steered", "steered"]);
  open();
  const last = (await agent.events(all[0]!.runId)).at(-1);
  assert.equal(last?.type, "run.completed");
});

test("crosswise prompts of two processes for the same two keys all get their place", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script });
  await using other = await createTestAgent({ database: agent.databaseUrl, script });
  for (let round = 0; round < 3; round++) {
    const keys = [`a${round}`, `b${round}`, `c${round}`, `d${round}`];
    const all = await Promise.all([
      ...keys.map((key) => agent.submit(key, keyed(key))),
      ...keys.toReversed().map((key) => other.submit(key, keyed(key))),
    ]);
    assert.equal(new Set(all.map(({ sessionId }) => sessionId)).size, keys.length);
  }
  open();
});

test("a session made on purpose under a key is the one that the key means from then on", async () => {
  await using agent = await createTestAgent();
  const first = await agent.submit("1", keyed("room"));
  await agent.events(first.runId);
  const second = await agent.submit("2", { address: { owner: "tester", key: "room", id: "newer" } });
  await agent.events(second.runId);
  const third = await agent.submit("3", keyed("room"));
  await agent.events(third.runId);
  assert.deepEqual([second.sessionId, third.sessionId], ["newer", "newer"]);
});

test("a prompt to one's own busy session is not counted against the limit of concurrent runs", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script, settings: { maxConcurrentRuns: 1 } });
  const first = await agent.submit("1", { id: "s" });
  const queued = await agent.submit("2", { id: "s", whenBusy: "queue" });
  assert.deepEqual([queued.status, queued.queuePosition], ["queued", 1]);
  const steered = await agent.submit("3", { id: "s", whenBusy: "steer" });
  assert.deepEqual([steered.status, steered.runId], ["steered", first.runId]);
  await assert.rejects(agent.submit("4", { id: "s", whenBusy: "reject" }), isCode("session_busy"));
  const next = await agent.submit("5", { id: "s", whenBusy: "interrupt" });
  assert.equal(next.status, "queued");
  assert.equal((await agent.run(first.runId)).stop_requested, 1);
  await assert.rejects(agent.submit("6", { id: "other" }), isCode("too_many_concurrent_runs"));
  await assert.rejects(agent.submit("7", keyed("other")), isCode("too_many_concurrent_runs"));
  await assert.rejects(agent.submit("8"), isCode("too_many_concurrent_runs"));
  assert.deepEqual(await agent.store.find("sessions", { id: "other" }), undefined);
  assert.equal((await agent.events(first.runId)).at(-1)?.type, "run.cancelled");
  open();
  for (const { runId } of [next, queued]) {
    assert.equal((await agent.events(runId)).at(-1)?.type, "run.completed");
  }
});

test("prompts made at once for one new session queue behind the first, whatever the limit of concurrent runs", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script, settings: { maxConcurrentRuns: 2 } });
  const all = await Promise.all(Array.from({ length: 12 }, (_, i) => agent.submit(String(i), keyed("room"))));
  assert.equal(all.filter(({ status }) => status === "running").length, 1);
  const other = await agent.submit("elsewhere");
  assert.equal(other.status, "running", "what is queued takes no room");
  open();
});

test("admission is checked for prompts that start or wait for a permit, not for those queued in a busy session", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script, settings: { maxConcurrentRuns: 1 } });
  const asked: string[] = [];
  const admitted = (text: string) => ({ admit: async () => void asked.push(text) });
  await agent.submit("starts", { id: "s", ...admitted("starts") });
  await agent.submit("queues", { id: "s", ...admitted("queues") });
  await agent.submit("steers", { id: "s", whenBusy: "steer", ...admitted("steers") });
  const input = { prompt: [{ role: "user" as const, text: "w" }], settings: {}, answerable: false };
  const waits = { input: { ...input, slot: { group: "g" } } };
  const waiting = await agent.submit("waits", { id: "t", ...waits, ...admitted("waits") });
  assert.equal(waiting.status, "queued");
  assert.deepEqual(asked, ["starts", "waits"]);
  open();
});

test("a cancelled run that waited for a permit leaves its session free", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script, settings: { maxConcurrentRuns: 1 } });
  await agent.submit("1", { id: "s" });
  const input = { prompt: [{ role: "user" as const, text: "w" }], settings: {}, answerable: false };
  const waiting = await agent.submit("2", { id: "t", input: { ...input, slot: { group: "g" } } });
  assert.equal(agent.runs.waiting, 1);
  assert.equal(await agent.runs.stop(waiting.runId, "not wanted"), true);
  assert.equal((await agent.session("t")).lease_owner, null);
  assert.equal(agent.runs.waiting, 0);
  open();
});

test("a prompt that interrupts runs before those that waited already", async () => {
  const { script, open, order } = gated();
  await using agent = await createTestAgent({ script });
  const a = await agent.submit("A", { id: "s" });
  const b = await agent.submit("B", { id: "s" });
  const c = await agent.submit("C", { id: "s", whenBusy: "interrupt" });
  assert.equal(c.queuePosition, 1);
  assert.equal((await agent.run(a.runId)).stop_requested, 1);
  assert.equal((await agent.events(a.runId)).at(-1)?.type, "run.cancelled");
  open();
  for (const { runId } of [c, b]) await agent.events(runId);
  assert.deepEqual(order, ["A", "C", "B"]);
});

test("of prompts that interrupt one after the other the newest runs next", async () => {
  const stuck = Promise.withResolvers<void>();
  const order: string[] = [];
  await using agent = await createTestAgent({
    script: async ({ user }) => {
      order.push(user);
      if (user === "A") await stuck.promise;
      return { text: user };
    },
  });
  const runs = [await agent.submit("A", { id: "s" }), await agent.submit("B", { id: "s" })];
  for (const text of ["C", "D"]) runs.push(await agent.submit(text, { id: "s", whenBusy: "interrupt" }));
  stuck.resolve();
  for (const { runId } of runs) await agent.events(runId);
  assert.deepEqual(order, ["A", "D", "C", "B"]);
});

test("a prompt that interrupts still runs first after a restart", async () => {
  const { script } = gated();
  await using agent = await createTestAgent({ script });
  await agent.submit("A", { id: "s" });
  const b = await agent.submit("B", { id: "s" });
  const drained = agent.runs.drain(60_000);
  // Nothing is taken any more; the interrupting prompt was recorded in the same instant by another process.
  await using other = await createTestAgent({ database: agent.databaseUrl, script });
  const c = await other.submit("C", { id: "s", whenBusy: "interrupt" });
  await drained;
  const order: string[] = [];
  await using next = await createTestAgent({
    database: agent.databaseUrl,
    script: ({ user }) => (order.push(user), { text: user }),
  });
  await next.recovery.start();
  for (const { runId } of [c, b]) await next.events(runId);
  assert.deepEqual(order, ["C", "B"]);
});

test("a prompt of another process that interrupts stops the turn at work now, and runs next", async () => {
  const { script, order, open } = gated();
  await using agent = await createTestAgent({ script });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const a = await agent.submit("A", { id: "s" });
  const b = await agent.submit("B", { id: "s" });
  const c = await other.submit("C", { id: "s", whenBusy: "interrupt" });
  assert.equal((await agent.run(a.runId)).stop_requested, 1);
  const stopping = (await agent.events(a.runId)).filter(({ type }) => type === "run.stopping");
  assert.equal(stopping.length, 1);
  assert.equal((await agent.run(a.runId)).status, "cancelled");
  open();
  for (const { runId } of [c, b]) assert.equal((await agent.events(runId)).at(-1)?.type, "run.completed");
  assert.deepEqual(order, ["A", "C", "B"]);
});

test("a prompt of another process that steers goes into the turn at work", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const a = await agent.submit("A", { id: "s" });
  const b = await other.submit("also this", { id: "s", whenBusy: "steer" });
  assert.deepEqual([b.status, b.runId, b.model], ["steered", a.runId, a.model]);
  open();
  const events = await agent.events(a.runId);
  const left = (events.at(-1)!.data["pending_steer"] ?? []) as string[];
  const told = events.filter(({ type }) => type === "run.steered").map(({ data }) => data["text"]);
  assert.deepEqual([...told, ...left], ["also this"]);
});

test("a prompt that comes too late to steer is queued, and one with attachments is never steered", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const a = await agent.submit("A", { id: "s" });
  const image = { type: "image" as const, mediaType: "image/png", data: "AAAA" };
  const input = { prompt: [{ role: "user" as const, text: "see", attachments: [image] }] };
  const seen = await other.submit("see", {
    id: "s",
    whenBusy: "steer",
    input: { ...input, settings: {}, answerable: false } as never,
  });
  assert.equal(seen.status, "queued");
  await other.runs.stop(a.runId, "enough");
  open();
  const late = await other.submit("late", { id: "s", whenBusy: "steer" });
  assert.ok(late.status !== "steered" || late.runId !== a.runId);
});

test("what is to be recorded with a steered prompt is recorded with it, or not at all", async () => {
  const { script, open } = gated();
  await using agent = await createTestAgent({ script });
  const a = await agent.submit("A", { id: "s" });
  const steered: string[] = [];
  const recording = {
    id: "s",
    whenBusy: "steer" as const,
    alsoRecord: async () => {},
    alsoSteer: async (_: unknown, runId: string) => void steered.push(runId),
  };
  assert.equal((await agent.submit("B", recording)).status, "steered");
  assert.deepEqual(steered.slice(-1), [a.runId]);
  const { alsoSteer: _, ...unsteerable } = recording;
  assert.equal((await agent.submit("C", unsteerable)).status, "queued");
  open();
});

test(
  "a prompt that another process queues while the last turn ends is not left lying",
  { skip: testDialect === "sqlite" && "there is one writer at a time" },
  async () => {
    const { script, open } = gated();
    await using agent = await createTestAgent({ script });
    await using other = await createTestAgent({ database: agent.databaseUrl });
    const first = await agent.submit("A", { id: "s" });
    const release = agent.store.write(async (tx) => {
      // As the end of a turn does: the session is free, and the transaction still open.
      await tx.update("sessions", { id: "s", queued: 0 }, { lease_owner: null, lease_until: 0 });
      await waitsForLock(agent, "sessions");
    });
    const second = await other.submit("B", { id: "s" });
    await release;
    assert.equal(second.status, "running");
    open();
    await agent.runs.stop(first.runId, "over");
    assert.equal((await other.events(second.runId)).at(-1)?.type, "run.completed");
  },
);

/** Resolves when a statement of another connection waits for a row of the table. */
async function waitsForLock({ store }: TestAgent, table: string): Promise<void> {
  const { sql } = await import("kysely");
  for (;;) {
    const { rows } = await sql<{ count: string }>`
      select count(*) as count from pg_stat_activity
      where wait_event_type = 'Lock' and query like ${`%${table}%`} and query not like '%pg_stat_activity%'
    `.execute(store.read);
    if (Number(rows[0]?.count) > 0) return;
  }
}
