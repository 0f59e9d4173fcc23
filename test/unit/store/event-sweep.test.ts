import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewEvent } from "../../../src/store/journal/journal.ts";
import { sweep } from "../../../src/store/retention.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { deltas, seed, type Seed } from "./rows.ts";

const HOUR_MS = 3_600_000;
const NOW_MS = 1_000 * HOUR_MS;
const endedAgo = (hours: number) => ({ status: "completed", ended_at: NOW_MS - hours * HOUR_MS });

const event = (runId: string, type: string): NewEvent => ({ type, runId, data: {} });

async function append(store: Store, { sessionId }: Seed, events: readonly NewEvent[]): Promise<void> {
  await store.write((tx) => store.journal.append(tx, sessionId, events));
}

async function kept(store: Store, { runId }: Seed): Promise<(number | null)[]> {
  const events = await store.journal.read({ runId }, { limit: 99_999 });
  return events.map(({ runSeq }) => runSeq);
}

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test("events of ended runs are deleted earlier than the runs; those of stored responses stay", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const old = await seed(store, { run: endedAgo(3) });
  const young = await seed(store, { run: endedAgo(1) });
  const response = await seed(store, { run: { ...endedAgo(3), kind: "response" } });
  const open = await seed(store);
  for (const run of [old, young, response, open]) await append(store, run, deltas(run.runId, 30));
  const swept = await sweep(store, { retention: { eventsMs: 2 * HOUR_MS }, batchSize: 7 });
  assert.deepEqual([swept.events, swept.runs], [30, 0]);
  assert.deepEqual(await kept(store, old), []);
  for (const run of [young, response, open]) assert.deepEqual(await kept(store, run), numbers(1, 30));
  const row = await store.read.selectFrom("runs").select("last_seq").where("id", "=", old.runId).execute();
  assert.deepEqual(row, [{ last_seq: 30 }], "the run still tells how many there were");
});

test("a run that is longer than the limit loses its oldest events, in small steps", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const long = await seed(store, { run: endedAgo(1) });
  const short = await seed(store, { run: endedAgo(1) });
  const response = await seed(store, { run: { ...endedAgo(1), kind: "response" } });
  for (const run of [long, response]) await append(store, run, deltas(run.runId, 50));
  await append(store, short, deltas(short.runId, 20));
  const swept = await sweep(store, { retention: { maxRunEvents: 20 }, batchSize: 7 });
  assert.equal(swept.events, 30);
  assert.deepEqual(await kept(store, long), numbers(31, 50));
  assert.deepEqual(await kept(store, short), numbers(1, 20));
  assert.deepEqual(await kept(store, response), numbers(1, 50));
  assert.equal((await sweep(store, { retention: { maxRunEvents: 20 } })).events, 0);
});

test("an active run keeps what recovery needs: events after the last saved step, and all steering", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const run = await seed(store);
  const { runId } = run;
  await append(store, run, [
    ...deltas(runId, 9),
    event(runId, "run.steer_accepted"), // 10
    event(runId, "run.steered"), // 11
    ...deltas(runId, 8),
    event(runId, "usage.updated"), // 20
    ...deltas(runId, 30),
  ]);
  await sweep(store, { retention: { maxRunEvents: 40 }, batchSize: 4 });
  assert.deepEqual(await kept(store, run), numbers(10, 50), "the newest 40, and the word of steering");
  await sweep(store, { retention: { maxRunEvents: 10 }, batchSize: 4 });
  assert.deepEqual(await kept(store, run), [10, 11, ...numbers(20, 50)], "all of the step that is not saved");
  await append(store, run, [event(runId, "usage.updated")]); // 51
  await sweep(store, { retention: { maxRunEvents: 10 }, batchSize: 4 });
  assert.deepEqual(await kept(store, run), [10, 11, ...numbers(42, 51)]);
  await store.write((tx) => tx.update("runs", { id: runId }, endedAgo(0)));
  await sweep(store, { retention: { maxRunEvents: 10 } });
  assert.deepEqual(await kept(store, run), numbers(42, 51), "a run that is over needs none");
});

test("an active run without a saved step, and active chats and responses, lose no events", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const first = await seed(store);
  const chat = await seed(store, { run: { kind: "chat" } });
  const response = await seed(store, { run: { kind: "response" } });
  await append(store, first, deltas(first.runId, 50));
  for (const run of [chat, response]) {
    await append(store, run, [...deltas(run.runId, 49), event(run.runId, "usage.updated")]);
  }
  assert.equal((await sweep(store, { retention: { maxRunEvents: 10 } })).events, 0);
  for (const run of [first, chat, response]) assert.deepEqual(await kept(store, run), numbers(1, 50));
});

test("later sweeps visit only runs that ended since, and active ones", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const before = await seed(store, { run: endedAgo(5) });
  const since = await seed(store, { run: endedAgo(3) });
  for (const run of [before, since]) await append(store, run, deltas(run.runId, 30));
  const retention = { eventsMs: 2 * HOUR_MS };
  // At the sweep of two hours ago those that had ended four hours ago were old.
  const swept = await sweep(store, { retention, sinceMs: NOW_MS - 2 * HOUR_MS });
  assert.equal(swept.events, 30);
  assert.deepEqual(await kept(store, since), []);
  assert.deepEqual(await kept(store, before), numbers(1, 30));
});

test("a sweep goes through more runs than a page holds", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const runs: Seed[] = [];
  for (let i = 0; i < 450; i++) runs.push(await seed(store, { run: endedAgo(3) }));
  for (const run of runs) await append(store, run, deltas(run.runId, 2));
  assert.equal((await sweep(store, { retention: { eventsMs: HOUR_MS } })).events, 900);
});
