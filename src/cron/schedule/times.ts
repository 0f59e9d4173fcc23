/** The instants of jobs in windows of time. Pure. */
import type { JobTime } from "../../../generated/http/client/types.gen.ts";
import type { Job, JobDefinition } from "../job/job.ts";
import { wallTimeWithOffset } from "../job/job.ts";
import { instantOf, nextRunMs } from "./instants.ts";

const MINUTE_MS = 60_000;

type Timing = Pick<JobDefinition, "schedule" | "zone">;

/** Returns the instant after `atMs`; undefined when none follows or none can be computed. */
function following({ schedule, zone }: Timing, atMs: number): number | undefined {
  try {
    return nextRunMs(schedule, atMs, zone);
  } catch {
    return undefined;
  }
}

/**
 * Yields the instants from `fromMs` on that match the schedule of a job, whether it runs or not. An interval has the phase
 * of its next instant, and none without one or before the job existed.
 */
export function* matchingTimes(
  { definition, nextRunAtMs, createdAtMs }: Pick<Job, "definition" | "nextRunAtMs" | "createdAtMs">,
  fromMs: number,
): Generator<number> {
  const { schedule } = definition;
  if (schedule.kind === "interval") {
    if (nextRunAtMs === undefined) return;
    const periodMs = schedule.minutes * MINUTE_MS;
    const firstMs = Math.max(fromMs, createdAtMs + 1);
    for (let at = nextRunAtMs + Math.ceil((firstMs - nextRunAtMs) / periodMs) * periodMs; ; at += periodMs)
      yield at;
  }
  // Instants are whole minutes.
  for (let at = following(definition, fromMs - 1); at !== undefined; at = following(definition, at)) {
    if (at >= fromMs) yield at;
  }
}

/** Yields the instants at which a job will run, while nothing changes. A paused or ended job has none. */
function* plannedTimes(
  job: Pick<Job, "definition" | "state" | "nextRunAtMs" | "repeatDone">,
): Generator<number, undefined> {
  const { definition, state, nextRunAtMs, repeatDone } = job;
  if (state !== "scheduled") return undefined;
  let left = (definition.repeat ?? Number.POSITIVE_INFINITY) - repeatDone;
  for (let at = nextRunAtMs; at !== undefined && left > 0; left--) {
    yield at;
    at = definition.schedule.kind === "once" ? undefined : following(definition, at);
  }
  return undefined;
}

/** Number of planned instants that a single job shows. */
const NEXT_RUNS = 5;

/** Returns the next five instants of a job. */
export function nextRuns(job: Job): readonly JobTime[] {
  return plannedTimes(job)
    .take(NEXT_RUNS)
    .map((at) => timeEntry(job.definition, at))
    .toArray();
}

/** Returns an instant as the API shows it. */
export function timeEntry(definition: Timing, atMs: number): JobTime {
  return {
    scheduled_at: atMs / 1000,
    wall_time: wallTimeWithOffset(atMs, definition.zone),
    shift: shiftAt(definition, atMs),
  };
}

/** A clock change can move or repeat only instants of an expression, which is in local time. */
function shiftAt({ schedule, zone }: Timing, atMs: number): JobTime["shift"] {
  if (schedule.kind !== "cron") return null;
  const wall = wallTimeWithOffset(atMs, zone).slice(0, "2026-01-05T13:00:00".length);
  if (instantOf(wall, zone) < atMs) return "repeat";
  // The expression does not name the time that clocks show: it names one that they skip.
  const named = Date.parse(`${wall}Z`);
  return following({ schedule, zone: "UTC" }, named - MINUTE_MS) === named ? null : "gap";
}

/** A planned instant of a job. */
export interface PlannedTime<T> {
  readonly job: T;
  readonly atMs: number;
}

/** Returns the planned instants of jobs in a window, earliest first, at most `limit`. */
export function plannedBetween<T extends Job>(
  jobs: readonly T[],
  { fromMs, toMs, limit }: { readonly fromMs: number; readonly toMs: number; readonly limit: number },
): readonly PlannedTime<T>[] {
  const cursors = jobs.flatMap((job) => {
    const times = plannedTimes(skipTo(job, fromMs));
    const atMs = advance(times, fromMs);
    return atMs === undefined ? [] : [{ job, times, atMs }];
  });
  const planned: PlannedTime<T>[] = [];
  while (planned.length < limit) {
    let first: (typeof cursors)[number] | undefined;
    for (const cursor of cursors) if (!first || cursor.atMs < first.atMs) first = cursor;
    if (!first || first.atMs >= toMs) break;
    planned.push({ job: first.job, atMs: first.atMs });
    first.atMs = advance(first.times, fromMs) ?? Number.POSITIVE_INFINITY;
  }
  return planned;
}

/** Instants of a job with a limit of repeats that may come before a window. Behind more, nothing is shown. */
const MAX_SKIPPED = 10_000;

function advance(times: Generator<number, undefined>, fromMs: number): number | undefined {
  for (let skipped = 0; skipped < MAX_SKIPPED; skipped++) {
    const next = times.next();
    if (next.done || next.value >= fromMs) return next.value ?? undefined;
  }
  return undefined;
}

/** Without a limit of repeats, the instants before the window need not be computed. */
function skipTo(job: Job, fromMs: number): Job {
  const { definition, nextRunAtMs } = job;
  if (nextRunAtMs === undefined || nextRunAtMs >= fromMs || definition.repeat !== null) return job;
  const [first] = matchingTimes(job, fromMs).take(1);
  return { ...job, nextRunAtMs: first };
}
