/** What is to be done about a job whose time has come. Pure. */
import { countInstants, nextRunMs, previousRunMs } from "./instants.ts";
import { isOver, type Job } from "../job/job.ts";
import { jitterMs, upcomingOf, type Upcoming } from "./upcoming.ts";
import type { Cause, Timing } from "../tick/occurrence.ts";
import type { Schedule } from "./schedule.ts";
import { ONCE_GRACE_MS } from "./text.ts";

export interface DueDecision {
  readonly after: Upcoming;
  /** One run, for an instant of the schedule, or because a person or a failure asked for it. */
  readonly run?: DueRun;
  /** Instants of the schedule that will not run, the first and the last. */
  readonly missed?: MissedInstants;
}

export interface DueRun {
  readonly cause: Cause;
  readonly scheduledAtMs: number;
  readonly timing: Timing;
  /** True: the run before is at work, and this one is left out. */
  readonly isSkipped: boolean;
}

export interface MissedInstants {
  readonly fromMs: number;
  readonly untilMs: number;
  /** Of an expression counted up to {@link MAX_COUNTED}. */
  readonly count: number;
}

export interface DueFacts {
  readonly nowMs: number;
  /** As it is configured for jobs that do not say. */
  readonly catchUpMissed: boolean;
  /** Whether an occurrence of the job is in hand. */
  readonly isAtWork: boolean;
}

/** A longer line of missed instants is counted no further. A day of minutes is less. */
export const MAX_COUNTED = 1_500;
/** Later than this a run says so. */
export const LATE_MS = 300_000;
const MIN_GRACE_MS = 120_000;
/** Nothing begins in the very millisecond: looks are made every second, and take their time. */
const LEAST_GRACE_MS = 10_000;
const MAX_GRACE_MS = 7_200_000;

/**
 * What becomes of a job at `nowMs`. Instants that passed unseen are stated as missed; for the last of them the job runs
 * once, when it is within its grace or is to catch up. A run by hand or another try does not count as an instant.
 */
export function evaluateDue(job: Job, facts: DueFacts): DueDecision {
  const { manualAtMs, nextRunAtMs } = job;
  const { nowMs } = facts;
  const now = upcomingOf(job);
  if (manualAtMs !== undefined && manualAtMs <= nowMs) {
    return { after: { ...now, manualAtMs: undefined }, run: askedFor("manual", manualAtMs, job, facts) };
  }
  if (isOver(job.state) || job.state === "paused") return { after: now };
  if (nextRunAtMs === undefined) return retryOf(job, facts) ?? { after: repaired(job, nowMs) };
  if (!hasCome(job, nextRunAtMs, nowMs)) return retryOf(job, facts) ?? { after: healed(now) };
  const { schedule } = job.definition;
  if (schedule.kind === "once") return evaluateOnce(job, nextRunAtMs, nowMs);
  return evaluateSlot(job, nextRunAtMs, facts);
}

/** Jitter is less than what is between instants: they come in their order. */
function hasCome(job: Job, slotMs: number, nowMs: number): boolean {
  return slotMs + jitterMs(job, slotMs) <= nowMs;
}

function askedFor(
  cause: "manual" | "retry",
  scheduledAtMs: number,
  job: Job,
  { isAtWork }: DueFacts,
): DueRun {
  return { cause, scheduledAtMs, timing: "on_time", isSkipped: isAtWork && skips(job) };
}

const skips = ({ definition }: Job): boolean => definition.overlap === "skip";

function retryOf(job: Job, facts: DueFacts): DueDecision | undefined {
  const { retryAtMs } = job;
  if (retryAtMs === undefined || retryAtMs > facts.nowMs) return undefined;
  const after = { ...healed(upcomingOf(job)), retryAtMs: undefined };
  return { after, run: askedFor("retry", retryAtMs, job, facts) };
}

/** A row that could not be read for a while has kept its next instant. */
function healed(now: Upcoming): Upcoming {
  return now.state === "error" ? { ...now, state: "scheduled" } : now;
}

/** Of a job whose schedule could not be computed, be it that a new version of the zones' data can. */
function repaired(job: Job, nowMs: number): Upcoming {
  const now = upcomingOf(job);
  if (job.state !== "error") return now;
  const next = followingMs(job.definition, nowMs);
  return next === undefined ? now : { ...now, state: "scheduled", nextRunAtMs: next };
}

/** One that comes but once is not left out because a run by hand is at work. */
function evaluateOnce(job: Job, atMs: number, nowMs: number): DueDecision {
  const after = { ...settled(job), nextRunAtMs: undefined };
  // A time that had just passed was taken when the job was made.
  const takenMs = Math.min(job.createdAtMs, atMs + ONCE_GRACE_MS);
  const lateMs = nowMs - Math.max(atMs + jitterMs(job, atMs), takenMs);
  if (lateMs > ONCE_GRACE_MS) {
    return { after: { ...after, state: "missed" }, missed: { fromMs: atMs, untilMs: atMs, count: 1 } };
  }
  const run = { cause: "schedule", scheduledAtMs: atMs, timing: "on_time", isSkipped: false } as const;
  return { after, run };
}

