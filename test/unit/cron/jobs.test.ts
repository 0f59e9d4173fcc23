import assert from "node:assert/strict";
import { test } from "node:test";
import { readDefinition, type JobDefinition } from "../../../src/cron/job/job.ts";
import { readJobFile } from "../../../src/cron/job/import.ts";
import type { Jobs } from "../../../src/cron/job/jobs.ts";
import { readCronStatus } from "../../../src/cron/tick/status.ts";
import { createTestCron, definition, START_MS, type TestCron } from "../../harness/cron.ts";
import { assertRefused } from "../../harness/refusal.ts";
import { openOccurrence } from "../../harness/occurrence.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const once = (atMs: number) => definition({ schedule: { kind: "once", atMs }, repeat: 1 });

/** All that the store holds of jobs. */
async function tables({ store }: Pick<TestCron, "store">): Promise<unknown> {
  const names = ["cron_jobs", "occurrences", "cron_tickers", "outbox"] as const;
  const all = names.map((name) => store.read.selectFrom(name).selectAll().execute());
  return (await Promise.all(all)).map((rows) => rows.map((row) => JSON.stringify(row)).sort());
}

test("a job is paused, resumed, run and removed by id or name, and ambiguous names and runs of finished jobs are refused", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  const { jobs } = cron;
  const { id } = await cron.create({ name: "Grüner Tee" });
  for (const ref of [id, "Grüner Tee", " grüner TEE ", "Gru\u0308ner Tee"])
    assert.equal((await jobs.find(ref)).id, id);
  const paused = await jobs.pause("grüner tee", { reason: " on\nholiday " });
  assert.equal(paused.state, "paused");
  assert.equal(paused.pausedReason, "on holiday");
  assert.equal(paused.pausedAtMs, START_MS);
  assert.equal(paused.dueAtMs, undefined);
  await cron.advance(3 * HOUR_MS);
  assert.deepEqual(await cron.occurrences(), []);
  const resumed = await jobs.resume(id);
  assert.equal(resumed.state, "scheduled");
  assert.equal(resumed.pausedReason, undefined);
  assert.equal(resumed.nextRunAtMs, START_MS + 4 * HOUR_MS);
  const asked = await jobs.run(id);
  assert.equal(asked.manualAtMs, cron.clock.now());
  await cron.tick();
  const [occurrence] = await cron.occurrences(id);
  assert.equal(occurrence?.cause, "manual");
  assert.equal(occurrence.scheduled_at, asked.manualAtMs);
  assert.equal((await cron.job(id)).repeatDone, 0);

  const twin = await cron.create({ name: "GRÜNER TEE" });
  await assertRefused(jobs.find("grüner tee"), { says: new RegExp(`${id}, ${twin.id}`) });
  await assertRefused(jobs.remove("grüner tee"), { says: /Use an id/ });
  await assertRefused(jobs.find("grüner te"), {
    code: "job_not_found",
    says: /Did you mean "G.*agentd cron list/s,
  });
  for (const strange of ["", " ", "\u0000", "\ud800", "x".repeat(5_000), "%", "' or 1=1 --"])
    await assertRefused(jobs.find(strange), { code: "job_not_found", says: /No job matches/ });
  assert.equal((await jobs.remove(twin.id)).name, "GRÜNER TEE");
  assert.equal((await jobs.remove("grüner tee")).id, id);
  await assertRefused(jobs.pause(id), { code: "job_not_found", says: /No job matches/ });
  assert.deepEqual(await cron.occurrences(), []);

  const last = await jobs.create(once(cron.clock.now() + MINUTE_MS));
  await cron.advance(MINUTE_MS);
  assert.equal((await cron.job(last.id)).state, "completed");
  const says = /is completed: it ran once.*new schedule.*resume it at a new time/s;
  await assertRefused(jobs.run(last.id), { says });
  await assertRefused(jobs.pause(last.id), { says });
  await assertRefused(jobs.resume(last.id), { says });
  const thrice = await cron.create({ name: "thrice", repeat: 1 });
  await cron.advance(HOUR_MS);
  await assertRefused(jobs.resume(thrice.id, { runNow: true }), { says: /Raise its repeat/ });
  const gone = await jobs.create(once(cron.clock.now() + MINUTE_MS));
  await cron.advance(HOUR_MS);
  await assertRefused(jobs.run(gone.id), {
    says: /is missed: its time passed while no scheduler was running/,
  });
});

