import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { evaluateDue, MAX_COUNTED, type DueDecision } from "../../../src/cron/schedule/due.ts";
import { nextRunMs } from "../../../src/cron/schedule/instants.ts";
import { type Job, type JobDefinition, jitterMs, dueAtMs, type Schedule } from "../../../src/cron/job/job.ts";
import { definition } from "../../harness/cron.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const START_MS = Date.UTC(2026, 0, 5, 12, 0, 0);
const FACTS = { catchUpMissed: true, isRunning: false } as const;

function jobOf(parts: Partial<JobDefinition>, state: Partial<Job> = {}): Job {
  const whole = definition(parts);
  return {
    id: "0123456789ab",
    definition: whole,
    revision: 1,
    lockVersion: 1,
    owner: "default",
    state: "scheduled",
    dueAtMs: undefined,
    nextRunAtMs: "nextRunAtMs" in state ? undefined : nextRunMs(whole.schedule, START_MS, whole.zone),
    manualAtMs: undefined,
    retryAtMs: undefined,
    retries: 0,
    repeatDone: 0,
    failureStreak: 0,
    lastRunAtMs: undefined,
    lastStatus: undefined,
    lastError: undefined,
    lastDeliveryError: undefined,
    pausedAtMs: undefined,
    pausedReason: undefined,
    createdAtMs: START_MS,
    updatedAtMs: START_MS,
    ...state,
  };
}

/** What a job that is looked at now and then does about its instants. */
class Walked {
  job: Job;
  readonly decisions: { readonly nowMs: number; readonly decision: DueDecision }[] = [];

  constructor(job: Job) {
    this.job = job;
  }

  look(nowMs: number, facts: { catchUpMissed: boolean; isRunning: boolean } = FACTS): void {
    for (;;) {
      const due = dueAtMs(this.job, this.job, nowMs);
      if (due === undefined || due > nowMs) return;
      const decision = evaluateDue(this.job, { nowMs, ...facts });
      const ran = decision.run?.cause === "schedule" && !decision.run.isSkipped;
      this.job = { ...this.job, ...decision.after, repeatDone: this.job.repeatDone + (ran ? 1 : 0) };
      this.decisions.push({ nowMs, decision });
    }
  }

  /** Instants of the schedule that something was said about, in the order in which it was said. */
  accounted(all: readonly number[]): readonly number[] {
    return this.decisions.flatMap(({ decision: { run, missed } }) => [
      ...(missed ? all.filter((at) => at >= missed.fromMs && at <= missed.untilMs) : []),
      ...(run?.cause === "schedule" ? [run.scheduledAtMs] : []),
    ]);
  }
}

/** Every instant up to `untilMs`, one by one. */
function walk({ schedule, zone }: JobDefinition, fromMs: number, untilMs: number): readonly number[] {
  const found: number[] = [];
  for (
    let at = nextRunMs(schedule, fromMs, zone);
    at !== undefined && at <= untilMs;
    at = nextRunMs(schedule, at, zone)
  ) {
    found.push(at);
  }
  return found;
}

const ZONES = [
  "UTC",
  "America/Toronto",
  "Europe/Berlin",
  "Australia/Lord_Howe",
  "America/Sao_Paulo",
  "Asia/Kathmandu",
  "Pacific/Chatham",
];
const EXPRESSIONS = [
  "*/15 * * * *",
  "*/7 1-3 * * *",
  "0 * * * *",
  "@hourly",
  "30 2 * * *",
  "0 2 * * *",
  "30 1 * * *",
  "0,30 1,2 * * *",
  "15 9 * * 1-5",
  "0 0 1 * *",
  "59 23 * * 0",
];
/** Around these something happens to the clocks of one of the zones. */
const STARTS = [
  START_MS,
  Date.UTC(2026, 2, 7),
  Date.UTC(2026, 2, 28),
  Date.UTC(2026, 9, 31),
  Date.UTC(2026, 3, 4),
];

