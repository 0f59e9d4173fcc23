import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { endOccurrence } from "../../../src/cron/run/end.ts";
import { messageText, planOccurrence } from "../../../src/cron/run/result.ts";
import { extendLeases } from "../../../src/cron/queries.ts";
import type { Store } from "../../../src/store/store.ts";
import { START_MS } from "../../harness/cron.ts";
import { jobOf, jobRow, makeJob, occurrencesOf, startTicking } from "./ticking.ts";

const DUE = { due_at: START_MS, next_run_at: START_MS };

test("a run of a killed process becomes unknown, is reported and not repeated, and the next slot runs on time", async (t) => {
  const { clock, store, start, logLines } = await startTicking(t);
  const killed = await start();
  const id = await makeJob(store, {}, DUE);
  await killed.ticker.tick();
  // Its script runs; then its process is killed.
  await store.write((tx) =>
    tx.update("occurrences", { job_id: id }, { status: "running", started_at: tx.nowMs }),
  );
  await killed.store.close();

  const other = await start();
  await other.ticker.tick();
  assert.equal(other.fired.length, 0);
  const [occurrence] = await occurrencesOf(store);
  assert.equal(occurrence?.status, "unknown");
  assert.equal((await jobOf(store, id)).last_status, "unknown");
  const messages = await store.read
    .selectFrom("outbox")
    .select("target")
    .where("ref", "=", occurrence.id)
    .execute();
  assert.ok(
    messages.some(({ target }) => target === "test"),
    "people are notified",
  );
  assert.ok(logLines.some((line) => line.includes("is unknown") && line.includes(occurrence.id)));

  const nextMs = (await jobOf(store, id)).next_run_at ?? 0;
  clock.tick(nextMs - clock.now());
  await other.ticker.tick();
  assert.deepEqual(
    other.fired.map(({ occurrence: { scheduled_at, timing } }) => [scheduled_at, timing]),
    [[nextMs, "on_time"]],
  );
});

test("a claimed occurrence that had not started runs once in the process that takes it over", async (t) => {
  const { store, start } = await startTicking(t);
  const killed = await start();
  const id = await makeJob(store, {}, DUE);
  await killed.ticker.tick();
  await killed.store.close();
  const others = [await start({ endsAtOnce: true }), await start({ endsAtOnce: true })];
  await Promise.all(others.map(({ ticker }) => ticker.tick()));
  await Promise.all(others.map(({ ticker }) => ticker.settled()));
  const fired = others.flatMap((each) => each.fired);
  assert.deepEqual(
    fired.map(({ occurrence }) => occurrence.id),
    killed.fired.map(({ occurrence }) => occurrence.id),
  );
  assert.equal((await occurrencesOf(store, id))[0]?.status, "ok");
});

test("an occurrence that is taken over late shows its delay", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const killed = await start();
  await makeJob(store, {}, DUE);
  await killed.ticker.tick();
  await killed.store.close();
  clock.tick(10 * 60_000);
  const other = await start();
  await other.ticker.tick();
  const [claimed] = other.fired;
  assert.ok(claimed);
  const plan = planOccurrence(claimed, {
    homes: new Map(),
    settings: { wrapResponse: true, silentMatch: "contains" },
  });
  assert.match(messageText(plan, { status: "ok", text: "tea" }), /\(late by 10 min\)/);
});

