import assert from "node:assert/strict";
import { test } from "node:test";
import { START_MS } from "../../harness/cron.ts";
import { jobOf, jobRow, makeJob, occurrencesOf, startTicking } from "./ticking.ts";

const HOUR_MS = 3_600_000;
const DUE = { due_at: START_MS, next_run_at: START_MS };
/** Too late to run, and not to be made up for. */
const LATE = { due_at: START_MS - HOUR_MS / 2, next_run_at: START_MS - HOUR_MS / 2 };
const STRICT = { parts: { catchUp: false, misfireGraceSeconds: 60 }, nowMs: START_MS };

test("two schedulers run every instant exactly once", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const processes = [await start({ endsAtOnce: true }), await start({ endsAtOnce: true })];
  const count = 300;
  const rows = Array.from({ length: count }, () => jobRow({ parts: {}, nowMs: START_MS }, DUE));
  await store.write((tx) => tx.insert("cron_jobs", rows));
  for (let hour = 0; hour < 3; hour++) {
    // What both were too busy for is taken in another look.
    for (let began = 1; began > 0;) {
      const taken = await Promise.all(processes.map(({ ticker }) => ticker.tick()));
      await Promise.all(processes.map(({ ticker }) => ticker.settled()));
      began = taken.flat().length;
    }
    clock.tick(HOUR_MS);
  }
  const fired = processes.flatMap((each) => each.fired.map(({ occurrence }) => occurrence.id));
  assert.equal(new Set(fired).size, fired.length, "none was fired twice");
  const all = await occurrencesOf(store);
  assert.equal(all.length, 3 * count);
  assert.ok(all.every(({ status }) => status === "ok"));
  assert.equal(fired.length, all.length);
});

test("`cron tick` beside a ticking service runs each due job once", async (t) => {
  const { store, start } = await startTicking(t);
  const service = await start({ endsAtOnce: true });
  const command = await start({ endsAtOnce: true });
  const rows = Array.from({ length: 50 }, () => jobRow({ parts: {}, nowMs: START_MS }, DUE));
  await store.write((tx) => tx.insert("cron_jobs", rows));
  const [ids] = await Promise.all([command.ticker.once(), service.ticker.start()]);
  await service.ticker.settled();
  assert.deepEqual(
    ids,
    command.fired.map(({ occurrence }) => occurrence.id),
  );
  assert.equal(service.fired.length + command.fired.length, 50);
  assert.equal((await occurrencesOf(store)).length, 50);
});

test("jobs run in parallel up to the limit, a limit of 1 runs them one by one, and a long job blocks no other", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const wide = await start({ settings: { maxParallelJobs: 3 } });
  for (let n = 0; n < 5; n++)
    await makeJob(store, { name: `job ${n}` }, { ...DUE, due_at: START_MS + n, next_run_at: START_MS + n });
  clock.tick(1_000);
  await wide.ticker.start();
  assert.deepEqual(
    wide.fired.map(({ job }) => job.definition.name),
    ["job 0", "job 1", "job 2"],
  );
  assert.equal(wide.ticker.runningCount, 3);

  // The first one goes on and on; each place that is free is taken by the next.
  const [, second, third] = wide.fired;
  await wide.end(second?.occurrence.id);
  await wide.ticker.tick();
  await wide.end(third?.occurrence.id);
  await wide.ticker.tick();
  assert.deepEqual(
    wide.fired.slice(3).map(({ job }) => job.definition.name),
    ["job 3", "job 4"],
  );
  await wide.end();
  await wide.ticker.settled();
  await wide.ticker.stop();

  const narrow = await start({ settings: { maxParallelJobs: 1 } });
  await makeJob(store, {}, { due_at: clock.now(), next_run_at: clock.now() });
  await makeJob(store, {}, { due_at: clock.now(), next_run_at: clock.now() });
  for (let n = 1; n <= 2; n++) {
    await narrow.ticker.tick();
    assert.deepEqual([narrow.fired.length, narrow.ticker.runningCount], [n, 1]);
    await narrow.end();
  }
});

test("one process runs the jobs that another cannot take", async (t) => {
  const { store, start } = await startTicking(t);
  const narrow = { settings: { maxParallelJobs: 1 } };
  const [one, other] = [await start(narrow), await start(narrow)];
  await makeJob(store, {}, DUE);
  await makeJob(store, {}, DUE);
  await one.ticker.tick();
  await other.ticker.tick();
  assert.deepEqual([one.fired.length, other.fired.length], [1, 1]);
});

