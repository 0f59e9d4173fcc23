import { occurrenceRow } from "../store/rows.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { callsOnce, testTool } from "../../harness/agent.ts";
import type { ScriptStep } from "../../../src/agent/engines/scripted.ts";
import { endLost } from "../../../src/cron/tick/reclaim.ts";
import { endOccurrence } from "../../../src/cron/run/end.ts";
import { planOccurrence } from "../../../src/cron/run/result.ts";
import type { Job } from "../../../src/cron/job/job.ts";
import type { OccurrenceRow } from "../../../src/store/schema/tables.ts";
import { createTestCron, START_MS, type TestCron } from "../../harness/cron.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

const refused: ScriptStep = { error: { code: "provider_error", message: "The provider refused it (400)." } };
const unreachable: ScriptStep = {
  error: {
    code: "provider_error",
    message: "The provider could not be reached.",
    failure: { kind: "network", retryable: true },
  },
};

test("each run records its result and count, and a job at its repeat limit is completed, kept and no longer due", async () => {
  const steps: ScriptStep[] = [{ text: "tea" }, refused, { text: "more" }];
  await using cron = await createTestCron({ script: () => steps.shift() ?? {} });
  const { id } = await cron.create({ repeat: 3 });
  await cron.advance(HOUR_MS);
  const first = await cron.job(id);
  assert.deepEqual([first.lastStatus, first.lastError, first.repeatDone], ["ok", undefined, 1]);
  await cron.advance(HOUR_MS);
  const second = await cron.job(id);
  assert.deepEqual([second.state, second.lastStatus, second.repeatDone], ["scheduled", "error", 2]);
  assert.equal(second.lastError, "The provider refused it (400).");
  assert.equal(second.failureStreak, 1);
  await cron.advance(HOUR_MS);
  const third = await cron.job(id);
  assert.deepEqual([third.state, third.lastStatus, third.repeatDone], ["completed", "ok", 3]);
  assert.deepEqual([third.dueAtMs, third.failureStreak, third.lastError], [undefined, 0, undefined]);
  await cron.advance(10 * HOUR_MS);
  assert.equal((await cron.occurrences(id)).length, 3);
});

test("a one-shot is completed when its run ends, not before", async () => {
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  await using cron = await createTestCron({
    script: async () => {
      begun.resolve();
      await go.promise;
      return { text: "tea" };
    },
  });
  const { id } = await cron.create({ schedule: { kind: "once", atMs: START_MS + HOUR_MS } });
  const advanced = cron.advance(HOUR_MS);
  await begun.promise;
  assert.equal((await cron.job(id)).state, "scheduled");
  go.resolve();
  await advanced;
  assert.equal((await cron.job(id)).state, "completed");
});

