import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { claimDue } from "../../../src/cron/tick/claim.ts";
import { isDuplicateKey } from "../../../src/store/tx/group.ts";
import type { Store } from "../../../src/store/store.ts";
import { definition, START_MS } from "../../harness/cron.ts";
import { jobOf, jobRow, makeJob, occurrencesOf, startTicking } from "./ticking.ts";

const HOUR_MS = 3_600_000;
const DUE = { due_at: START_MS, next_run_at: START_MS };
const DAY_MS = 24 * HOUR_MS;

test("a claimed instant is not claimed again, and a refused claim runs nothing", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const first = await start();
  const id = await makeJob(store);
  const once = await makeJob(store, { schedule: { kind: "once", atMs: START_MS + HOUR_MS } });
  clock.tick(HOUR_MS);
  await first.ticker.tick();
  assert.equal(first.fired.length, 2);
  assert.equal((await jobOf(store, id)).next_run_at, START_MS + 2 * HOUR_MS);
  assert.equal((await jobOf(store, once)).due_at, null);

  // It has not ended; its instant is not claimed again either way.
  const second = await start();
  assert.deepEqual(await second.ticker.tick(), []);
  clock.tick(1_000);
  assert.deepEqual(await second.ticker.tick(), []);
  assert.equal((await occurrencesOf(store)).length, 2);

  // A claim that the database refuses leaves nothing behind, and nothing runs.
  await store.write((tx) =>
    tx.update("cron_jobs", { id }, { due_at: tx.nowMs, next_run_at: START_MS + HOUR_MS }),
  );
  assert.deepEqual(await second.ticker.tick(), []);
  assert.deepEqual(second.fired, []);
  assert.equal((await occurrencesOf(store, id)).length, 1);
});

test("an overdue job runs once and skips ahead, records missed instants without catch_up, and still runs by hand", async (t) => {
  const { clock, store, start, logLines } = await startTicking(t);
  const one = await start({ endsAtOnce: true });
  const eager = await makeJob(store);
  const strict = await makeJob(store, { name: "strict", catchUp: false });
  clock.tick(DAY_MS + 40 * 60_000);
  await one.ticker.tick();
  await one.ticker.settled();
  assert.deepEqual(
    one.fired.map(({ occurrence: { job_id, scheduled_at, timing } }) => [job_id, scheduled_at, timing]),
    [[eager, START_MS + DAY_MS, "catch_up"]],
  );
  const [missed, ran] = await occurrencesOf(store, eager);
  assert.deepEqual(
    [missed?.status, missed?.scheduled_at, missed?.covers_until, missed?.covers_count],
    ["missed", START_MS + HOUR_MS, START_MS + 23 * HOUR_MS, 23],
  );
  assert.equal(ran?.status, "ok");
  const [stated, ...others] = await occurrencesOf(store, strict);
  assert.deepEqual([stated?.status, stated?.covers_count, others.length], ["missed", 24, 0]);
  assert.match(stated?.reason ?? "", /does not catch up/);
  assert.ok(logLines.some((line) => line.includes("was not run at its time") && line.includes(strict)));
  for (const id of [eager, strict]) {
    assert.equal((await jobOf(store, id)).next_run_at, START_MS + 25 * HOUR_MS);
  }

  await store.write((tx) =>
    tx.update("cron_jobs", { id: strict }, { manual_at: tx.nowMs, due_at: tx.nowMs }),
  );
  await one.ticker.tick();
  assert.equal(one.fired.at(-1)?.occurrence.cause, "manual");
  assert.equal((await jobOf(store, strict)).next_run_at, START_MS + 25 * HOUR_MS);
});