const schedules: fc.Arbitrary<Schedule> = fc.oneof(
  fc.integer({ min: 10, max: 3_000 }).map((minutes) => ({ kind: "interval", minutes }) as const),
  fc.constantFrom(...EXPRESSIONS).map((expression) => ({ kind: "cron", expression }) as const),
);
const sleeps = fc.array(
  fc.oneof(
    fc.integer({ min: 1, max: 90_000 }),
    fc.integer({ min: MINUTE_MS, max: 3 * HOUR_MS }),
    fc.integer({ min: HOUR_MS, max: 2 * DAY_MS }),
  ),
  { minLength: 3, maxLength: 12 },
);

test("every instant between two ticks is run or missed exactly once, for any schedule, zone and delay", () => {
  fc.assert(
    fc.property(
      schedules,
      fc.record({
        zone: fc.constantFrom(...ZONES),
        startMs: fc.constantFrom(...STARTS),
        jitterSeconds: fc.constantFrom(0, 0, 1, 59, 240),
        misfireGraceSeconds: fc.constantFrom(undefined, 0, 60, 7_200),
        catchUp: fc.constantFrom(undefined, true, false),
        repeat: fc.constantFrom(null, null, 1, 3),
      }),
      sleeps,
      (schedule, { startMs, misfireGraceSeconds, catchUp, ...parts }, naps) => {
        const optional = {
          ...(misfireGraceSeconds === undefined ? {} : { misfireGraceSeconds }),
          ...(catchUp === undefined ? {} : { catchUp }),
        };
        const made = jobOf({ schedule, ...parts, ...optional });
        const nextRunAtMs = nextRunMs(schedule, startMs, parts.zone);
        const walked = new Walked({ ...made, nextRunAtMs });
        let nowMs = startMs;
        for (const nap of naps) walked.look((nowMs += nap));

        const { job, decisions } = walked;
        const all = walk(made.definition, startMs, nowMs);
        const said = walked.accounted(all);
        assert.deepEqual(said, all.slice(0, said.length), "in order, none twice, none left out");
        const open = all.slice(said.length).filter((at) => at + jitterMs(job, at) <= nowMs);
        if (job.nextRunAtMs === undefined) assert.equal(job.repeatDone, parts.repeat);
        else {
          assert.deepEqual(open, []);
          assert.equal(job.nextRunAtMs, nextRunMs(schedule, said.at(-1) ?? startMs, parts.zone));
        }
        if (parts.repeat !== null) assert.ok(job.repeatDone <= parts.repeat);
        for (const { nowMs: at, decision } of decisions) {
          const { run, missed } = decision;
          if (missed) {
            const range = all.filter((each) => each >= missed.fromMs && each <= missed.untilMs);
            assert.equal(missed.count, Math.min(range.length, MAX_COUNTED));
            assert.ok(missed.fromMs <= missed.untilMs && missed.untilMs <= at);
            if (run) assert.ok(missed.untilMs < run.scheduledAtMs);
          }
          if (run)
            assert.ok(run.scheduledAtMs + jitterMs(job, run.scheduledAtMs) <= at, "never before its time");
          else assert.equal(catchUp, false, "what is to catch up runs");
        }
      },
    ),
    { numRuns: 150, seed: 20_260_105 },
  );
});

for (const zone of ZONES.slice(1)) {
  test(`the daylight-saving table holds for ${zone} when it is looked at now and then for 400 days`, () => {
    const untilMs = START_MS + 400 * DAY_MS;
    for (const expression of ["30 2 * * *", "15 */12 * * *"]) {
      const made = jobOf({ schedule: { kind: "cron", expression }, zone });
      const walked = new Walked(made);
      let nowMs = START_MS;
      for (let look = 1; nowMs < untilMs; look++)
        walked.look((nowMs += ((look * 7_919) % 97) * 20 * MINUTE_MS));
      const all = walk(made.definition, START_MS, nowMs);
      assert.deepEqual(walked.accounted(all), all);
    }
  });
}