test("a failed run is always delivered, and a blank answer counts as a failure", async () => {
  const steps: ScriptStep[] = [refused, { text: " \n\t" }, { text: "[CRON_FAILURE] no milk\n[SILENT]" }];
  await using cron = await createTestCron({ script: () => steps.shift() ?? {}, homes: { slack: "C1" } });
  const { id } = await cron.create({ failureDeliver: "slack" });
  for (let run = 0; run < 3; run++) await cron.advance(HOUR_MS);
  assert.deepEqual(
    cron.sent.map(({ target }) => target),
    ["slack:C1", "slack:C1", "slack:C1"],
  );
  const texts = cron.sent.map(({ text }) => text);
  assert.match(texts[0] ?? "", /The job tea failed: The provider refused it \(400\)\./);
  assert.match(texts[1] ?? "", /The job tea failed: The agent gave no answer\./);
  assert.match(texts[2] ?? "", /The job tea failed: no milk\n\[SILENT\]/);
  assert.match(texts[2] ?? "", /It has failed 3 times in a row/);
  const outputs = Object.values(await cron.outputs(id));
  assert.equal(outputs.length, 3);
  assert.match(outputs[0] ?? "", /## Error\n\nThe provider refused it/);
  const statuses = (await cron.occurrences(id)).map(({ status, delivery_status: sent }) => [status, sent]);
  assert.deepEqual(
    statuses,
    Array.from({ length: 3 }, () => ["failed", "delivered"]),
  );
});

test("a job without a delivery target keeps its failure in an output file", async () => {
  await using cron = await createTestCron({ script: () => refused });
  const { id } = await cron.create({ deliver: "local" });
  await cron.advance(HOUR_MS);
  assert.deepEqual(cron.sent, []);
  assert.equal((await cron.occurrences(id))[0]?.delivery_status, "none");
  assert.equal(Object.keys(await cron.outputs(id)).length, 1);
});

const causes = async (cron: TestCron, id: string) =>
  (await cron.occurrences(id)).map(({ cause, status, claimed_at: atMs }) => [
    cause,
    status,
    (atMs - START_MS) / MINUTE_MS,
  ]);

test("a run that never reached a model is retried after 5, 15 and 30 minutes, and reported after the last retry", async () => {
  await using cron = await createTestCron({ script: () => unreachable });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  const waiting = await cron.job(id);
  assert.equal(waiting.dueAtMs, START_MS + 65 * MINUTE_MS);
  assert.match(waiting.lastError ?? "", /could not be reached\. It is retried in 5 minutes\.$/);
  assert.deepEqual([waiting.retries, waiting.failureStreak], [1, 0]);
  await cron.advance(5 * MINUTE_MS);
  await cron.advance(15 * MINUTE_MS);
  assert.deepEqual(cron.sent, [], "nothing is reported while a retry follows");
  await cron.advance(30 * MINUTE_MS);
  assert.deepEqual(await causes(cron, id), [
    ["schedule", "failed", 60],
    ["retry", "failed", 65],
    ["retry", "failed", 80],
    ["retry", "failed", 110],
  ]);
  assert.equal(cron.sent.length, 1);
  const after = await cron.job(id);
  assert.deepEqual([after.retries, after.failureStreak, after.retryAtMs], [0, 1, undefined]);
  assert.equal(after.dueAtMs, START_MS + 2 * HOUR_MS, "and its next time is as it was");
  assert.equal(after.repeatDone, 1, "tries at one instant use up one repeat");
});

test("a retry that reaches its model is reported like any run, and ends the retries", async () => {
  const steps: ScriptStep[] = [unreachable, unreachable, { text: "tea" }, unreachable];
  await using cron = await createTestCron({ script: () => steps.shift() ?? {} });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  await cron.advance(5 * MINUTE_MS);
  await cron.advance(15 * MINUTE_MS);
  assert.equal(cron.sent.length, 1);
  assert.match(cron.sent[0]?.text ?? "", /\n\ntea\n\n/);
  assert.deepEqual([(await cron.job(id)).retries, (await cron.job(id)).lastStatus], [0, "ok"]);
  await cron.advance(40 * MINUTE_MS);
  assert.equal(
    (await cron.job(id)).dueAtMs,
    START_MS + 125 * MINUTE_MS,
    "the next line begins with 5 minutes",
  );
});

test("retries never come after the job's next instant", async () => {
  await using cron = await createTestCron({ script: () => unreachable });
  const { id } = await cron.create({ schedule: { kind: "interval", minutes: 10 } });
  await cron.advance(10 * MINUTE_MS);
  await cron.advance(5 * MINUTE_MS);
  assert.equal(cron.sent.length, 1, "another try would come after 20 minutes");
  assert.deepEqual(await causes(cron, id), [
    ["schedule", "failed", 10],
    ["retry", "failed", 15],
  ]);
  const { id: often } = await cron.create({ schedule: { kind: "interval", minutes: 5 } });
  await cron.advance(5 * MINUTE_MS);
  assert.equal((await cron.job(often)).retryAtMs, undefined);
});

test("one-shots, manual runs and runs that reached a model are not retried", async () => {
  const acts = callsOnce("true");
  let deeds = 0;
  await using cron = await createTestCron({
    script: (state) => {
      if (!state.user.includes("deed")) return unreachable;
      return state.step === 0 ? acts(state) : unreachable;
    },
    tools: [testTool(async () => `done ${++deeds}`)],
    settings: { policyMode: "yolo" },
  });
  const once = await cron.create({ schedule: { kind: "once", atMs: START_MS + MINUTE_MS } });
  const asked = await cron.create({ name: "asked", schedule: { kind: "interval", minutes: 6000 } });
  const did = await cron.create({
    name: "did",
    prompt: "deed",
    schedule: { kind: "interval", minutes: 120 },
  });
  await cron.jobs.run(asked.id);
  await cron.advance(MINUTE_MS);
  await cron.advance(119 * MINUTE_MS);
  for (const { id } of [once, asked, did]) {
    const [only, ...more] = await cron.occurrences(id);
    assert.deepEqual([only?.status, more.length], ["failed", 0]);
    assert.equal((await cron.job(id)).retryAtMs, undefined);
  }
  assert.deepEqual([cron.sent.length, deeds], [3, 1]);
});

test("a job that is paused while it fails is reported, and not retried", async () => {
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  await using cron = await createTestCron({
    script: async () => {
      begun.resolve();
      await go.promise;
      return unreachable;
    },
  });
  const { id } = await cron.create();
  const advanced = cron.advance(HOUR_MS);
  await begun.promise;
  await cron.jobs.pause(id, {});
  go.resolve();
  await advanced;
  assert.equal(cron.sent.length, 1);
  const job = await cron.job(id);
  assert.deepEqual([job.state, job.retryAtMs, job.dueAtMs], ["paused", undefined, undefined]);
});

test("a catch-up run shows how many instants it replaces", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea" }) });
  await cron.create();
  await cron.advance(6 * HOUR_MS);
  assert.equal(cron.sent.length, 1);
  assert.match(cron.sent[0]?.text ?? "", /replaces 5 missed times\)\n-----/);
});

