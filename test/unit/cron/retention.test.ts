/** How long the record of jobs is kept. */
import { occurrenceRow, cronJobRow } from "../store/rows.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { scheduleSweeps, sweep } from "../../../src/store/retention.ts";
import type { Store } from "../../../src/store/store.ts";
import type { CronJobRow, OccurrenceRow } from "../../../src/store/schema/tables.ts";
import { openTestStore } from "../../harness/store.ts";

const DAY_MS = 86_400_000;
const NOW_MS = 100 * DAY_MS;

async function occurred(store: Store, days: number, parts: Partial<OccurrenceRow> = {}): Promise<string> {
  const atMs = NOW_MS - days * DAY_MS;
  const row = occurrenceRow({
    claimed_at: atMs,
    ...parts,
  });
  await store.write((tx) => tx.insert("occurrences", [row]));
  return row.id;
}

async function job(store: Store, id: string, parts: Partial<CronJobRow> = {}): Promise<string> {
  const row = cronJobRow({
    id,
    due_at: NOW_MS,
    next_run_at: NOW_MS,
    ...parts,
  });
  await store.write((tx) => tx.insert("cron_jobs", [row]));
  return id;
}

const over = (days: number, parts: Partial<CronJobRow> = {}): Partial<CronJobRow> => ({
  state: "completed",
  due_at: null,
  next_run_at: null,
  updated_at: NOW_MS - days * DAY_MS,
  ...parts,
});

async function kept(store: Store, table: "occurrences" | "cron_jobs"): Promise<readonly string[]> {
  const rows = await store.read.selectFrom(table).select("id").orderBy("id").execute();
  return rows.map(({ id }) => id);
}

test("occurrences older than their retention are deleted, except open ones and the newest of each job", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  await job(store, "tea");
  await job(store, "rare");
  const open = await occurred(store, 90, { ended_at: null, status: "running" });
  for (const days of [80, 60, 31, 30.001]) await occurred(store, days);
  const rare = await occurred(store, 70, { job_id: "rare" });
  await occurred(store, 75, { job_id: "rare" });
  await occurred(store, 50, { job_id: "removed" });
  const exact = await occurred(store, 30);
  const fresh = await occurred(store, 1, { job_id: "removed" });
  const { occurrences } = await sweep(store, { retention: { occurrencesMs: 30 * DAY_MS }, batchSize: 2 });
  assert.equal(occurrences, 6);
  assert.deepEqual(await kept(store, "occurrences"), [open, rare, exact, fresh].toSorted());
  assert.equal((await sweep(store, { retention: { occurrencesMs: 30 * DAY_MS } })).occurrences, 0);
});

test("the oldest occurrences over the limit are deleted, except open ones and the newest of each job", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  await job(store, "tea");
  await job(store, "rare");
  const open = await occurred(store, 9, { ended_at: null, status: "running" });
  const rare = await occurred(store, 8, { job_id: "rare" });
  for (const days of [7, 6, 5, 4]) await occurred(store, days);
  const newest = [];
  for (const days of [3, 2, 1]) newest.push(await occurred(store, days));
  const retention = { occurrencesMs: 30 * DAY_MS, maxOccurrences: 3 };
  assert.equal((await sweep(store, { retention, batchSize: 2 })).occurrences, 4);
  assert.deepEqual(await kept(store, "occurrences"), [open, rare, ...newest]);
});

test("completed jobs are deleted after their retention, and other or running jobs are not", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  await job(store, "a-scheduled");
  await job(store, "b-paused", { state: "paused", due_at: null });
  await job(store, "c-error", { state: "error" });
  await job(store, "d-fresh", over(6.9));
  await job(store, "e-asked", over(9, { due_at: NOW_MS, manual_at: NOW_MS }));
  await job(store, "f-at-work", over(9));
  await occurred(store, 9, { job_id: "f-at-work", ended_at: null, status: "running" });
  for (const id of ["x1", "x2", "x3"]) await job(store, id, over(7));
  await job(store, "x4", over(8, { state: "missed" }));
  await occurred(store, 8, { job_id: "x4" });
  const stays = await kept(store, "cron_jobs");
  const swept = await sweep(store, { retention: { overJobsMs: 7 * DAY_MS }, batchSize: 2 });
  assert.deepEqual([...swept.cronJobs].toSorted(), ["x1", "x2", "x3", "x4"]);
  assert.deepEqual(
    await kept(store, "cron_jobs"),
    stays.filter((id) => !id.startsWith("x")),
  );
});

test("scheduler rows are deleted a day after their last heartbeat, except the newest", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const beat = (owner: string, days: number) => {
    const ticked = {
      started_at: 0,
      ticked_at: NOW_MS - days * DAY_MS,
      succeeded_at: null,
      last_error: null,
      corrected_at: null,
      corrected_jobs: null,
    };
    return store.write((tx) => tx.insert("cron_tickers", [{ owner, ...ticked }]));
  };
  await beat("a", 9);
  await beat("b", 2);
  await sweep(store, { retention: {} });
  const owners = async () =>
    (await store.read.selectFrom("cron_tickers").select("owner").execute()).flatMap((row) => row.owner);
  assert.deepEqual(await owners(), ["b"]);
  await beat("c", 0.5);
  await beat("d", 0);
  await sweep(store, { retention: {} });
  assert.deepEqual((await owners()).toSorted(), ["c", "d"]);
});

test("the retention reports the deleted jobs, so that their files can be removed", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  await job(store, "x1", over(8));
  const clock = new FakeClock(NOW_MS);
  const reported = Promise.withResolvers<readonly string[]>();
  const stop = scheduleSweeps(store, {
    retention: { overJobsMs: 7 * DAY_MS },
    everyMs: 1_000,
    clock,
    onProblem: (_message, error) => reported.reject(error),
    onCronJobsGone: async (ids) => reported.resolve(ids),
  });
  clock.tick(1_000);
  assert.deepEqual(await reported.promise, ["x1"]);
  await stop();
});