test("a recurring job whose next run cannot be computed stays in state error until its schedule works again", () => {
  const gone = jobOf(
    { zone: "Mars/Olympus", schedule: { kind: "cron", expression: "0 9 * * *" } },
    { nextRunAtMs: START_MS },
  );
  const { after, run } = evaluateDue(gone, { ...FACTS, nowMs: START_MS });
  assert.equal(run?.scheduledAtMs, START_MS, "the instant that is known runs");
  assert.equal(after.state, "error");
  assert.equal(dueAtMs(gone, after, START_MS), START_MS + HOUR_MS, "it is looked at again");
  const still = { ...gone, ...after };
  assert.deepEqual(evaluateDue(still, { ...FACTS, nowMs: START_MS + HOUR_MS }), { after });

  const healed = { ...still, definition: { ...still.definition, zone: "Europe/Berlin" } };
  const { after: well } = evaluateDue(healed, { ...FACTS, nowMs: START_MS + HOUR_MS });
  assert.equal(well.state, "scheduled");
  assert.equal(well.nextRunAtMs, Date.UTC(2026, 0, 6, 8));

  const never = jobOf({ schedule: { kind: "cron", expression: "0 0 31 2 *" } }, { nextRunAtMs: START_MS });
  assert.equal(evaluateDue(never, { ...FACTS, nowMs: START_MS }).after.state, "error");
});

test("a late instant runs within grace, catches up once beyond it, is missed without catch_up, and is not used up by a manual run", () => {
  const hourly = jobOf({});
  const firstMs = START_MS + HOUR_MS;
  const at = (nowMs: number, job = hourly, facts: Partial<typeof FACTS | { catchUpMissed: boolean }> = {}) =>
    evaluateDue(job, { ...FACTS, ...facts, nowMs });

  assert.equal(at(firstMs).run?.timing, "on_time");
  assert.equal(at(firstMs + 5 * MINUTE_MS).run?.timing, "on_time");
  assert.equal(at(firstMs + 5 * MINUTE_MS + 1).run?.timing, "late");
  assert.equal(at(firstMs + 30 * MINUTE_MS, hourly, { catchUpMissed: false }).run?.timing, "late");
  assert.equal(at(firstMs + 30 * MINUTE_MS).missed, undefined);

  const once = at(firstMs + 30 * MINUTE_MS + 1);
  assert.deepEqual(once.run, {
    cause: "schedule",
    scheduledAtMs: firstMs,
    timing: "catch_up",
    isSkipped: false,
  });
  const asleep = at(firstMs + DAY_MS + 31 * MINUTE_MS);
  assert.equal(asleep.run?.scheduledAtMs, firstMs + DAY_MS);
  assert.deepEqual(asleep.missed, { fromMs: firstMs, untilMs: firstMs + 23 * HOUR_MS, count: 24 });
  assert.equal(asleep.after.nextRunAtMs, firstMs + 25 * HOUR_MS);

  const skipped = at(firstMs + DAY_MS + 31 * MINUTE_MS, hourly, { catchUpMissed: false });
  assert.equal(skipped.run, undefined);
  assert.deepEqual(skipped.missed, { fromMs: firstMs, untilMs: firstMs + DAY_MS, count: 25 });
  assert.equal(skipped.after.nextRunAtMs, firstMs + 25 * HOUR_MS);

  const asked = { ...hourly, manualAtMs: START_MS };
  const byHand = at(firstMs + DAY_MS + 31 * MINUTE_MS, asked, { catchUpMissed: false });
  assert.equal(byHand.run?.cause, "manual");
  assert.equal(byHand.after.nextRunAtMs, firstMs, "it uses up no instant");
  assert.equal(at(firstMs, { ...asked, state: "paused" }).after.state, "paused");
});

test("a paused job does not run by its schedule, and misses nothing", () => {
  const paused = jobOf({}, { state: "paused" });
  const decision = evaluateDue(paused, { ...FACTS, nowMs: START_MS + 12 * HOUR_MS });
  assert.deepEqual([decision.run, decision.missed], [undefined, undefined]);
  assert.deepEqual([decision.after.state, decision.after.nextRunAtMs], ["paused", paused.nextRunAtMs]);
});

