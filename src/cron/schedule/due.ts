/** Decides what a due job does. Pure. */
import { countInstants, nextRunMs, previousRunMs } from "./instants.ts";
import {
  isOver,
  type Job,
  jitterMs,
  upcomingOf,
  type Upcoming,
  type Cause,
  type Timing,
  type Schedule,
  ONCE_GRACE_MS,
} from "../job/job.ts";

export interface DueDecision {
  readonly after: Upcoming;
  /** One run: scheduled, manual, or a retry. */
  readonly run?: DueRun;
  /** Instants of the schedule that will not run. */
  readonly missed?: MissedInstants;
}

export interface DueRun {
  readonly cause: Cause;
  readonly scheduledAtMs: number;
  readonly timing: Timing;
  /** True: the previous run is still running, and this one is left out. */
  readonly isSkipped: boolean;
}

interface MissedInstants {
  readonly fromMs: number;
  readonly untilMs: number;
  /** For an expression {@link MAX_COUNTED} at most. */
  readonly count: number;
}

interface DueContext {
  readonly nowMs: number;
  /** The configured default. */
  readonly catchUpMissed: boolean;
  /** Whether an occurrence of the job is open. */
  readonly isRunning: boolean;
}

/** Missed instants of an expression are counted up to this number. A day of minutes is less. */
export const MAX_COUNTED = 1_500;
/** A run that starts later than this is marked as late. */
export const LATE_MS = 300_000;
const MIN_GRACE_MS = 120_000;
/** The scheduler ticks every second, and a tick takes some time. */
const LEAST_GRACE_MS = 10_000;
const MAX_GRACE_MS = 7_200_000;

/**
 * Decides what a job does at `nowMs`. Instants that passed are missed; for the last of them the job runs once, when it is
 * within its grace period or the job catches up. Manual runs and retries are not instants of the schedule.
 */
export function evaluateDue(job: Job, context: DueContext): DueDecision {
  const { manualAtMs, nextRunAtMs } = job;
  const { nowMs } = context;
  const now = upcomingOf(job);
  if (manualAtMs !== undefined && manualAtMs <= nowMs) {
    return {
      after: { ...now, manualAtMs: undefined },
      run: unscheduledRun("manual", manualAtMs, job, context),
    };
  }
  if (isOver(job.state) || job.state === "paused") return { after: now };
  if (nextRunAtMs === undefined) return retryOf(job, context) ?? { after: repaired(job, nowMs) };
  if (!hasCome(job, nextRunAtMs, nowMs)) return retryOf(job, context) ?? { after: healed(now) };
  const { schedule } = job.definition;
  if (schedule.kind === "once") return evaluateOnce(job, nextRunAtMs, nowMs);
  return evaluateSlot(job, nextRunAtMs, context);
}

/** Jitter is shorter than the time between two instants, so their order stays. */
function hasCome(job: Job, slotMs: number, nowMs: number): boolean {
  return slotMs + jitterMs(job, slotMs) <= nowMs;
}

function unscheduledRun(
  cause: "manual" | "retry",
  scheduledAtMs: number,
  job: Job,
  { isRunning }: DueContext,
): DueRun {
  return { cause, scheduledAtMs, timing: "on_time", isSkipped: isRunning && skips(job) };
}

const skips = ({ definition }: Job): boolean => definition.overlap === "skip";

function retryOf(job: Job, context: DueContext): DueDecision | undefined {
  const { retryAtMs } = job;
  if (retryAtMs === undefined || retryAtMs > context.nowMs) return undefined;
  const after = { ...healed(upcomingOf(job)), retryAtMs: undefined };
  return { after, run: unscheduledRun("retry", retryAtMs, job, context) };
}

/** A job in error whose next instant is known is scheduled again. */
function healed(now: Upcoming): Upcoming {
  return now.state === "error" ? { ...now, state: "scheduled" } : now;
}

/** Retries a schedule that could not be computed: newer time zone data may help. */
function repaired(job: Job, nowMs: number): Upcoming {
  const now = upcomingOf(job);
  if (job.state !== "error") return now;
  const next = followingMs(job.definition, nowMs);
  return next === undefined ? now : { ...now, state: "scheduled", nextRunAtMs: next };
}

/** A one-shot runs even while a manual run of it is running. */
function evaluateOnce(job: Job, atMs: number, nowMs: number): DueDecision {
  const after = { ...withoutRetry(job), nextRunAtMs: undefined };
  // A job may be created with a time that has just passed.
  const takenMs = Math.min(job.createdAtMs, atMs + ONCE_GRACE_MS);
  const lateMs = nowMs - Math.max(atMs + jitterMs(job, atMs), takenMs);
  if (lateMs > ONCE_GRACE_MS) {
    return { after: { ...after, state: "missed" }, missed: { fromMs: atMs, untilMs: atMs, count: 1 } };
  }
  const run = { cause: "schedule", scheduledAtMs: atMs, timing: "on_time", isSkipped: false } as const;
  return { after, run };
}

function evaluateSlot(
  job: Job,
  firstMs: number,
  { nowMs, catchUpMissed, isRunning }: DueContext,
): DueDecision {
  const { definition, repeatDone } = job;
  const now = withoutRetry(job);
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
  const isSkipped = isRunning && skips(job);
  const isLast = runs && !isSkipped && left <= 1;
  return {
    after: isLast ? { ...now, nextRunAtMs: undefined } : comesNext(now, nextMs),
    ...(runs ? { run: { cause: "schedule", scheduledAtMs: lastMs, timing, isSkipped } } : {}),
    ...(untilMs === undefined ? {} : { missed: missedOf(definition, firstMs, untilMs) }),
  };
}

/** A retry does not come after the next instant. */
function withoutRetry(job: Job): Upcoming {
  return { ...healed(upcomingOf(job)), retryAtMs: undefined };
}

/** A repeating job whose schedule cannot be computed does not end: it is in error. */
function comesNext(now: Upcoming, nextMs: number | undefined): Upcoming {
  return { ...now, state: nextMs === undefined ? "error" : now.state, nextRunAtMs: nextMs };
}

interface Passed {
  /** The newest instant that has passed. */
  readonly lastMs: number;
  /** The instant after it. */
  readonly nextMs: number | undefined;
  /** The instant before it, unless it is the first. */
  readonly beforeLastMs?: number;
}

/** Returns the instants that have passed, from `firstMs` on. On time it is one, and needs one computation. */
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

/** Also undefined if the schedule cannot be computed. */
function tryTo(compute: () => number | undefined): number | undefined {
  try {
    return compute();
  } catch {
    return undefined;
  }
}

function missedOf(definition: ScheduleOf, fromMs: number, untilMs: number): MissedInstants {
  return { fromMs, untilMs, count: countInstants(definition, { fromMs, untilMs, max: MAX_COUNTED }) };
}

/** Returns how late a run may start: half the time to the next instant, within limits. */
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