test("concurrent edits lose no write, a corrupt row does not stop the other jobs, and a bare list of jobs is readable", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  await using other = await createTestCron({ like: cron });
  const { id } = await cron.create();
  const named = (jobs: Jobs, parts: object) => jobs.edit(id, (job) => ({ ...job.definition, ...parts }));
  await Promise.all([
    named(cron.jobs, { name: "green" }),
    named(other.jobs, { prompt: "pour" }),
    named(cron.jobs, { deliver: "local" }),
    named(other.jobs, { skills: ["brew"] }),
    cron.jobs.run(id),
    other.jobs.pause(id, { reason: "holiday" }),
  ]);
  const job = await cron.job(id);
  const { name, prompt, deliver, skills } = job.definition;
  assert.deepEqual([name, prompt, deliver, skills], ["green", "pour", "local", ["brew"]]);
  assert.equal(job.state, "paused");
  assert.equal(job.manualAtMs, cron.clock.now());
  assert.deepEqual([job.lockVersion, job.revision], [7, 6], "a requested run is not a new revision");

  const broken = await cron.create({ name: "broken" });
  const strange = await cron.create({ name: "strange" });
  const good = await cron.create({ name: "good" });
  await cron.store.write(async (tx) => {
    await tx.update("cron_jobs", { id: broken.id }, { definition: '{"name":' });
    await tx.update("cron_jobs", { id: strange.id }, { definition: "[]" });
  });
  const { jobs, broken: rest } = await cron.jobs.list();
  assert.deepEqual(jobs.map((each) => each.id).sort(), [good.id, id].sort());
  assert.deepEqual(rest.map((each) => each.name).sort(), ["broken", "strange"]);
  await cron.advance(HOUR_MS);
  assert.equal((await cron.job(good.id)).lastStatus, "ok");
  const says = /is broken. Remove it by its id/;
  await assertRefused(cron.jobs.find("broken"), { says });
  await assertRefused(cron.jobs.pause(broken.id), { says });
  await assertRefused(
    cron.jobs.edit("strange", () => definition()),
    { says },
  );
  assert.deepEqual(await cron.jobs.history(broken.id), { occurrences: [] });
  assert.deepEqual(await cron.jobs.remove(broken.id), { id: broken.id, name: "broken", job: undefined });
  assert.equal((await cron.jobs.remove("strange")).id, strange.id);
  assert.deepEqual((await cron.jobs.list()).broken, []);

  const file = readJobFile(`\ufeff[{"id":"0123456789ab","name":"a","prompt":"x","schedule":"every 2h"}]`);
  assert.deepEqual(file.problems, []);
  assert.equal(file.jobs[0]?.input.schedule, "every 2h");
});

test("a half-paused job never runs, and reads change no row", async () => {
  await using cron = await createTestCron();
  const { jobs } = cron;
  const { id } = await cron.create();
  await cron.create({ name: "far", schedule: { kind: "cron", expression: "0 9 * * 1" } });
  await jobs.create(once(START_MS + MINUTE_MS));
  await jobs.pause(id);
  await cron.store.write((tx) => tx.update("cron_jobs", { id }, { due_at: START_MS, paused_at: null }));
  await cron.advance(2 * MINUTE_MS);
  assert.deepEqual(await cron.occurrences(id), []);
  assert.equal((await cron.job(id)).dueAtMs, undefined);
  cron.clock.tick(48 * HOUR_MS);
  const before = await tables(cron);
  await jobs.list();
  await jobs.list({ withOver: true });
  await jobs.find(id);
  await jobs.get(id);
  await jobs.history();
  await jobs.history(id, { limit: 1 });
  await readCronStatus(cron.store, { nowMs: cron.clock.now() });
  assert.deepEqual(await tables(cron), before);
});

test("a job can be created paused with a reason, and the number of jobs is limited", async () => {
  await using cron = await createTestCron({ cron: { maxJobs: 2 } });
  const job = await cron.jobs.create(definition(), { isPaused: true, pausedReason: "not yet" });
  assert.match(job.id, /^[0-9a-f]{12}$/);
  assert.equal(job.state, "paused");
  assert.equal(job.pausedReason, "not yet");
  assert.equal(job.dueAtMs, undefined);
  await cron.create();
  await assertRefused(cron.create(), { says: /The limit of 2 jobs .*cron\.max_jobs.*Remove some/ });
  const past = definition({ schedule: { kind: "once", atMs: START_MS - 121_000 } });
  await cron.jobs.remove(job.id);
  await assertRefused(cron.jobs.create(past), { says: /in the past/ });
  const never = definition({ schedule: { kind: "cron", expression: "0 0 31 2 *" } });
  await assertRefused(cron.jobs.create(never), { says: /never occurs/ });
});

test("a resumed interval keeps its phase, and a resumed cron schedule continues at its next time", async () => {
  await using cron = await createTestCron();
  const beat = await cron.create();
  const wall = await cron.create({
    schedule: { kind: "cron", expression: "30 12 * * *" },
    zone: "Europe/Berlin",
  });
  for (const { id } of [beat, wall]) await cron.jobs.pause(id);
  cron.clock.tick(2.5 * HOUR_MS);
  assert.equal((await cron.jobs.resume(beat.id)).nextRunAtMs, START_MS + 3 * HOUR_MS);
  assert.equal((await cron.jobs.resume(wall.id)).nextRunAtMs, START_MS + 23.5 * HOUR_MS);
  assert.deepEqual((await cron.jobs.resume(beat.id)).revision, 3);
});

