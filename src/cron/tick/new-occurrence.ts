/** Rows of occurrences as they are first written. */
import { createId } from "../../base/ids.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import type { DueRun, DueDecision, MissedInstants } from "../schedule/due.ts";
import type { Job } from "../job/job.ts";
import { outputFileName } from "../output/name.ts";

/** How long a process may be silent before others take its claims over. Renewed at a third of it. */
export const CLAIM_MS = 60_000;

/** The row of a run: claimed by this process, or skipped. */
export function occurrenceRow(
  tx: Tx,
  { store, job, run }: { readonly store: Store; readonly job: Job; readonly run: DueRun },
): OccurrenceRow {
  const { cause, scheduledAtMs, timing, isSkipped } = run;
  const how = isSkipped
    ? { status: "skipped", reason: "The run before was still at work.", ended_at: tx.nowMs }
    : {
        status: "claimed",
        lease_owner: store.owner,
        lease_until: tx.nowMs + CLAIM_MS,
        output_file: outputFileName({ atMs: tx.nowMs, zone: job.definition.zone, cause }),
      };
  return { ...newRow(tx, job), scheduled_at: scheduledAtMs, cause, timing, ...how };
}

/** The row that stands for the instants which will not run; undefined when there are none. */
export function missedRow(tx: Tx, job: Job, { missed, run }: DueDecision): OccurrenceRow | undefined {
  if (!missed) return undefined;
  const { fromMs, untilMs, count }: MissedInstants = missed;
  return {
    ...newRow(tx, job),
    scheduled_at: fromMs,
    cause: "schedule",
    timing: "late",
    status: "missed",
    reason: reasonOf(job, run !== undefined),
    covers_until: untilMs,
    covers_count: count,
    ended_at: tx.nowMs,
  };
}

function reasonOf({ definition }: Job, isMadeUpFor: boolean): string {
  const why = "No process was there to run it in time";
  if (isMadeUpFor) return `${why}; the newest one was run.`;
  return definition.schedule.kind === "once" ? `${why}.` : `${why}, and the job is not to catch up.`;
}

function newRow(
  tx: Tx,
  { id, definition }: Job,
): Omit<OccurrenceRow, "scheduled_at" | "cause" | "timing" | "status"> {
  return {
    id: createId("occ", tx.nowMs),
    job_id: id,
    job_name: definition.name,
    reason: null,
    covers_until: null,
    covers_count: 1,
    lease_owner: null,
    lease_until: null,
    claimed_at: tx.nowMs,
    started_at: null,
    ended_at: null,
    run_id: null,
    session_id: null,
    output_file: null,
    delivery_status: null,
    delivery_error: null,
  };
}
