/** What is next for a job. Pure; it loads nothing that computes schedules. */
import type { Job, JobState } from "../job/job.ts";
import { sha256 } from "../../base/digest.ts";

/** A schedule that cannot be computed is looked at again so much later. */
export const REPAIR_MS = 3_600_000;

/** The instants of a job, as they are once something was done about it. */
export interface Upcoming {
  readonly state: JobState;
  readonly nextRunAtMs: number | undefined;
  readonly manualAtMs: number | undefined;
  readonly retryAtMs: number | undefined;
}

/** When a job is to be looked at next; undefined: not before somebody changes it. */
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

/** The same for the same instant of the same job, whoever asks; in whole milliseconds. */
export function jitterMs({ id, definition }: Pick<Job, "id" | "definition">, slotMs: number): number {
  const maxMs = definition.jitterSeconds * 1000;
  if (maxMs <= 0) return 0;
  const digest = Number.parseInt(sha256(`${id} ${slotMs}`).slice(0, 8), 16);
  return digest % maxMs;
}
