import assert from "node:assert/strict";
import { test } from "node:test";
import { createId } from "../../../src/base/text.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { scheduleSweeps, sweep } from "../../../src/store/retention.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { deltas, responseRow, runRow, seed } from "./rows.ts";

const DAY_MS = 86_400_000;
const NOW_MS = 100 * DAY_MS;
const old = { status: "completed", ended_at: NOW_MS - 10 * DAY_MS };
const fresh = { status: "completed", ended_at: NOW_MS - DAY_MS };
const retention = { runsMs: 7 * DAY_MS, outboxMs: 7 * DAY_MS };

const ids = async (store: Store, table: "runs" | "sessions" | "outbox" | "questions") =>
  (await store.read.selectFrom(table).select("id").orderBy("id").execute()).map((row) => row.id);

async function message(store: Store, sessionId: string, runId: string) {
  const row = { session_id: sessionId, seq: 1, run_id: runId, role: "user", content: "{}", created_at: 1 };
  await store.write((tx) => tx.insert("messages", [row]));
}

async function question(
  store: Store,
  { sessionId, runId }: { readonly sessionId: string; readonly runId: string },
  atMs: number,
  status = "answered",
): Promise<string> {
  const id = createId("ask", atMs);
  const isAnswered = status === "answered";
  const row = {
    id,
    session_id: sessionId,
    run_id: runId,
    owner: "default",
    kind: "approval",
    status,
    question: "{}",
    answer: null,
    answered_by: isAnswered ? "http:default" : null,
    created_at: atMs,
    expires_at: null,
    answered_at: isAnswered ? atMs : null,
    call_id: null,
    used_at: null,
  };
  await store.write((tx) => tx.insert("questions", [row]));
  return id;
}

test("old ended runs are deleted with their events; open and fresh ones stay", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const open = await seed(store);
  const kept = await seed(store, { run: fresh });
  const gone = await seed(store, { run: old });
  for (const { sessionId, runId } of [open, kept, gone]) {
    await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 1201)));
    await message(store, sessionId, runId);
  }
  const swept = await sweep(store, { retention });
  assert.deepEqual([swept.runs, swept.sessions], [1, 0]);
  assert.deepEqual(await ids(store, "runs"), [open.runId, kept.runId].sort());
  assert.equal((await store.journal.read({ runId: gone.runId })).length, 0);
  assert.equal((await store.journal.read({ runId: kept.runId }, { limit: 9_999 })).length, 1201);
  const messages = await store.read.selectFrom("messages").selectAll().execute();
  assert.equal(messages.length, 3, "the transcript of a saved session stays");
  const [next] = await store.write((tx) => store.journal.append(tx, gone.sessionId, deltas(null, 1)));
  assert.equal(next!.seq, 1202, "and its numbers go on");
});

test("a stored response is deleted with its run", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const kept = await seed(store, { run: fresh });
  const gone = await seed(store, { run: old });
  await store.write((tx) => tx.insert("responses", [responseRow(kept), responseRow(gone)]));
  await sweep(store, { retention });
  const left = await store.read.selectFrom("responses").select("run_id").execute();
  assert.deepEqual(left, [{ run_id: kept.runId }]);
});

test("a closed question outlives its run until its own time is over", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const active = await seed(store);
  const gone = await seed(store, { session: { transient: 1 }, run: old });
  const days = (count: number) => NOW_MS - count * DAY_MS;
  const [late, recent] = [await question(store, gone, days(31)), await question(store, gone, days(29))];
  await store.write((tx) => tx.update("questions", { id: late }, { answered_at: days(29) }));
  const needed = await question(store, active, days(90));
  await question(store, gone, days(31));
  await question(store, gone, days(40), "expired");
  // A defect elsewhere may leave one open: nobody could close it.
  await question(store, gone, days(1), "open");
  const own = { ...retention, questionsMs: 30 * DAY_MS };
  assert.equal((await sweep(store, { retention: own, batchSize: 1 })).questions, 2);
  assert.deepEqual(await ids(store, "runs"), [active.runId]);
  assert.deepEqual(await ids(store, "questions"), [needed, late, recent].sort());
  await store.write((tx) => tx.update("runs", { id: active.runId }, fresh));
  await sweep(store, { retention: own });
  assert.deepEqual(await ids(store, "questions"), [late, recent].sort());
});