test("a job's own catch_up and grace override the defaults", () => {
  const facts = { ...FACTS, nowMs: START_MS + HOUR_MS + 90_000 };
  const strict = jobOf({ catchUp: false, misfireGraceSeconds: 60 });
  assert.equal(evaluateDue(strict, facts).missed?.count, 1);
  assert.equal(evaluateDue(strict, { ...facts, nowMs: START_MS + HOUR_MS + 60_000 }).run?.timing, "on_time");
  const eager = jobOf({ catchUp: true });
  const late = { catchUpMissed: false, isRunning: false, nowMs: START_MS + 12.6 * HOUR_MS };
  assert.equal(evaluateDue(eager, late).run?.timing, "catch_up");
});

test("a one-shot runs up to 120 s after its time, and is missed after that", () => {
  const atMs = START_MS + HOUR_MS;
  const once = jobOf({ schedule: { kind: "once", atMs } });
  assert.equal(evaluateDue(once, { ...FACTS, nowMs: atMs + 120_000 }).run?.timing, "on_time");
  const late = evaluateDue(once, { ...FACTS, nowMs: atMs + 120_001 });
  assert.equal(late.after.state, "missed");
  assert.deepEqual(late.missed, { fromMs: atMs, untilMs: atMs, count: 1 });
  assert.equal(evaluateDue(once, { ...FACTS, isRunning: true, nowMs: atMs }).run?.isSkipped, false);
});

test("a one-shot job created 120 s after its time still runs a moment later", () => {
  const atMs = START_MS - 120_000;
  const taken = jobOf({ schedule: { kind: "once", atMs } }, { nextRunAtMs: atMs, createdAtMs: START_MS });
  const { run, after } = evaluateDue(taken, { ...FACTS, nowMs: START_MS + 1_000 });
  assert.deepEqual([run?.scheduledAtMs, after.state], [atMs, "scheduled"]);
  assert.equal(evaluateDue(taken, { ...FACTS, nowMs: START_MS + 120_001 }).after.state, "missed");
});

test("a grace period of 0 still covers the duration of a tick", () => {
  const strict = jobOf({ catchUp: false, misfireGraceSeconds: 0 });
  const at = (lateMs: number) => evaluateDue(strict, { ...FACTS, nowMs: START_MS + HOUR_MS + lateMs });
  assert.equal(at(1_500).run?.timing, "on_time");
  assert.equal(at(60_000).run, undefined);
});

test("an instant is skipped while the previous run is running, and does not count for repeat", () => {
  const last = jobOf({ repeat: 2 }, { repeatDone: 1 });
  const busy = evaluateDue(last, { ...FACTS, isRunning: true, nowMs: START_MS + HOUR_MS });
  assert.equal(busy.run?.isSkipped, true);
  assert.equal(busy.after.nextRunAtMs, START_MS + 2 * HOUR_MS);
  const both = jobOf({ overlap: "allow" });
  assert.equal(
    evaluateDue(both, { ...FACTS, isRunning: true, nowMs: START_MS + HOUR_MS }).run?.isSkipped,
    false,
  );
});

test("a retry runs at its time, and not after the next instant", () => {
  const failed = jobOf({}, { retryAtMs: START_MS + 5 * MINUTE_MS });
  const again = evaluateDue(failed, { ...FACTS, nowMs: START_MS + 5 * MINUTE_MS });
  assert.equal(again.run?.cause, "retry");
  assert.equal(again.after.retryAtMs, undefined);
  assert.equal(again.after.nextRunAtMs, START_MS + HOUR_MS);
  const slept = evaluateDue(failed, { ...FACTS, nowMs: START_MS + HOUR_MS });
  assert.equal(slept.run?.cause, "schedule");
  assert.equal(slept.after.retryAtMs, undefined);
});

test("a row that was broken for a while records its missed instants when it can be read again", () => {
  const broken = jobOf({}, { state: "error", nextRunAtMs: START_MS + HOUR_MS });
  const { after, missed, run } = evaluateDue(broken, { ...FACTS, nowMs: START_MS + 3 * HOUR_MS });
  assert.equal(after.state, "scheduled");
  assert.equal(missed?.count, 2);
  assert.equal(run?.scheduledAtMs, START_MS + 3 * HOUR_MS);
});
