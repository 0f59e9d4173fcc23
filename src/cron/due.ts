/** What is to be done about a job whose time has come. Pure. */
import type { Cause, Timing } from "./occurrence.ts";
import { nextRunMs, previousRunMs } from "./instants.ts";
import { isOver, type Job } from "./job.ts";
import { jitterMs } from "./jitter.ts";
import type { Schedule } from "./schedule.ts";
import { ONCE_GRACE_MS } from "./schedule-text.ts";
import { upcomingOf, type Upcoming } from "./upcoming.ts";

export interface DueVerdict {
  readonly after: Upcoming;
  /** One run, for an instant of the schedule, or because a person or a failure asked for it. */
  readonly run?: { readonly cause: Cause; readonly scheduledAtMs: number; readonly timing: Timing };
  /** Instants of the schedule that will not run, the first and the last. */
  readonly missed?: MissedInstants;
}

export interface MissedInstants {
  readonly fromMs: number;
  readonly untilMs: number;
  /** Counted up to {@link MAX_COUNTED}. */
  readonly count: number;
}

/** A longer line of missed instants is counted no further. */
export const MAX_COUNTED = 10_000;
const LATE_MS = 300_000;
const MIN_GRACE_MS = 120_000;
const MAX_GRACE_MS = 7_200_000;

/**
 * What becomes of a job at `nowMs`. Instants that passed unseen are stated as missed; for the last of them the job runs
 * once, when it is within its grace or is to catch up. A run by hand or another try does not count as an instant.
 */
export function judgeDue(
  job: Job,
  { nowMs, catchUpMissed }: { readonly nowMs: number; readonly catchUpMissed: boolean },
): DueVerdict {
  const { manualAtMs, nextRunAtMs, retryAtMs } = job;
  const now = upcomingOf(job);
  if (manualAtMs !== undefined && manualAtMs <= nowMs) {
    const run = { cause: "manual", scheduledAtMs: manualAtMs, timing: "on_time" } as const;
    return { after: { ...now, manualAtMs: undefined }, run };
  }
  if (isOver(job.state) || job.state === "paused") return { after: now };
  if (nextRunAtMs === undefined) return retryOf(job, now, nowMs) ?? { after: repaired(job, nowMs) };
  if (nextRunAtMs + jitterMs(job, nextRunAtMs) > nowMs) return retryOf(job, now, nowMs) ?? { after: now };
  const settled = retryAtMs === undefined ? now : { ...now, retryAtMs: undefined };
  const { schedule } = job.definition;
  if (schedule.kind === "once") return judgeOnce(settled, { atMs: nextRunAtMs, nowMs });
  return judgeSlot(job, settled, { slotMs: nextRunAtMs, nowMs, catchUpMissed });
}

function retryOf({ retryAtMs }: Job, now: Upcoming, nowMs: number): DueVerdict | undefined {
  if (retryAtMs === undefined || retryAtMs > nowMs) return undefined;
  const run = { cause: "retry", scheduledAtMs: retryAtMs, timing: "on_time" } as const;
  return { after: { ...now, retryAtMs: undefined }, run };
}

/** Of a job whose schedule could not be computed, be it that a new version of the zones' data can. */
function repaired(job: Job, nowMs: number): Upcoming {
  const now = upcomingOf(job);
  if (job.state !== "error") return now;
  const next = followingMs(job.definition, nowMs);
  return next === undefined ? now : { ...now, state: "scheduled", nextRunAtMs: next };
}

function judgeOnce(
  now: Upcoming,
  { atMs, nowMs }: { readonly atMs: number; readonly nowMs: number },
): DueVerdict {
  const after = { ...now, nextRunAtMs: undefined };
  const lateMs = nowMs - atMs;
  if (lateMs <= ONCE_GRACE_MS) {
    return { after, run: { cause: "schedule", scheduledAtMs: atMs, timing: timingOf(lateMs) } };
  }
  return { after: { ...after, state: "missed" }, missed: { fromMs: atMs, untilMs: atMs, count: 1 } };
}

