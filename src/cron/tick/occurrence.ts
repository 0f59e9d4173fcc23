/** An instant at which a job was due, and its result. Pure. */
import type { OccurrenceRow } from "../../store/schema/tables.ts";

/**
 * claimed: a process has claimed it, and nothing has started. running: its script or its run has started. missed: no
 * scheduler ran at its time; one row may cover several instants. skipped: the previous run was still running. unknown: its
 * process is gone; it is never run again.
 */
export const OCCURRENCE_STATUSES = [
  "claimed",
  "running",
  "ok",
  "failed",
  "missed",
  "skipped",
  "unknown",
] as const;
export type OccurrenceStatus = (typeof OCCURRENCE_STATUSES)[number];

export type Cause = "schedule" | "manual" | "retry";
/** late: started more than 5 minutes after its instant. catch_up: it replaces instants that were missed. */
export type Timing = "on_time" | "late" | "catch_up";

/** none: only the output file is written. silent: the answer asked not to be delivered. */
export type DeliveryStatus = "pending" | "delivered" | "failed" | "unknown" | "silent" | "none";

/** Times in milliseconds since the epoch. */
export interface Occurrence {
  readonly id: string;
  readonly jobId: string;
  readonly jobName: string;
  readonly scheduledAtMs: number;
  readonly cause: Cause;
  readonly timing: Timing;
  readonly status: OccurrenceStatus;
  /** Why it has its status. */
  readonly reason?: string;
  /** When a missed occurrence covers several instants: the last of them, and their number. */
  readonly coversUntilMs?: number;
  readonly coversCount: number;
  readonly claimedAtMs: number;
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  readonly runId?: string;
  readonly sessionId?: string;
  readonly outputFile?: string;
  readonly deliveryStatus?: DeliveryStatus;
  readonly deliveryError?: string;
}

export function toOccurrence(row: OccurrenceRow): Occurrence {
  const optional = {
    reason: row.reason,
    coversUntilMs: row.covers_until,
    startedAtMs: row.started_at,
    endedAtMs: row.ended_at,
    runId: row.run_id,
    sessionId: row.session_id,
    outputFile: row.output_file,
    deliveryStatus: row.delivery_status,
    deliveryError: row.delivery_error,
  };
  const present = Object.entries(optional).filter(([, value]) => value !== null);
  return {
    id: row.id,
    jobId: row.job_id,
    jobName: row.job_name,
    scheduledAtMs: row.scheduled_at,
    cause: row.cause as Cause,
    timing: row.timing as Timing,
    status: row.status as OccurrenceStatus,
    coversCount: row.covers_count,
    claimedAtMs: row.claimed_at,
    ...(Object.fromEntries(present) as Partial<Occurrence>),
  };
}