test("a one-shot whose time passed without a scheduler is missed, and people are notified", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start();
  const id = await makeJob(store, { schedule: { kind: "once", atMs: START_MS + HOUR_MS } });
  clock.tick(HOUR_MS + 120_001);
  assert.deepEqual(await one.ticker.tick(), []);
  const row = await jobOf(store, id);
  assert.deepEqual([row.state, row.last_status, row.due_at], ["missed", "missed", null]);
  const [occurrence] = await occurrencesOf(store);
  assert.equal(occurrence?.status, "missed");
  const messages = await store.read
    .selectFrom("outbox")
    .select(["target", "ref"])
    .orderBy("target")
    .execute();
  assert.deepEqual(messages, [
    { target: "cron_output", ref: occurrence?.id },
    { target: "test", ref: occurrence?.id },
  ]);
});

test("a job that is still running skips its next instant unless overlap is allowed", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start();
  const skips = await makeJob(store, { name: "skips", repeat: 3 });
  const overlaps = await makeJob(store, { name: "overlaps", overlap: "allow" });
  for (let hour = 0; hour < 2; hour++) {
    clock.tick(HOUR_MS);
    await one.ticker.tick();
  }
  const statuses = async (id: string) => (await occurrencesOf(store, id)).map(({ status }) => status);
  assert.deepEqual(await statuses(skips), ["claimed", "skipped"]);
  assert.deepEqual(await statuses(overlaps), ["claimed", "claimed"]);
  const row = await jobOf(store, skips);
  assert.deepEqual([row.repeat_done, row.last_run_at], [1, START_MS + HOUR_MS]);
  await one.end();
  clock.tick(HOUR_MS);
  await one.ticker.tick();
  assert.deepEqual(await statuses(skips), ["ok", "skipped", "claimed"]);
});

test("broken rows run nothing, show what to do, and do not stop other jobs", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start();
  const due = { due_at: START_MS, next_run_at: START_MS };
  const broken = [
    await makeJob(store, {}, { definition: "{", ...due }),
    await makeJob(store, {}, { definition: "[]", ...due }),
    await makeJob(store, {}, { state: "dreaming", ...due }),
    await makeJob(store, {}, { definition: '{"name":"x","zone":"UTC","schedule":{"kind":"cron"}}', ...due }),
  ];
  const nowhere = await makeJob(
    store,
    { zone: "Mars/Olympus", schedule: { kind: "cron", expression: "0 9 * * *" } },
    due,
  );
  const well = await makeJob(store, {}, due);
  await one.ticker.tick();
  assert.deepEqual(one.fired.map(({ job }) => job.id).sort(), [nowhere, well].sort());
  for (const id of [...broken, nowhere]) {
    const { state, last_error, due_at } = await jobOf(store, id);
    assert.equal(state, "error");
    assert.match(last_error ?? "", /Edit/);
    assert.equal(due_at, START_MS + HOUR_MS, "it is looked at again");
  }

  // Whoever mends the row has a job again, and hears of what was missed meanwhile.
  const [mended = ""] = broken;
  await store.write((tx) =>
    tx.update("cron_jobs", { id: mended }, { definition: jobRow({ parts: {}, nowMs: 0 }).definition }),
  );
  clock.tick(HOUR_MS);
  await one.ticker.tick();
  const { state, last_error } = await jobOf(store, mended);
  assert.deepEqual([state, last_error], ["scheduled", null]);
  assert.deepEqual(
    (await occurrencesOf(store, mended)).map(({ status }) => status),
    ["missed", "claimed"],
  );
});

test("a row that the database refuses to update does not stop other jobs", async (t) => {
  const { store, start, logLines } = await startTicking(t);
  const one = await start();
  const due = { due_at: START_MS, next_run_at: START_MS };
  const bad = await makeJob(store, {}, due);
  await store.write((tx) => refuse(tx.db, store.dialect, bad));
  const well = await makeJob(store, {}, due);
  await one.ticker.tick();
  assert.deepEqual(
    one.fired.map(({ job }) => job.id),
    [well],
    logLines.join("\n"),
  );
  assert.equal((await jobOf(store, bad)).state, "error");
});