function judgeSlot(
  job: Job,
  now: Upcoming,
  at: { readonly slotMs: number; readonly nowMs: number; readonly catchUpMissed: boolean },
): DueVerdict {
  const { definition } = job;
  const { slotMs: firstMs, nowMs } = at;
  const lastMs = lastInstant(job, firstMs, nowMs);
  const lateMs = nowMs - (lastMs + jitterMs(job, lastMs));
  const catchesUp = definition.catchUp ?? at.catchUpMissed;
  const isInTime = lateMs <= graceMs(job, lastMs);
  const runs = isInTime || catchesUp;
  const untilMs = runs ? beforeMs(definition, lastMs) : lastMs;
  const missed =
    untilMs !== undefined && untilMs >= firstMs ? missedOf(definition, firstMs, untilMs) : undefined;
  const timing = catchesUp && (missed !== undefined || !isInTime) ? "catch_up" : timingOf(lateMs);
  const after = afterSlot(job, now, { lastMs, runs });
  return {
    after,
    ...(runs ? { run: { cause: "schedule", scheduledAtMs: lastMs, timing } } : {}),
    ...(missed ? { missed } : {}),
  };
}

function afterSlot(
  { definition, repeatDone }: Job,
  now: Upcoming,
  { lastMs, runs }: { readonly lastMs: number; readonly runs: boolean },
): Upcoming {
  const isLast = definition.repeat !== null && repeatDone + (runs ? 1 : 0) >= definition.repeat;
  if (isLast) return { ...now, nextRunAtMs: undefined };
  const nextRunAtMs = followingMs(definition, lastMs);
  return nextRunAtMs === undefined ? { ...now, state: "error", nextRunAtMs } : { ...now, nextRunAtMs };
}

/** The newest instant that has come, its jitter included; `firstMs` at least. */
function lastInstant(job: Job, firstMs: number, nowMs: number): number {
  const { schedule, zone, jitterSeconds } = job.definition;
  const untilMs = nowMs - jitterSeconds * 1000;
  if (schedule.kind === "interval") {
    const periodMs = schedule.minutes * 60_000;
    return firstMs + Math.max(0, Math.floor((untilMs - firstMs) / periodMs)) * periodMs;
  }
  const lastMs = previousRunMs(schedule, untilMs + 1, zone);
  return lastMs === undefined ? firstMs : Math.max(firstMs, lastMs);
}

/** The instant before one; of an interval the same holds by arithmetic. */
function beforeMs(definition: ScheduleOf, atMs: number): number | undefined {
  const { schedule, zone } = definition;
  return schedule.kind === "interval"
    ? atMs - schedule.minutes * 60_000
    : previousRunMs(schedule, atMs, zone);
}

function missedOf(definition: ScheduleOf, fromMs: number, untilMs: number): MissedInstants {
  const { schedule } = definition;
  if (schedule.kind === "interval") {
    const count = Math.round((untilMs - fromMs) / (schedule.minutes * 60_000)) + 1;
    return { fromMs, untilMs, count: Math.min(count, MAX_COUNTED) };
  }
  let count = 1;
  for (
    let at: number | undefined = fromMs;
    at !== undefined && at < untilMs && count < MAX_COUNTED;
    count++
  ) {
    at = followingMs(definition, at);
    if (at === undefined || at >= untilMs) break;
  }
  return { fromMs, untilMs, count: fromMs === untilMs ? 1 : count + 1 };
}

/** How late a run may begin: half of the time to the next instant, within bounds. */
function graceMs({ definition }: Pick<Job, "definition">, slotMs: number): number {
  if (definition.misfireGraceSeconds !== undefined) return definition.misfireGraceSeconds * 1000;
  const next = followingMs(definition, slotMs);
  const periodMs = next === undefined ? 0 : next - slotMs;
  return Math.min(MAX_GRACE_MS, Math.max(MIN_GRACE_MS, periodMs / 2));
}

interface ScheduleOf {
  readonly schedule: Schedule;
  readonly zone: string;
}

/** Undefined also when the schedule cannot be computed (any more). */
function followingMs({ schedule, zone }: ScheduleOf, atMs: number): number | undefined {
  try {
    return nextRunMs(schedule, atMs, zone);
  } catch {
    return undefined;
  }
}

function timingOf(lateMs: number): Timing {
  return lateMs > LATE_MS ? "late" : "on_time";
}
