import assert from "node:assert/strict";
import { hostname } from "node:os";
import { test } from "node:test";
import type { CronTickerRow } from "../../../src/store/schema/tables.ts";
import { readCronStatus, type CronStatus } from "../../../src/cron/tick/status.ts";
import { Heartbeat } from "../../../src/cron/tick/ticker.ts";
import { createTestCron, START_MS, type TestCron } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;

test("a scheduler without a tick for over 200 s is stalled", async () => {
  await using cron = await createTestCron();
  await new Heartbeat(cron.store).beat(START_MS);
  assert.equal((await status(cron)).state, "ticking");
  cron.clock.tick(200_000);
  assert.equal((await status(cron)).state, "ticking");
  cron.clock.tick(1);
  const stalled = await status(cron);
  assert.equal(stalled.state, "stalled");
  assert.equal(stalled.lastTickAtMs, START_MS);
  assert.equal(stalled.tickers[0]?.state, "stalled");
});

test("a scheduler whose ticks fail becomes stalled, and the status shows its error", async () => {
  await using cron = await createTestCron();
  const beat = new Heartbeat(cron.store);
  await beat.beat(START_MS);
  cron.clock.tick(201_000);
  await beat.failed(cron.clock.now(), new Error("the disk is full"));
  const { state, tickers, lastTickAtMs } = await status(cron);
  assert.equal(state, "stalled");
  assert.equal(lastTickAtMs, START_MS + 201_000);
  assert.equal(tickers[0]?.lastError, "the disk is full");
  assert.equal(tickers[0].succeededAtMs, START_MS);
});

test("a heartbeat from before the clock was set back does not count forever", async () => {
  await using cron = await createTestCron();
  await putTicker(cron, { owner: "elsewhere:7:aa", succeeded_at: START_MS + 86_400_000 });
  assert.equal((await status(cron)).state, "stalled");
});

test("a dead process does not count as ticking", async () => {
  await using cron = await createTestCron();
  assert.equal((await status(cron)).state, "none");
  await putTicker(cron, { owner: `${hostname()}:${UNUSED_PID}:aa` });
  const gone = await status(cron);
  assert.equal(gone.state, "none");
  assert.equal(gone.tickers[0]?.state, "gone");
  assert.equal(gone.lastTickAtMs, START_MS);
  await putTicker(cron, { owner: "elsewhere:7:bb" });
  const ticking = await status(cron);
  assert.equal(ticking.state, "ticking");
  const place = ticking.tickers.find(({ state }) => state === "ticking");
  assert.deepEqual([place?.host, place?.pid], ["elsewhere", 7]);
});

test("status lists late jobs, the longest due first, and the next job", async () => {
  await using cron = await createTestCron();
  const made: string[] = [];
  for (let index = 0; index < 7; index++) {
    const minutes = 60 + index;
    made.push((await cron.create({ name: `job ${index}`, schedule: { kind: "interval", minutes } })).id);
  }
  const before = await status(cron);
  assert.deepEqual(before.late, { count: 0, oldestDueAtMs: undefined, named: [] });
  assert.equal(before.next?.dueAtMs, START_MS + HOUR_MS);
  cron.clock.tick(HOUR_MS + 60_000);
  assert.equal((await status(cron)).late.count, 0);
  cron.clock.tick(5 * 60_000 + 1);
  const { late, next } = await status(cron);
  assert.equal(late.count, 6);
  assert.equal(late.oldestDueAtMs, START_MS + HOUR_MS);
  assert.deepEqual(
    late.named.map(({ id }) => id),
    made.slice(0, 5),
  );
  assert.deepEqual(next, late.named[0]);
});

test("status changes no row", async () => {
  await using cron = await createTestCron();
  await cron.create();
  await breakRow(cron, (await cron.create({ name: "broken" })).id);
  await putTicker(cron, { owner: "elsewhere:7:aa" });
  cron.clock.tick(10 * HOUR_MS);
  const before = await everything(cron);
  await status(cron);
  await status(cron);
  assert.deepEqual(await everything(cron), before);
});

test("status counts jobs by state, and broken, failed and running ones", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  await using cron = await createTestCron({ script: () => held.then(() => ({ text: "done" })) });
  const idle = { due_at: null };
  await put(cron, (await cron.create({ name: "paused" })).id, { ...idle, state: "paused" });
  await put(cron, (await cron.create({ name: "odd" })).id, { ...idle, state: "purple" });
  const broken = await cron.create({ name: "broken" });
  await put(cron, broken.id, { ...idle, state: "error", definition: "{" });
  const failing = await cron.create({ name: "failing" });
  await put(cron, failing.id, { ...idle, last_status: "delivery_failed" });
  await cron.create({ name: "slow" });
  cron.clock.tick(HOUR_MS);
  await cron.ticker.tick();
  const seen = await status(cron);
  assert.deepEqual(seen.jobs, { scheduled: 2, paused: 1, completed: 0, missed: 0, error: 1, all: 5 });
  assert.equal(seen.broken, 2);
  assert.equal(seen.open, 1);
  assert.deepEqual(seen.failures, {
    count: 1,
    named: [{ id: failing.id, name: "failing", lastStatus: "delivery_failed" }],
  });
  release();
  await cron.ticker.settled();
  assert.equal((await status(cron)).open, 0);
});

/** Above the highest that any system gives out. */
const UNUSED_PID = 2_000_000_000;

function status(cron: TestCron): Promise<CronStatus> {
  return readCronStatus(cron.store, { nowMs: cron.clock.now() });
}

async function putTicker(cron: TestCron, parts: Partial<CronTickerRow>): Promise<void> {
  const nowMs = cron.clock.now();
  const row = {
    owner: "",
    started_at: nowMs,
    ticked_at: nowMs,
    succeeded_at: nowMs,
    last_error: null,
    corrected_at: null,
    corrected_jobs: null,
  };
  await cron.store.write((tx) => tx.insert("cron_tickers", [{ ...row, ...parts }]));
}

async function put(cron: TestCron, id: string, columns: object): Promise<void> {
  await cron.store.write((tx) => tx.update("cron_jobs", { id }, columns));
}

async function breakRow(cron: TestCron, id: string): Promise<void> {
  await put(cron, id, { definition: "{" });
}

async function everything(cron: TestCron): Promise<unknown> {
  const { read } = cron.store;
  return Promise.all([
    read.selectFrom("cron_jobs").selectAll().orderBy("id").execute(),
    read.selectFrom("occurrences").selectAll().orderBy("id").execute(),
    read.selectFrom("cron_tickers").selectAll().orderBy("owner").execute(),
  ]);
}