test("a claim that the database rolled back is repeated at the next tick, not an hour later", async (t) => {
  const { store, start } = await startTicking(t);
  const one = await start();
  await one.ticker.tick();
  const ids = [await makeJob(store, {}, DUE), await makeJob(store, {}, DUE)];
  const write = one.store.write.bind(one.store);
  let givenUp = 0;
  const refusing = t.mock.method(one.store, "write", (...args: Parameters<typeof write>) =>
    givenUp++ < 2 ? Promise.reject(Object.assign(new Error("deadlock"), { code: "40P01" })) : write(...args),
  );
  await one.ticker.tick();
  refusing.mock.restore();
  await one.ticker.tick();
  assert.deepEqual(new Set(one.fired.map(({ job }) => job.id)), new Set(ids));
});

/** A stand-in for whatever a database may have against one row. */
async function refuse(db: Store["read"], dialect: Store["dialect"], jobId: string): Promise<void> {
  const statement =
    dialect === "postgres"
      ? `alter table occurrences add constraint refused check (job_id <> '${jobId}')`
      : `create trigger refused before insert on occurrences when new.job_id = '${jobId}' ` +
        "begin select raise(abort, 'refused'); end";
  await sql.raw(statement).execute(db);
}

test("a job with invalid times is left out", async (t) => {
  const { store, start } = await startTicking(t);
  const one = await start();
  const broken = JSON.stringify({ ...definition(), jitterSeconds: "much" });
  const id = await makeJob(store, {}, { due_at: START_MS, next_run_at: START_MS, definition: broken });
  await one.ticker.tick();
  const { state, last_error } = await jobOf(store, id);
  assert.equal(state, "error");
  assert.match(last_error ?? "", /Edit the job/);
});

test("an instant has at most one occurrence, even after the clock was set back", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const one = await start({ endsAtOnce: true });
  const id = await makeJob(store);
  clock.tick(HOUR_MS);
  await one.ticker.tick();
  await one.ticker.settled();
  const [row] = await occurrencesOf(store);
  const again = store.write((tx) => tx.insert("occurrences", [{ ...row!, id: "occ_double" }]));
  await assert.rejects(again, (error) => isDuplicateKey(error));

  // An edit after the clock was put back brings the instant back.
  const back = { next_run_at: START_MS + HOUR_MS, due_at: START_MS + HOUR_MS, manual_at: null };
  await store.write((tx) => tx.update("cron_jobs", { id }, back));
  await one.ticker.tick();
  assert.equal((await occurrencesOf(store)).length, 1);
  assert.equal((await jobOf(store, id)).next_run_at, START_MS + 2 * HOUR_MS);

  // What a person asks for at the same millisecond runs, each time.
  for (let asked = 0; asked < 3; asked++) {
    await store.write((tx) => tx.update("cron_jobs", { id }, { manual_at: START_MS, due_at: START_MS }));
    await one.ticker.tick();
    await one.ticker.settled();
  }
  const manual = (await occurrencesOf(store)).filter(({ cause }) => cause === "manual");
  assert.deepEqual(
    manual.map(({ scheduled_at: at }) => at - START_MS),
    [0, 1, 2],
  );
});

test("a job that changed during a claim is not claimed in its old form", async (t) => {
  const { clock, store } = await startTicking(t);
  const id = await makeJob(store);
  clock.tick(HOUR_MS);
  const request = {
    store,
    settings: { catchUpMissed: true },
    planOptions: { homes: new Map(), settings: { wrapResponse: true, silentMatch: "contains" } },
    limit: 10,
  } as const;
  await store.write(async (tx) => {
    const { update } = tx;
    // Between the look at the row and the decision somebody else is faster.
    let isFirst = true;
    const slow = new Proxy(tx, {
      get: (target, name) => {
        if (name !== "update") {
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === "function" ? value.bind(target) : value;
        }
        return async (...args: Parameters<typeof update>) => {
          if (isFirst) await target.increment("cron_jobs", { id }, "lock_version", 1);
          isFirst = false;
          return target.update(...args);
        };
      },
    });
    const round = await claimDue(slow, request);
    assert.deepEqual([round.claimed.length, round.decided], [0, 1]);
  });
  assert.deepEqual(await occurrencesOf(store), []);
});