test("a heartbeat keeps the claim of a long run, only its owner renews it, and it is reclaimed after the lease", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const host = { store: { host: "here" } };
  const one = await start(host);
  // The other process cannot check whether the owner lives: only the lease counts.
  const other = await start({ store: { host: "elsewhere" } });
  await makeJob(store, {}, DUE);
  await one.ticker.tick();
  const lease = async () => (await occurrencesOf(store))[0];
  for (let minute = 0; minute < 30; minute++) {
    clock.tick(20_000);
    await one.ticker.tick();
    await other.ticker.tick();
  }
  assert.equal((await lease())?.lease_owner, one.store.owner);
  assert.equal((await lease())?.lease_until, clock.now() + 60_000);
  assert.equal(other.fired.length, 0);

  const [occurrence] = one.fired;
  const id = occurrence?.occurrence.id ?? "";
  clock.tick(1_000);
  await other.store.write((tx) =>
    extendLeases(tx, { owner: other.store.owner, ids: [id], untilMs: tx.nowMs + 60_000 }),
  );
  assert.equal((await lease())?.lease_until, clock.now() + 59_000);

  // It says nothing any more, and is not known to be gone: after the lease it is taken over.
  clock.tick(54_000);
  await other.ticker.tick();
  assert.equal(other.fired.length, 0);
  clock.tick(5_000);
  await other.ticker.tick();
  assert.deepEqual(
    other.fired.map((each) => each.occurrence.id),
    [id],
  );

  // The first one comes back: it renews nothing, and what it says of the end does not count.
  await one.ticker.tick();
  assert.equal((await lease())?.lease_owner, other.store.owner);
  const claimed = one.fired[0]!;
  const planOptions = {
    homes: new Map(),
    settings: { wrapResponse: true, silentMatch: "contains" },
  } as const;
  const late = {
    plan: planOccurrence(claimed, planOptions),
    ending: { status: "failed", text: "late" },
    isMine: true,
  } as const;
  assert.equal(await one.store.write((tx) => endOccurrence(tx, one.store, late)), false);
  assert.equal((await lease())?.status, "claimed");
});

test("after the machine slept, no process takes over the claims of a living process", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const [one, other] = [await start(), await start()];
  await makeJob(store, { schedule: { kind: "interval", minutes: 10_000 } }, DUE);
  await other.ticker.tick();
  await one.ticker.tick();
  const holder = other.fired.length === 1 ? other : one;
  const waker = holder === other ? one : other;
  clock.tick(24 * 3_600_000);
  await waker.ticker.tick();
  assert.deepEqual(waker.fired, []);
  await holder.ticker.tick();
  clock.tick(5_000);
  await waker.ticker.tick();
  assert.deepEqual(waker.fired, []);
});

test("a lease from before the clock was set back lasts no longer than usual", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const gone = await start({ store: { host: "elsewhere" } });
  await makeJob(store, {}, DUE);
  await gone.ticker.tick();
  await store.write((tx) =>
    tx.update("occurrences", { ended_at: null }, { lease_until: clock.now() + 3_600_000 }),
  );
  const other = await start();
  await other.ticker.tick();
  for (let look = 0; look < 12; look++) {
    clock.tick(5_000);
    await other.ticker.tick();
  }
  assert.equal(other.fired.length, 1);
});

test("a claimed occurrence of a deleted or paused job does not run", async (t) => {
  const { store, start } = await startTicking(t);
  const killed = await start();
  const removed = await makeJob(store, { name: "removed" }, DUE);
  const paused = await makeJob(store, { name: "paused" }, DUE);
  await killed.ticker.tick();
  await killed.store.close();
  await store.write(async (tx) => {
    await tx.db.deleteFrom("cron_jobs").where("id", "=", removed).execute();
    await tx.update("cron_jobs", { id: paused }, { state: "paused", due_at: null });
  });
  const other = await start();
  await other.ticker.tick();
  assert.equal(other.fired.length, 0);
  const statuses = (await occurrencesOf(store)).map(({ job_name: name, status }) => [name, status]);
  assert.deepEqual(Object.fromEntries(statuses), { removed: "unknown", paused: "skipped" });
});

