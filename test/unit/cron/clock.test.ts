import assert from "node:assert/strict";
import { test } from "node:test";
import { START_MS } from "../../harness/cron.ts";
import { jobOf, makeJob, occurrencesOf, startTicking } from "./ticking.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const every5 = { schedule: { kind: "cron", expression: "*/5 * * * *" } } as const;

/** Instants that a row accounts for. */
function covered(rows: Awaited<ReturnType<typeof occurrencesOf>>, stepMs: number): readonly number[] {
  return rows.flatMap(({ scheduled_at: from, covers_until: until }) => {
    const count = until === null ? 1 : (until - from) / stepMs + 1;
    return Array.from({ length: count }, (_, n) => from + n * stepMs);
  });
}

for (const [what, jumpMs] of [
  ["an hour forwards", HOUR_MS],
  ["a day, asleep", DAY_MS],
  ["a year, asleep", 365 * DAY_MS],
] as const) {
  test(`the clock jumps ${what}: one run, the rest is stated as missed, nothing twice`, async (t) => {
    const { clock, store, start } = await startTicking(t);
    const one = await start({ endsAtOnce: true });
    const id = await makeJob(store, { schedule: { kind: "interval", minutes: 5 } });
    for (const stepMs of [5 * MINUTE_MS, jumpMs, 5 * MINUTE_MS]) {
      clock.tick(stepMs);
      await one.ticker.tick();
      await one.ticker.settled();
    }
    assert.equal(one.fired.length, 3);
    assert.deepEqual(
      one.fired.map(({ occurrence }) => occurrence.timing),
      ["on_time", "catch_up", "on_time"],
    );
    const rows = await occurrencesOf(store, id);
    const all = covered(rows, 5 * MINUTE_MS);
    const count = (clock.now() - START_MS) / (5 * MINUTE_MS);
    assert.deepEqual(
      all,
      Array.from({ length: count }, (_, n) => START_MS + (n + 1) * 5 * MINUTE_MS),
    );
    assert.equal((await jobOf(store, id)).next_run_at, clock.now() + 5 * MINUTE_MS);
  });
}

test("when the clock jumps back an hour, nothing runs twice and the schedule continues", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start({ endsAtOnce: true });
  await makeJob(store, every5);
  await one.ticker.start();
  const look = async (ms: number) => {
    clock.tick(ms);
    await one.ticker.tick();
    await one.ticker.settled();
  };
  for (let n = 0; n < 12; n++) await look(5 * MINUTE_MS);
  assert.equal(one.fired.length, 12);
  await look(-HOUR_MS);
  for (let n = 0; n < 12; n++) await look(5 * MINUTE_MS);
  assert.equal(one.fired.length, 12, "these instants have run");
  await look(5 * MINUTE_MS);
  assert.equal(one.fired.length, 13);
  const rows = await occurrencesOf(store);
  assert.equal(new Set(rows.map(({ scheduled_at: at }) => at)).size, rows.length);
  assert.ok(rows.every(({ status }) => status === "ok"));
});

test("when the clock jumps back while a job is running, its claim stays", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const [one, other] = [await start(), await start({ store: { host: "elsewhere" } })];
  await makeJob(store, {}, { due_at: START_MS, next_run_at: START_MS });
  await one.ticker.tick();
  await other.ticker.tick();
  clock.tick(-HOUR_MS);
  for (let look = 0; look < 10; look++) {
    await one.ticker.tick();
    await other.ticker.tick();
    clock.tick(20_000);
  }
  assert.deepEqual([one.fired.length, other.fired.length], [1, 0]);
  assert.equal(one.ticker.runningCount, 1);
});

test("the database's clock decides, whether it is ahead of or behind the process", async (t) => {
  for (const aheadMs of [-30_000, 30_000]) {
    const { clock, store, start } = await startTicking(t);
    const one = await start({ endsAtOnce: true, store: { now: () => clock.now() + aheadMs } });
    const dueMs = START_MS + 60_000;
    await makeJob(store, {}, { due_at: dueMs, next_run_at: dueMs });
    let writes = 0;
    const { write } = one.store;
    Object.assign(one.store, {
      write: (...args: Parameters<typeof write>) => {
        writes += 1;
        return write(...args);
      },
    });
    await one.ticker.start();
    // In the process's time.
    const firesMs = dueMs - aheadMs;
    while (clock.now() < firesMs - 1_000) {
      clock.tick(1_000);
      await one.ticker.start();
    }
    assert.equal(one.fired.length, 0);
    assert.ok(writes < 20, `${writes} transactions while nothing was due`);
    clock.tick(1_000);
    await one.ticker.start();
    assert.deepEqual(
      one.fired.map(({ occurrence }) => occurrence.scheduled_at),
      [dueMs],
    );
    assert.equal(one.fired[0]?.occurrence.claimed_at, dueMs);
  }
});

test("a one-shot in a year needs no timer of a year", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start();
  const id = await makeJob(store, { schedule: { kind: "once", atMs: START_MS + 365 * DAY_MS } });
  await one.ticker.start();
  clock.tick(364 * DAY_MS);
  await one.ticker.start();
  assert.equal(one.fired.length, 0);
  clock.tick(DAY_MS);
  await one.ticker.start();
  assert.deepEqual(
    one.fired.map(({ job }) => job.id),
    [id],
  );
});
