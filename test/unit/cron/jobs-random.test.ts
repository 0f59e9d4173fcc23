import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ServiceError } from "../../../src/base/errors.ts";
import { isOver, type Job, dueAtMs } from "../../../src/cron/job/job.ts";
import { createTestCron, type TestCron } from "../../harness/cron.ts";

const MINUTE_MS = 60_000;

const SCHEDULES = [
  { kind: "interval", minutes: 1 },
  { kind: "interval", minutes: 45 },
  { kind: "cron", expression: "*/10 * * * *" },
  { kind: "cron", expression: "0 3 * * 1" },
] as const;

type Step = (cron: TestCron, id: string) => Promise<unknown>;

const edits =
  (parts: object): Step =>
  (cron, id) =>
    cron.jobs.edit(id, (job) => ({ ...job.definition, ...parts }));
const steps: fc.Arbitrary<readonly [string, Step]> = fc.oneof(
  fc.constant(["pause", ({ jobs }: TestCron, id: string) => jobs.pause(id)] as const),
  fc.constant(["resume", ({ jobs }: TestCron, id: string) => jobs.resume(id)] as const),
  fc.constant(["run-now", ({ jobs }: TestCron, id: string) => jobs.resume(id, { runNow: true })] as const),
  fc.constant(["run", ({ jobs }: TestCron, id: string) => jobs.run(id)] as const),
  fc
    .integer({ min: -300, max: 300 })
    .map(
      (by) =>
        [
          `at ${by}`,
          ({ jobs, clock }: TestCron, id: string) => jobs.resume(id, { atMs: clock.now() + by * 1_000 }),
        ] as const,
    ),
  fc.constantFrom(...SCHEDULES).map((schedule) => ["edit", edits({ schedule, repeat: null })] as const),
  fc.integer({ min: -60, max: 600 }).map(
    (by) =>
      [
        `once ${by}`,
        (cron: TestCron, id: string) =>
          edits({
            schedule: { kind: "once", atMs: cron.clock.now() + by * 1_000 },
            repeat: 1,
            jitterSeconds: 0,
          })(cron, id),
      ] as const,
  ),
  fc.integer({ min: 1, max: 4 }).map((repeat) => [`repeat ${repeat}`, edits({ repeat })] as const),
  fc.constant(["name", edits({ name: "green" })] as const),
  fc
    .constantFrom(1, 10, 50, 3_000)
    .map((minutes) => [`wait ${minutes}`, (cron: TestCron) => cron.advance(minutes * MINUTE_MS)] as const),
);

const REFUSALS: readonly string[] = ["invalid_request", "invalid_schedule", "job_over"];

test("after any sequence of commands a job is due exactly when it has something to do", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { maxLength: 14 }), async (list) => {
      const { id } = await cron.create();
      let revision = 0;
      for (const [, step] of list) {
        await step(cron, id).catch((error: unknown) => {
          if (!(error instanceof ServiceError) || !REFUSALS.includes(error.code)) throw error;
        });
        const job = await cron.job(id);
        assertSound(job, cron.clock.now());
        assert.ok(job.revision >= revision);
        revision = job.revision;
      }
      await cron.jobs.remove(id);
    }),
    { numRuns: 12 },
  );
});

function assertSound(job: Job, nowMs: number): void {
  const { state, nextRunAtMs, manualAtMs, retryAtMs } = job;
  assert.notEqual(state, "error");
  assert.equal(job.dueAtMs, dueAtMs(job, { state, nextRunAtMs, manualAtMs, retryAtMs }, nowMs));
  if (isOver(state))
    assert.deepEqual([job.dueAtMs, nextRunAtMs, manualAtMs], [undefined, undefined, undefined]);
  if (state === "scheduled") assert.notEqual(job.dueAtMs, undefined);
  if (state === "paused") assert.equal(job.dueAtMs, manualAtMs);
  assert.equal(state === "paused", job.pausedAtMs !== undefined);
  const { repeat } = job.definition;
  assert.ok(repeat === null || job.repeatDone <= repeat);
}