function evaluateSlot(job: Job, firstMs: number, { nowMs, catchUpMissed, isAtWork }: DueFacts): DueDecision {
  const { definition, repeatDone } = job;
  const now = settled(job);
  const left = (definition.repeat ?? Number.POSITIVE_INFINITY) - repeatDone;
  if (left <= 0) return { after: { ...now, nextRunAtMs: undefined } };
  const { lastMs, nextMs, beforeLastMs } = passed(job, firstMs, nowMs);
  const lateMs = nowMs - lastMs - jitterMs(job, lastMs);
  const catchesUp = definition.catchUp ?? catchUpMissed;
  const isInTime = lateMs <= graceMs(definition, lastMs, nextMs);
  const runs = isInTime || catchesUp;
  const untilMs = runs ? beforeLastMs : lastMs;
  const makesUp = catchesUp && (beforeLastMs !== undefined || !isInTime);
  const timing = makesUp ? "catch_up" : timingOf(lateMs);
  const isSkipped = isAtWork && skips(job);
  const isLast = runs && !isSkipped && left <= 1;
  return {
    after: isLast ? { ...now, nextRunAtMs: undefined } : comesNext(now, nextMs),
    ...(runs ? { run: { cause: "schedule", scheduledAtMs: lastMs, timing, isSkipped } } : {}),
    ...(untilMs === undefined ? {} : { missed: missedOf(definition, firstMs, untilMs) }),
  };
}

/** Another try of a run is not made behind the next instant. */
function settled(job: Job): Upcoming {
  return { ...healed(upcomingOf(job)), retryAtMs: undefined };
}

/** A repeating job never ends because its schedule cannot be computed. */
function comesNext(now: Upcoming, nextMs: number | undefined): Upcoming {
  return { ...now, state: nextMs === undefined ? "error" : now.state, nextRunAtMs: nextMs };
}

interface Passed {
  /** The newest instant that has come. */
  readonly lastMs: number;
  /** The instant behind it. */
  readonly nextMs: number | undefined;
  /** The instant before it, unless it is the first. */
  readonly beforeLastMs?: number;
}

/** The instants that have come, from `firstMs` on. On time that is one, and asks the schedule once. */
function passed(job: Job, firstMs: number, nowMs: number): Passed {
  const { definition } = job;
  const secondMs = followingMs(definition, firstMs);
  if (secondMs === undefined || !hasCome(job, secondMs, nowMs)) return { lastMs: firstMs, nextMs: secondMs };
  let lastMs = Math.max(secondMs, newestMs(definition, firstMs, nowMs) ?? secondMs);
  while (lastMs > secondMs && !hasCome(job, lastMs, nowMs)) {
    lastMs = Math.max(secondMs, beforeMs(definition, lastMs) ?? secondMs);
  }
  const beforeLastMs = Math.max(firstMs, beforeMs(definition, lastMs) ?? firstMs);
  return { lastMs, nextMs: followingMs(definition, lastMs), beforeLastMs };
}

interface ScheduleOf {
  readonly schedule: Schedule;
  readonly zone: string;
}

function newestMs({ schedule, zone }: ScheduleOf, firstMs: number, nowMs: number): number | undefined {
  if (schedule.kind !== "interval") return tryTo(() => previousRunMs(schedule, nowMs + 1, zone));
  const periodMs = schedule.minutes * 60_000;
  return firstMs + Math.floor((nowMs - firstMs) / periodMs) * periodMs;
}

function beforeMs({ schedule, zone }: ScheduleOf, atMs: number): number | undefined {
  if (schedule.kind === "interval") return atMs - schedule.minutes * 60_000;
  return tryTo(() => previousRunMs(schedule, atMs, zone));
}

function followingMs({ schedule, zone }: ScheduleOf, atMs: number): number | undefined {
  return tryTo(() => nextRunMs(schedule, atMs, zone));
}

/** Undefined also when the schedule cannot be computed (any more). */
function tryTo(ask: () => number | undefined): number | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}

function missedOf(definition: ScheduleOf, fromMs: number, untilMs: number): MissedInstants {
  return { fromMs, untilMs, count: countInstants(definition, { fromMs, untilMs, max: MAX_COUNTED }) };
}

/** How late a run may begin: half of the time to the next instant, within bounds. */
function graceMs(
  { misfireGraceSeconds }: Job["definition"],
  slotMs: number,
  nextMs: number | undefined,
): number {
  if (misfireGraceSeconds !== undefined) return Math.max(LEAST_GRACE_MS, misfireGraceSeconds * 1000);
  const periodMs = nextMs === undefined ? 0 : nextMs - slotMs;
  return Math.min(MAX_GRACE_MS, Math.max(MIN_GRACE_MS, periodMs / 2));
}

function timingOf(lateMs: number): Timing {
  return lateMs > LATE_MS ? "late" : "on_time";
}