test("people are notified of a missed one-shot", async () => {
  await using cron = await createTestCron({ script: () => assert.fail("nothing runs") });
  const { id } = await cron.create({
    schedule: { kind: "once", atMs: START_MS + HOUR_MS },
    deliver: "local",
    failureDeliver: "test",
  });
  await cron.advance(HOUR_MS + 3 * MINUTE_MS);
  assert.match(cron.sent[0]?.text ?? "", /The job tea did not run: .* and it was found 3 min late\./);
  assert.equal(cron.sent.length, 1);
  const [missed] = await cron.occurrences(id);
  assert.deepEqual([missed?.status, missed?.delivery_status], ["missed", "delivered"]);
  const outputs = await cron.outputs(id);
  assert.match(outputs[missed?.output_file ?? ""] ?? "", /## Error\n\nThe job tea did not run/);
  const job = await cron.job(id);
  assert.deepEqual([job.state, job.lastStatus, job.failureStreak], ["missed", "missed", 0]);
  await cron.advance(HOUR_MS);
  assert.equal(cron.sent.length, 1);
});

const planOptions = { homes: new Map(), settings: { wrapResponse: false, silentMatch: "contains" } } as const;

async function claimed(cron: TestCron, job: Job, parts: Partial<OccurrenceRow> = {}): Promise<OccurrenceRow> {
  const nowMs = cron.clock.now();
  const row = occurrenceRow({
    owner: job.owner,
    job_id: job.id,
    job_name: job.definition.name,
    status: "running",
    lease_owner: "gone:1:00",
    lease_until: nowMs,
    claimed_at: nowMs,
    ended_at: null,
    output_file: "x.md",
    delivery_status: null,
    ...parts,
  });
  await cron.store.write((tx) => tx.insert("occurrences", [row]));
  return row;
}

test("an occurrence whose process is gone ends once as unknown, and people are notified", async () => {
  await using cron = await createTestCron();
  const job = await cron.create({ failureDeliver: "test" });
  const occurrence = await claimed(cron, job);
  const end = (row = occurrence) =>
    cron.store.write((tx) => endLost(tx, cron.store, { occurrence: row, job, planOptions }));
  assert.equal(await end({ ...occurrence, lease_until: 1 }), false, "somebody renewed it meanwhile");
  assert.equal(await end(), true);
  assert.equal(await end(), false);
  await cron.sentAll();
  assert.match(
    cron.sent.map(({ text }) => text).join(),
    /^The job tea was cut off: The process that ran its script is gone\./,
  );
  const [row] = await cron.occurrences(job.id);
  assert.deepEqual([row?.status, row?.delivery_status, row?.lease_owner], ["unknown", "delivered", null]);
  assert.equal((await cron.job(job.id)).lastStatus, "unknown");
});

test("a lost occurrence of a deleted job is only recorded", async () => {
  await using cron = await createTestCron();
  const job = await cron.create();
  const occurrence = await claimed(cron, job);
  const about = { occurrence, job: undefined, planOptions };
  assert.equal(await cron.store.write((tx) => endLost(tx, cron.store, about)), true);
  await cron.sentAll();
  assert.deepEqual(cron.sent, []);
  assert.deepEqual(await cron.outputs(job.id), {});
  assert.equal((await cron.occurrences(job.id))[0]?.status, "unknown");
});

test("20 runs that end concurrently all count in the failure streak", async () => {
  await using cron = await createTestCron();
  await using other = await createTestCron({ like: cron });
  const job = await cron.create({ overlap: "allow", deliver: "local" });
  const rows = [];
  for (let run = 0; run < 20; run++) rows.push(await claimed(cron, job, { scheduled_at: run }));
  const ending = { status: "failed", text: "x" } as const;
  const ends = rows.map((occurrence, index) => {
    const { store } = index % 2 === 0 ? cron : other;
    const plan = planOccurrence({ occurrence, job }, planOptions);
    return store.write((tx) => endOccurrence(tx, store, { plan, ending }));
  });
  assert.deepEqual(
    await Promise.all(ends),
    Array.from({ length: 20 }, () => true),
  );
  assert.equal((await cron.job(job.id)).failureStreak, 20);
});

test("an end counts once, and only from the owner of the lease where required", async () => {
  await using cron = await createTestCron();
  const job = await cron.create();
  const occurrence = await claimed(cron, job);
  const plan = planOccurrence({ occurrence, job }, planOptions);
  const end = (isMine: boolean) => {
    const ending = { status: "ok", text: "tea" } as const;
    return cron.store.write((tx) => endOccurrence(tx, cron.store, { plan, ending, isMine }));
  };
  assert.equal(await end(true), false, "its lease is another's");
  assert.equal((await cron.job(job.id)).lastStatus, undefined);
  assert.equal(await end(false), true);
  assert.equal(await end(false), false);
  await cron.sentAll();
  assert.equal(cron.sent.length, 1);
});

test("a manual run between two retries does not change their number", async () => {
  await using cron = await createTestCron({ script: () => unreachable });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  await cron.advance(5 * MINUTE_MS);
  await cron.jobs.run(id);
  await cron.advance(1);
  assert.equal(cron.sent.length, 1, "a manual run is reported at once");
  const job = await cron.job(id);
  assert.deepEqual([job.retries, job.retryAtMs], [2, START_MS + 80 * MINUTE_MS]);
  await cron.advance(15 * MINUTE_MS);
  assert.equal((await cron.job(id)).retries, 3);
});

test("a claim that was decided before a retry was requested is decided again", async () => {
  await using cron = await createTestCron();
  await using other = await createTestCron({ like: cron });
  const job = await cron.create();
  const plan = planOccurrence({ occurrence: await claimed(cron, job), job }, planOptions);
  const ending = { status: "failed", text: "x", canRetry: true } as const;
  await other.store.write((tx) => endOccurrence(tx, other.store, { plan, ending }));
  const stale = { due_at: START_MS + 2 * HOUR_MS, retry_at: null, lock_version: job.lockVersion + 1 };
  const where = { id: job.id, lock_version: job.lockVersion };
  assert.equal(await cron.store.write((tx) => tx.update("cron_jobs", where, stale)), 0);
  assert.equal((await cron.job(job.id)).dueAtMs, START_MS + 5 * MINUTE_MS);
});

test("a failed run whose schedule changed meanwhile is reported and not retried on the new schedule", async () => {
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  await using cron = await createTestCron({
    script: async () => {
      begun.resolve();
      await go.promise;
      return unreachable;
    },
  });
  const { id } = await cron.create();
  const advanced = cron.advance(HOUR_MS);
  await begun.promise;
  const atMs = START_MS + 9 * HOUR_MS;
  await cron.jobs.edit(id, (job) => ({ ...job.definition, schedule: { kind: "once", atMs } }));
  go.resolve();
  await advanced;
  const job = await cron.job(id);
  assert.deepEqual([job.retryAtMs, job.dueAtMs, job.state], [undefined, atMs, "scheduled"]);
  assert.equal(cron.sent.length, 1);
});

test("a failure whose job is broken meanwhile is reported and not retried", async () => {
  await using cron = await createTestCron();
  const job = await cron.create();
  const occurrence = await claimed(cron, job);
  await cron.store.write((tx) => tx.update("cron_jobs", { id: job.id }, { definition: "{" }));
  const plan = planOccurrence({ occurrence, job }, planOptions);
  const ending = { status: "failed", text: "x", canRetry: true } as const;
  await cron.store.write((tx) => endOccurrence(tx, cron.store, { plan, ending }));
  await cron.sentAll();
  assert.equal(cron.sent.length, 1);
  assert.equal((await cron.occurrences(job.id))[0]?.reason, "x");
});

test("the answer of a run may name files of its working folder; a failure may not", async () => {
  const answers = ["tea\nMEDIA:a.txt", "[CRON_FAILURE]\nMEDIA:a.txt"];
  await using cron = await createTestCron({ script: () => ({ text: answers.shift() ?? "" }) });
  const { id } = await cron.create();
  const payloads = async () => {
    const rows = await cron.store.read
      .selectFrom("outbox")
      .select("payload")
      .where("target", "!=", "cron_output")
      .orderBy("id")
      .execute();
    return rows.map(({ payload }) => JSON.parse(payload) as { readonly filesFrom?: unknown });
  };
  await cron.advance(HOUR_MS);
  const [answer] = await payloads();
  const [occurrence] = await cron.occurrences(id);
  const session = await cron.store.find("sessions", { id: occurrence?.session_id ?? "" });
  assert.ok(answer && "filesFrom" in answer);
  assert.equal(answer.filesFrom, session?.cwd ?? null);
  await cron.advance(HOUR_MS);
  const { status } = (await cron.occurrences(id)).find(({ status }) => status === "failed") ?? {};
  assert.equal(status, "failed");
  const [, failure] = await payloads();
  assert.ok(failure && !("filesFrom" in failure));
});
