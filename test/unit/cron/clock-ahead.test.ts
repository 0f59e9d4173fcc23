/** A scheduler whose clock ran ahead of the time, and was set right. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nearerUpcoming } from "../../../src/cron/tick/clock-ahead.ts";
import { nextRunMs } from "../../../src/cron/schedule/instants.ts";
import { toJob, type Schedule } from "../../../src/cron/job/job.ts";
import { readCronStatus } from "../../../src/cron/tick/status.ts";
import { START_MS } from "../../harness/cron.ts";
import { jobOf, makeJob, occurrencesOf, startTicking, type Ticking } from "./ticking.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAYS_MS = 72 * HOUR_MS;

const schedules: readonly (readonly [string, Schedule])[] = [
  ["every minute", { kind: "interval", minutes: 1 }],
  ["an expression", { kind: "cron", expression: "*/5 * * * *" }],
];

/** A job that ran for a while, on a clock that is three days ahead by then. */
async function ranAhead({ clock, store, start }: Ticking, schedule: Schedule) {
  const nextMs = nextRunMs(schedule, START_MS, "UTC");
  const id = await makeJob(store, { schedule }, { due_at: nextMs, next_run_at: nextMs });
  const process = await start({ endsAtOnce: true });
  const look = async (ms: number) => {
    clock.tick(ms);
    await process.ticker.tick();
    await process.ticker.settled();
  };
  await look(5 * MINUTE_MS);
  await look(DAYS_MS);
  for (let n = 0; n < 10; n++) await look(5 * MINUTE_MS);
  return { id, process, look };
}

for (const [title, schedule] of schedules) {
  test(`a job with ${title} is due at its next time once a clock that was ahead is set right, and no instant runs twice`, async (t) => {
    const ticking = await startTicking(t);
    const { clock, store, logLines } = ticking;
    const { id, process, look } = await ranAhead(ticking, schedule);
    const ran = process.fired.length;
    await look(-DAYS_MS);
    const next = (await jobOf(store, id)).next_run_at ?? 0;
    assert.ok(next > clock.now() && next <= clock.now() + 5 * MINUTE_MS, new Date(next).toISOString());
    assert.ok(logLines.some((line) => line.includes("the clock was ahead")));
    await look(5 * MINUTE_MS);
    await look(5 * MINUTE_MS);
    assert.ok(process.fired.length > ran, "it runs again at once");
    for (let n = 0; n < 20; n++) await look(MINUTE_MS);
    const rows = await occurrencesOf(store);
    assert.equal(new Set(rows.map(({ scheduled_at: at }) => at)).size, rows.length);
    assert.equal(logLines.filter((line) => line.includes("the clock was ahead")).length, 1);
  });
}

test("a scheduler that starts after the clock was corrected finds delayed jobs, and the status shows it for a day", async (t) => {
  const ticking = await startTicking(t);
  const { clock, store, start } = ticking;
  const { id } = await ranAhead(ticking, { kind: "interval", minutes: 1 });
  clock.tick(-DAYS_MS);
  const later = await start({ endsAtOnce: true });
  await later.ticker.tick();
  const { next_run_at: nextMs, last_run_at: lastMs } = await jobOf(store, id);
  assert.ok((nextMs ?? Infinity) <= clock.now() + MINUTE_MS);
  assert.ok((lastMs ?? Infinity) <= clock.now());
  const corrected = async () => (await readCronStatus(store, { nowMs: clock.now() })).corrected;
  assert.deepEqual(await corrected(), { atMs: clock.now(), count: 1 });
  clock.tick(25 * HOUR_MS);
  assert.equal(await corrected(), undefined);
});

test("a repeating job that people postponed keeps its time", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const atMs = START_MS + DAYS_MS;
  const id = await makeJob(
    store,
    { schedule: { kind: "interval", minutes: 1 } },
    { due_at: atMs, next_run_at: atMs },
  );
  const process = await start({ endsAtOnce: true });
  await process.ticker.tick();
  clock.tick(HOUR_MS);
  await process.ticker.tick();
  assert.equal((await jobOf(store, id)).next_run_at, atMs);
});

test("after a clock correction intervals keep their phase, one-shots their time, and manual runs and retries run at once", async (t) => {
  const { store } = await startTicking(t);
  const nearer = async (schedule: Schedule, columns: object) => {
    const id = await makeJob(store, { schedule }, { due_at: START_MS, ...columns });
    const job = toJob(await jobOf(store, id));
    assert.ok(job);
    return nearerUpcoming(job, START_MS);
  };
  const every = { kind: "interval", minutes: 5 } as const;
  const beat = await nearer(every, { next_run_at: START_MS + DAYS_MS + 2 * MINUTE_MS });
  assert.equal(beat?.nextRunAtMs, START_MS + 2 * MINUTE_MS);
  assert.equal(await nearer(every, { next_run_at: START_MS + 5 * MINUTE_MS }), undefined);
  const onceMs = START_MS + DAYS_MS;
  assert.equal(await nearer({ kind: "once", atMs: onceMs }, { next_run_at: onceMs }), undefined);
  const asked = await nearer(every, {
    next_run_at: START_MS + MINUTE_MS,
    manual_at: START_MS + DAYS_MS,
    retry_at: START_MS + DAYS_MS,
  });
  assert.deepEqual([asked?.manualAtMs, asked?.retryAtMs], [START_MS, START_MS]);
});