test("the timer sleeps until the next instant, one second at most", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start();
  await one.ticker.start();
  assert.equal(clock.pending, 1, "one timer");
  // Made by another process, due before the next look.
  await makeJob(store, {}, { due_at: START_MS + 1_000, next_run_at: START_MS + 1_000 });
  clock.tick(999);
  assert.equal(one.fired.length, 0);
  clock.tick(1);
  await one.ticker.start();
  assert.equal(one.fired.length, 1);

  const distant = START_MS + 400 * 24 * HOUR_MS;
  await makeJob(store, { schedule: { kind: "once", atMs: distant } });
  await one.ticker.start();
  assert.equal(clock.pending, 1);
});

test("`wake` ticks at once, so a request in this process does not wait for the timer", async (t) => {
  const { store, start } = await startTicking(t);
  const one = await start();
  await one.ticker.start();
  const id = await makeJob(store);
  await store.write((tx) => tx.update("cron_jobs", { id }, { manual_at: tx.nowMs, due_at: tx.nowMs }));
  one.ticker.wake();
  await one.ticker.start();
  assert.equal(one.fired[0]?.occurrence.cause, "manual");
});

test("`stop` claims nothing more, and releases what has not started at once", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start();
  await makeJob(store, {}, DUE);
  const begun = await makeJob(store, {}, DUE);
  await one.ticker.start();
  await store.write((tx) =>
    tx.update("occurrences", { job_id: begun }, { status: "running", run_id: "run_x" }),
  );
  await one.ticker.stop();
  await makeJob(store, {}, DUE);
  one.ticker.wake();
  clock.tick(2_000);
  assert.equal(one.fired.length, 2);
  assert.deepEqual(await store.read.selectFrom("cron_tickers").selectAll().execute(), []);

  const other = await start();
  await other.ticker.tick();
  const [again, fresh] = other.fired;
  assert.deepEqual([other.fired.length, again?.occurrence.id], [2, one.fired[0]?.occurrence.id]);
  assert.notEqual(fresh?.job.id, begun);

  // What has begun is waited for, but not for ever.
  const drained = one.ticker.drain(5_000);
  clock.tick(5_000);
  await drained;
  assert.equal(one.ticker.runningCount, 2);
});

test("a slot is free again when another process ended its occurrence", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start({ settings: { maxParallelJobs: 1 } });
  const id = await makeJob(store, {}, DUE);
  await makeJob(store, {}, { due_at: START_MS + 1, next_run_at: START_MS + 1 });
  await one.ticker.tick();
  await store.write((tx) =>
    tx.update("occurrences", { job_id: id }, { status: "unknown", ended_at: tx.nowMs }),
  );
  clock.tick(10_000);
  await one.ticker.tick();
  assert.equal(one.fired.length, 1, "it has not looked yet");
  clock.tick(10_000);
  await one.ticker.tick();
  assert.equal(one.fired.length, 2);
});

test("a failing store is logged once, and the scheduler continues when it is back", async (t) => {
  const { clock, store, start, logLines } = await startTicking(t);
  const one = await start();
  await makeJob(store, {}, { due_at: START_MS + 5_000, next_run_at: START_MS + 5_000 });
  const { write } = one.store;
  let isDown = true;
  const failed = Promise.withResolvers<void>();
  let failures = 0;
  Object.assign(one.store, {
    write: (...args: Parameters<typeof write>) => {
      if (!isDown) return write(...args);
      if ((failures += 1) >= 6) failed.resolve();
      return Promise.reject(new Error("disk I/O error, key=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"));
    },
  });
  const ticking = setImmediateLoop(() => clock.tick(1_000));
  await one.ticker.start();
  await failed.promise;
  const troubles = () => logLines.filter((line) => line.includes("cannot read its jobs"));
  assert.equal(troubles().length, 1);
  isDown = false;
  const isWell = () => logLines.some((line) => line.includes("reads its jobs again"));
  while (one.fired.length === 0 || !isWell()) await new Promise((resolve) => setImmediate(resolve));
  clearImmediateLoop(ticking);
  assert.equal(troubles().length, 1);
  assert.doesNotMatch(logLines.join("\n"), /sk-proj-abcdef/);
});

test("the heartbeat has the time of the last tick, and the error that prevents it", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start();
  await one.ticker.start();
  const beat = async () => store.read.selectFrom("cron_tickers").selectAll().executeTakeFirst();
  assert.deepEqual(await beat(), {
    owner: one.store.owner,
    started_at: START_MS,
    ticked_at: START_MS,
    succeeded_at: START_MS,
    last_error: null,
    corrected_at: null,
    corrected_jobs: null,
  });
  for (const seconds of [10, 10]) clock.tick(seconds * 1_000);
  await one.ticker.start();
  assert.equal((await beat())?.ticked_at, START_MS + 20_000);
});

