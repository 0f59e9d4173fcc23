/** How far runs may be spread. Pure. */
import type { JobDefinition } from "../job/job.ts";
import { nextRunMs } from "./instants.ts";
import { formatSchedule, type Schedule } from "./schedule.ts";

const MAX_JITTER_SECONDS = 86_400;
/** Instants of an expression that are looked at: a year of days. */
const MAX_INSTANTS = 400;

/** A sentence; undefined when every run stays before the instant behind its own. */
export function jitterProblem(
  { schedule, zone, jitterSeconds }: Pick<JobDefinition, "schedule" | "zone" | "jitterSeconds">,
  nowMs: number,
): string | undefined {
  if (jitterSeconds === 0) return undefined;
  if (schedule.kind === "once") return "A job that runs once begins at its time: leave the jitter out.";
  const shortest = Math.min(shortestPeriodMs(schedule, nowMs, zone) / 1000 - 1, MAX_JITTER_SECONDS);
  if (jitterSeconds <= shortest) return undefined;
  const why =
    shortest === MAX_JITTER_SECONDS
      ? ""
      : `, which is less than ${formatSchedule(schedule)} leaves between runs`;
  return `The jitter is at most ${Math.floor(shortest)} seconds here${why}.`;
}

function shortestPeriodMs(schedule: Schedule, nowMs: number, zone: string): number {
  if (schedule.kind === "interval") return schedule.minutes * 60_000;
  let shortest = Number.POSITIVE_INFINITY;
  let before = nextRunMs(schedule, nowMs, zone);
  for (let count = 0; before !== undefined && count < MAX_INSTANTS; count++) {
    const next = nextRunMs(schedule, before, zone);
    if (next === undefined) break;
    shortest = Math.min(shortest, next - before);
    before = next;
  }
  return shortest;
}