test("a transient session is deleted with its last run", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const gone = await seed(store, { session: { transient: 1 }, run: old });
  await store.write((tx) =>
    store.journal.append(tx, gone.sessionId, [...deltas(gone.runId, 2), ...deltas(null, 2)]),
  );
  await message(store, gone.sessionId, gone.runId);
  const halfOld = await seed(store, { session: { transient: 1 }, run: old });
  await store.write((tx) => tx.insert("runs", [runRow(halfOld.sessionId, fresh)]));
  await message(store, halfOld.sessionId, halfOld.runId);
  const swept = await sweep(store, { retention });
  assert.deepEqual([swept.runs, swept.sessions], [2, 1]);
  assert.deepEqual(await ids(store, "sessions"), [halfOld.sessionId]);
  assert.deepEqual(await store.journal.read({ sessionId: gone.sessionId }), []);
  const messages = await store.read.selectFrom("messages").select("session_id").execute();
  assert.deepEqual(messages, [{ session_id: halfOld.sessionId }]);
});

test("without a retention a sweep deletes expired ledger rows only", async (t) => {
  const clock = { nowMs: NOW_MS };
  const { store } = await openTestStore(t, { now: () => clock.nowMs });
  const { runId } = await seed(store, { run: old });
  const claim = (key: string, leaseMs: number) =>
    store.write((tx) => store.ledger.claim(tx, { scope: "s", key, fingerprint: "f", leaseMs }));
  await claim("short", 1_000);
  await claim("long", 2_000);
  clock.nowMs += 1_000;
  const swept = await sweep(store, { retention: {} });
  assert.deepEqual(swept, {
    runs: 0,
    sessions: 0,
    questions: 0,
    events: 0,
    ledger: 1,
    outbox: 0,
    deliveries: 0,
    cronJobs: [],
    occurrences: 0,
    changes: 0,
    usage: 0,
  });
  assert.deepEqual(await ids(store, "runs"), [runId]);
  assert.deepEqual(await store.read.selectFrom("ledger").select("key").execute(), [{ key: "long" }]);
});

test("delivered messages are deleted when they are old, pending ones never", async (t) => {
  const clock = { nowMs: NOW_MS };
  const { store } = await openTestStore(t, { now: () => clock.nowMs });
  const pending = await store.write(async (tx) => {
    for (let i = 0; i < 5; i++)
      await store.outbox.enqueue(tx, { owner: "default", target: "log", payload: {} });
    return store.outbox.enqueue(tx, {
      owner: "default",
      target: "log",
      payload: {},
      availableAtMs: NOW_MS + 1,
    });
  });
  await store.write(async (tx) => {
    const messages = await store.outbox.claim(tx, { limit: 5, leaseMs: 1 });
    for (const { id } of messages) await store.outbox.delivered(tx, id);
  });
  clock.nowMs += 7 * DAY_MS - 1;
  assert.equal((await sweep(store, { retention })).outbox, 0);
  clock.nowMs += 1;
  assert.equal((await sweep(store, { retention, batchSize: 2 })).outbox, 5);
  assert.deepEqual(await ids(store, "outbox"), [pending]);
});

test("a sweep deletes in small steps and lets writers in between", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const gone = await seed(store, { run: old });
  const busy = await seed(store);
  await store.write((tx) => store.journal.append(tx, gone.sessionId, deltas(gone.runId, 2_000)));
  let isSwept = false;
  let writes = 0;
  const sweeping = sweep(store, { retention, batchSize: 20 }).then(() => (isSwept = true));
  while (!isSwept) {
    await store.write((tx) => store.journal.append(tx, busy.sessionId, deltas(busy.runId, 1)));
    writes++;
  }
  await sweeping;
  assert.ok(writes >= 50, `${writes} writes went in beside 100 steps`);
  assert.deepEqual(await store.journal.read({ runId: gone.runId }), []);
});

test("an aborted sweep stops, and the next one completes the work", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  for (let i = 0; i < 10; i++) {
    const { sessionId, runId } = await seed(store, { run: old });
    await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 10)));
  }
  await sweep(store, { retention, signal: AbortSignal.abort() });
  assert.ok((await ids(store, "runs")).length > 0);
  await sweep(store, { retention });
  assert.deepEqual(await ids(store, "runs"), []);
  assert.deepEqual(await store.read.selectFrom("events").selectAll().execute(), []);
});

test("scheduled sweeps repeat, report failures, and stop", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const clock = new FakeClock(NOW_MS);
  const problems: unknown[] = [];
  const onProblem = (_message: string, error: unknown) => void problems.push(error);
  const stop = scheduleSweeps(store, { retention, everyMs: 1_000, clock, onProblem });
  for (let round = 0; round < 3; round++) {
    await seed(store, { run: old });
    clock.tick(1_000);
    while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await ids(store, "runs"), [], `round ${round}`);
  }
  await store.close();
  clock.tick(1_000);
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(problems.length, 1);
  await stop();
  assert.equal(clock.pending, 0);
});