test("an occurrence that is still open after its run does not block its job forever", async (t) => {
  const { clock, store, start, logLines } = await startTicking(t);
  const one = await start();
  const id = await makeJob(store, {}, DUE);
  await one.ticker.tick();
  const lost = { status: "running", run_id: "run_gone", lease_owner: null, lease_until: null };
  await store.write((tx) => tx.update("occurrences", { job_id: id }, lost));
  clock.tick(20_000);
  await one.ticker.tick();
  assert.deepEqual([(await occurrencesOf(store))[0]?.status, one.ticker.runningCount], ["unknown", 0]);
  assert.ok(logLines.some((line) => line.includes("was still open")));
  clock.tick(3_600_000);
  await one.ticker.tick();
  assert.equal(one.fired.length, 2);
});

test("an occurrence that cannot be taken over is logged, and does not stop the others", async (t) => {
  const { store, start, logLines } = await startTicking(t);
  const killed = await start();
  const bad = await makeJob(store, {}, DUE);
  const well = await makeJob(store, {}, DUE);
  await killed.ticker.tick();
  await store.write((tx) => tx.update("occurrences", { job_id: bad }, { claimed_at: START_MS - 1 }));
  await store.write((tx) => refuse(tx.db, store.dialect, bad));
  await killed.store.close();
  const other = await start();
  await other.ticker.tick();
  assert.deepEqual(
    other.fired.map(({ job }) => job.id),
    [well],
  );
  assert.ok(
    logLines.some((line) => line.includes("cannot take over") && line.includes(bad)),
    logLines.join("\n"),
  );
});

/** A stand-in for whatever a database may have against one row. */
async function refuse(db: Store["read"], dialect: Store["dialect"], jobId: string): Promise<void> {
  const statement =
    dialect === "postgres"
      ? `alter table occurrences add constraint refused check (job_id <> '${jobId}') not valid`
      : `create trigger refused before update on occurrences when new.job_id = '${jobId}' ` +
        "begin select raise(abort, 'refused'); end";
  await sql.raw(statement).execute(db);
}

test("a process takes over no more occurrences than it may run", async (t) => {
  const { clock, store, start } = await startTicking(t);
  const killed = await start();
  const rows = Array.from({ length: 5 }, () => jobRow({ parts: {}, nowMs: START_MS }, DUE));
  await store.write((tx) => tx.insert("cron_jobs", rows));
  await killed.ticker.tick();
  await killed.store.close();
  const other = await start({ settings: { maxParallelJobs: 2 } });
  for (const count of [2, 4, 5]) {
    await other.ticker.tick();
    assert.equal(other.fired.length, count);
    await other.end();
    await other.ticker.settled();
    clock.tick(5_000);
  }
});

test("a tick reads only open occurrences and due jobs, from indexes", async (t) => {
  const { store } = await startTicking(t);
  const plans = [
    await plan(
      store,
      sql`select * from occurrences where ended_at is null and run_id is null order by claimed_at limit 200`,
    ),
    await plan(store, sql`select due_at from cron_jobs where due_at is not null order by due_at limit 1`),
    await plan(
      store,
      sql`select * from cron_jobs where due_at is not null and due_at <= 5 order by due_at, id limit 100`,
    ),
    await plan(store, sql`select * from occurrences where job_id = 'x' and ended_at is null limit 1`),
    await plan(
      store,
      sql`select * from occurrences where job_id = 'x' and scheduled_at = 5 and cause = 'schedule' limit 1`,
    ),
  ];
  for (const text of plans)
    assert.match(text, /using (covering )?index|index (only )?scan|index cond/i, text);
});

async function plan(store: Store, query: ReturnType<typeof sql>): Promise<string> {
  if (store.dialect === "sqlite") {
    const { rows } = await sql<{ detail: string }>`explain query plan ${query}`.execute(store.read);
    return rows.map(({ detail }) => detail).join("\n");
  }
  // The tables are empty here: only what the planner may do is asked, not what it prefers.
  return store.write(async (tx) => {
    await sql`set local enable_seqscan = off`.execute(tx.db);
    const { rows } = await sql<Record<string, string>>`explain ${query}`.execute(tx.db);
    return rows.flatMap((row) => Object.values(row)).join("\n");
  });
}
