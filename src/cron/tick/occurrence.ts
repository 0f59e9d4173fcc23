/** An instant at which a job was due, and what became of it. Pure. */
import type { OccurrenceRow } from "../../store/schema/tables.ts";

/**
 * claimed: a process has it in hand, and nothing of it has begun. running: its script or its run has begun. missed: nobody
 * saw it in time; it may stand for several. skipped: the run before was still at work. unknown: what ran it is gone; it is
 * never run again.
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
/** late: begun more than 5 minutes behind its instant. catch_up: it makes up for instants that were missed. */
export type Timing = "on_time" | "late" | "catch_up";

/** none: nobody but the folder of outputs is told. silent: the answer said so. */
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
  /** Why, where the status does not say it all. */
  readonly reason?: string;
  /** Of a missed one that stands for several: the last of them, and how many they are. */
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
  const told = Object.entries(optional).filter(([, value]) => value !== null);
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
    ...(Object.fromEntries(told) as Partial<Occurrence>),
  };
}