test("a job can be resumed at a time or at once", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  const { jobs, clock } = cron;
  const { id } = await cron.create();
  await jobs.pause(id);
  const later = await jobs.resume(id, { atMs: START_MS + 10 * MINUTE_MS });
  assert.equal(later.nextRunAtMs, START_MS + 10 * MINUTE_MS);
  await cron.advance(10 * MINUTE_MS);
  assert.equal((await cron.job(id)).nextRunAtMs, START_MS + 70 * MINUTE_MS);
  await jobs.pause(id);
  const now = await jobs.resume(id, { runNow: true });
  assert.ok((now.dueAtMs ?? Infinity) <= clock.now());
  await cron.tick();
  assert.equal((await cron.occurrences(id)).at(-1)?.cause, "manual");
  for (const atMs of [clock.now() - 121_000, Number.NaN, 1.5, START_MS + 11 * 366 * 24 * HOUR_MS])
    await assertRefused(jobs.resume(id, { atMs }), { says: /in the past|next ten years/ });

  const gone = await jobs.create(once(clock.now() + MINUTE_MS));
  await jobs.pause(gone.id);
  clock.tick(HOUR_MS);
  await assertRefused(jobs.resume(gone.id), { says: /more than 120 s in the past/ });
  const back = await jobs.resume(gone.id, { atMs: clock.now() + MINUTE_MS });
  assert.deepEqual(back.definition.schedule, { kind: "once", atMs: clock.now() + MINUTE_MS });
  await cron.advance(MINUTE_MS);
  assert.equal((await cron.job(gone.id)).state, "completed");
  const again = await jobs.resume(gone.id, { runNow: true });
  assert.equal(again.state, "scheduled");
  clock.tick(1);
  await cron.tick();
  assert.equal((await cron.job(gone.id)).state, "completed");
  assert.equal((await cron.occurrences(gone.id)).length, 2);
});

test("a running job refuses a manual run unless its runs may overlap", async () => {
  await using cron = await createTestCron();
  const { jobs } = cron;
  const { id } = await cron.create();
  const loose = await cron.create({ name: "loose", overlap: "allow" });
  await cron.store.write((tx) =>
    tx.insert("occurrences", [openOccurrence(cron, id), openOccurrence(cron, loose.id)]),
  );
  await assertRefused(jobs.run(id), { code: "job_busy", says: /is running. Wait until it ends/ });
  await assertRefused(jobs.resume(id, { runNow: true }), { code: "job_busy", says: /is running/ });
  assert.equal((await jobs.run(loose.id)).manualAtMs, START_MS - 1);
  const removed = await jobs.remove(id);
  assert.equal(removed.job?.id, id);
  assert.equal((await cron.occurrences(id)).length, 1, "what is at work stays on record until it ends");
  const one = await jobs.create(once(START_MS + MINUTE_MS));
  await cron.store.write(async (tx) => {
    await tx.update("cron_jobs", { id: one.id }, { next_run_at: null, due_at: null });
  });
  await assertRefused(jobs.pause(one.id), { says: /in its last run/ });
});

test("two manual runs in one millisecond are two occurrences", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  const { id } = await cron.create();
  for (let count = 1; count <= 3; count++) {
    await cron.jobs.run(id);
    assert.equal((await cron.jobs.run(id)).manualAtMs, START_MS - count + 1, "asking twice is asking once");
    await cron.tick();
    assert.equal((await cron.occurrences(id)).length, count);
  }
});

test("an edit of the schedule restarts it, and any other edit keeps its phase", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  const { jobs, clock } = cron;
  const { id } = await cron.create({ repeat: 5 });
  const edit = (parts: object) => jobs.edit(id, (job) => ({ ...job.definition, ...parts }));
  await cron.advance(HOUR_MS);
  clock.tick(10 * MINUTE_MS);
  const same = await jobs.edit(id, (job) =>
    Object.assign(
      {},
      ...Object.entries(job.definition)
        .reverse()
        .map(([field, value]) => ({ [field]: value })),
    ),
  );
  assert.equal(same.revision, (await cron.job(id)).revision, "nothing was said, nothing is written");
  const named = await edit({ name: "green", zone: "Asia/Tokyo" });
  assert.equal(named.nextRunAtMs, START_MS + 2 * HOUR_MS);
  assert.equal((await jobs.find("GREEN")).id, id);
  const spread = await edit({ jitterSeconds: 600 });
  assert.ok((spread.dueAtMs ?? 0) > START_MS + 2 * HOUR_MS);
  const faster = await edit({ schedule: { kind: "interval", minutes: 20 }, jitterSeconds: 0 });
  assert.equal(faster.nextRunAtMs, clock.now() + 20 * MINUTE_MS);
  assert.equal(faster.repeatDone, 1);
  await jobs.pause(id);
  const still = await edit({ schedule: { kind: "interval", minutes: 30 } });
  assert.equal(still.state, "paused");
  assert.equal(still.dueAtMs, undefined);
});

