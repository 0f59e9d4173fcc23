/** The next instants of a job. Pure; it loads nothing that computes schedules. */
import type { Job, JobState } from "../job/job.ts";
import { sha256 } from "../../base/digest.ts";

/** A schedule that cannot be computed is retried after it. */
export const REPAIR_MS = 3_600_000;

/** The state and the next instants of a job. */
export interface Upcoming {
  readonly state: JobState;
  readonly nextRunAtMs: number | undefined;
  readonly manualAtMs: number | undefined;
  readonly retryAtMs: number | undefined;
}

/** Returns when the scheduler must look at a job again; undefined: not before the job changes. */
export function dueAtMs(
  job: Pick<Job, "id" | "definition">,
  { state, nextRunAtMs, manualAtMs, retryAtMs }: Upcoming,
  nowMs: number,
): number | undefined {
  const scheduled = nextRunAtMs === undefined ? undefined : nextRunAtMs + jitterMs(job, nextRunAtMs);
  const repair = state === "error" ? nowMs + REPAIR_MS : undefined;
  const waits = state === "scheduled" ? [scheduled, retryAtMs] : [repair];
  const all = [manualAtMs, ...waits].filter((at) => at !== undefined);
  return all.length === 0 ? undefined : Math.min(...all);
}

export function upcomingOf({ state, nextRunAtMs, manualAtMs, retryAtMs }: Job): Upcoming {
  return { state, nextRunAtMs, manualAtMs, retryAtMs };
}

/** Returns how much later than its instant a run starts; the same for the same instant of the same job in any process. */
export function jitterMs({ id, definition }: Pick<Job, "id" | "definition">, slotMs: number): number {
  const maxMs = definition.jitterSeconds * 1000;
  if (maxMs <= 0) return 0;
  const digest = Number.parseInt(sha256(`${id} ${slotMs}`).slice(0, 8), 16);
  return digest % maxMs;
}