test("`once` runs everything that is due, even over the limit, and nothing that comes due meanwhile", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start({ settings: { maxParallelJobs: 2 } });
  for (let n = 0; n < 5; n++) await makeJob(store, { schedule: { kind: "interval", minutes: 1 } }, DUE);
  let isOver = false;
  const whole = one.ticker.once().finally(() => (isOver = true));
  while (!isOver) {
    await new Promise((resolve) => setImmediate(resolve));
    if (one.ticker.runningCount === 0) continue;
    // Each takes an hour, in which its claim is kept.
    clock.tick(30_000);
    const { id } = one.fired[one.fired.length - 1]!.occurrence;
    const row = await store.find("occurrences", { id });
    assert.ok((row?.lease_until ?? 0) > clock.now() - 60_000);
    await one.end();
  }
  assert.equal((await whole).length, 5);
  assert.equal(one.fired.length, 5);
  const beats = await store.read.selectFrom("cron_tickers").select("owner").execute();
  assert.deepEqual(beats, [{ owner: one.store.owner }]);
});

test("`once` runs everything that is due over the limit when jobs end at once", async (t) => {
  const { store, start } = await startTicking(t);
  const one = await start({ settings: { maxParallelJobs: 2 }, endsAtOnce: true });
  for (let n = 0; n < 5; n++) await makeJob(store, { schedule: { kind: "interval", minutes: 1 } }, DUE);
  assert.equal((await one.ticker.once()).length, 5);
});

test("a cancelled `once` claims nothing more, and waits for what runs", async (t) => {
  const { store, start } = await startTicking(t);
  const one = await start({ settings: { maxParallelJobs: 1 } });
  const ids = [await makeJob(store, {}, DUE), await makeJob(store, {}, DUE)];
  const cancel = new AbortController();
  const whole = one.ticker.once({ signal: cancel.signal });
  while (one.ticker.runningCount === 0) await new Promise((resolve) => setImmediate(resolve));
  cancel.abort();
  await one.end();
  assert.equal((await whole).length, 1);
  const states = await Promise.all(ids.map((id) => jobOf(store, id)));
  assert.equal(states.filter(({ last_run_at }) => last_run_at !== null).length, 1);
});

test("a cancelled `once` takes nothing over", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start();
  await makeJob(store, {}, DUE);
  const cancel = new AbortController();
  const whole = one.ticker.once({ signal: cancel.signal });
  while (one.ticker.runningCount === 0) await new Promise((resolve) => setImmediate(resolve));
  const killed = await start();
  await makeJob(store, {}, DUE);
  await killed.ticker.tick();
  await killed.store.close();
  cancel.abort();
  for (let renewals = 0; renewals < 2; renewals++) {
    clock.tick(20_000);
    await one.store.write(() => undefined);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(one.fired.length, 1);
  await one.end();
  await whole;
});

test("`stop` ends a tick with many due jobs, and their claims are released at once", async (t) => {
  const { store, start } = await startTicking(t);
  const one = await start({ endsAtOnce: true, settings: { maxParallelJobs: 2 } });
  const rows = Array.from({ length: 50 }, () => jobRow(STRICT, LATE));
  await store.write((tx) => tx.insert("cron_jobs", rows));
  const started = one.ticker.start();
  await one.ticker.stop();
  await started;
  const left = await store.read
    .selectFrom("cron_jobs")
    .select("id")
    .where("due_at", "<=", START_MS)
    .execute();
  assert.ok(left.length > 0, "it did not go on to the last of them");
});

test("claims are renewed during a long tick", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start({ settings: { maxParallelJobs: 2 } });
  const id = await makeJob(store, {}, DUE);
  await one.ticker.tick();
  const leaseMs = async () => (await occurrencesOf(store, id))[0]?.lease_until ?? 0;
  const before = await leaseMs();
  const rows = Array.from({ length: 6 }, () => jobRow(STRICT, LATE));
  await store.write((tx) => tx.insert("cron_jobs", rows));
  const write = one.store.write.bind(one.store);
  let writes = 0;
  t.mock.method(one.store, "write", (...args: Parameters<typeof write>) => {
    // The look began a little ago, and each of its rounds takes long.
    if (writes++ > 0) clock.tick(10_000);
    return write(...args);
  });
  await one.ticker.tick();
  assert.ok((await leaseMs()) >= before + 40_000);
});

function setImmediateLoop(run: () => void): { isOver: boolean } {
  const loop = { isOver: false };
  const round = () => {
    if (loop.isOver) return;
    run();
    setImmediate(round);
  };
  setImmediate(round);
  return loop;
}

function clearImmediateLoop(loop: { isOver: boolean }): void {
  loop.isOver = true;
}