test("a new schedule and a resumed job clear the error of the old schedule", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  const { jobs, store } = cron;
  const problem = { state: "error", last_error: "No next run can be computed.", next_run_at: null };
  for (const mend of [
    (id: string) =>
      jobs.edit(id, (job) => ({ ...job.definition, schedule: { kind: "interval", minutes: 20 } })),
    (id: string) => jobs.resume(id),
  ]) {
    const { id } = await cron.create({});
    await store.write((tx) => tx.update("cron_jobs", { id }, problem));
    const { state, lastError } = await mend(id);
    assert.deepEqual([state, lastError], ["scheduled", undefined]);
  }
});

test("an edit restarts a completed job, and keeps its repeat limit", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  const { jobs, clock } = cron;
  const { id } = await cron.create({ repeat: 2 });
  const edit = (parts: object) => jobs.edit(id, (job) => ({ ...job.definition, ...parts }));
  await cron.advance(HOUR_MS);
  await assertRefused(edit({ repeat: 1 }), { says: /1 so far.*larger number, or forever/ });
  await cron.advance(HOUR_MS);
  assert.equal((await cron.job(id)).state, "completed");
  await assertRefused(edit({ repeat: 1 }), { says: /2 so far/ });
  const more = await edit({ repeat: 3 });
  assert.equal(more.state, "scheduled");
  assert.equal(more.nextRunAtMs, clock.now() + HOUR_MS);
  assert.equal(more.repeatDone, 2);
  await cron.advance(HOUR_MS);
  const anew = await edit({ schedule: { kind: "interval", minutes: 5 } });
  assert.equal(anew.state, "scheduled");
  assert.equal(anew.repeatDone, 0);
  const missed = await jobs.create(once(clock.now() + MINUTE_MS));
  await cron.advance(2 * MINUTE_MS + HOUR_MS);
  assert.equal((await cron.job(missed.id)).state, "missed");
  const atMs = clock.now() + MINUTE_MS;
  const back = await jobs.edit(missed.id, (job) => ({ ...job.definition, schedule: { kind: "once", atMs } }));
  assert.equal(back.state, "scheduled");
  await assertRefused(
    jobs.edit(missed.id, (job) => ({ ...job.definition, schedule: { kind: "once", atMs: START_MS } })),
    { says: /in the past/ },
  );
});

test("a refused edit changes nothing, and an edit of a job deleted meanwhile is refused", async () => {
  await using cron = await createTestCron();
  const { id } = await cron.create();
  const before = await tables(cron);
  await assert.rejects(
    cron.jobs.edit(id, () => Promise.reject(new RangeError("no"))),
    RangeError,
  );
  assert.deepEqual(await tables(cron), before);
  const gone = cron.jobs.edit(id, async (job) => {
    await cron.jobs.remove(id);
    return { ...job.definition, name: "late" };
  });
  await assertRefused(gone, { code: "job_not_found", says: /No job matches/ });
  const busy = await cron.create();
  let tries = 0;
  const never = cron.jobs.edit(busy.id, async (job) => {
    tries++;
    await cron.jobs.edit(busy.id, (now) => ({ ...now.definition, prompt: `${tries}` }));
    return { ...job.definition, name: "late" };
  });
  await assertRefused(never, { code: "state_store_unavailable", says: /Try again/ });
  assert.equal(tries, 8);
});

test("a row with a field of the wrong type is broken, and a row with missing optional fields is not", () => {
  const whole = definition({
    skills: ["brew"],
    toolsets: ["web"],
    script: "x.sh",
    catchUp: true,
    tokenBudget: 9,
  });
  const { name, schedule, zone } = whole;
  assert.deepEqual(readDefinition(JSON.stringify({ name, schedule, zone }))?.overlap, "skip");
  for (const field of Object.keys(whole)) {
    for (const value of [{}, [7], false, -1, "\u0001", null]) {
      const isSame = typeof value === typeof whole[field as keyof JobDefinition] && !Array.isArray(value);
      if (isSame || (value === null && field === "repeat")) continue;
      const read = readDefinition(JSON.stringify({ ...whole, [field]: value }));
      assert.equal(read, undefined, `${field} ${JSON.stringify(value)}`);
    }
  }
  for (const text of ["", "null", "7", "[]", "{", '{"name":"x"}'])
    assert.equal(readDefinition(text), undefined, text);
});
