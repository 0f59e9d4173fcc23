/** How a job begins. Pure. */
import type { CronJobRow } from "../../store/schema/tables.ts";
import type { LastStatus } from "./job.ts";
import type { JobDefinition } from "./job.ts";
import { definitionColumns, firstMs, reasonOf, upcomingColumns } from "./moves.ts";

export interface JobStart {
  readonly isPaused?: boolean | undefined;
  readonly pausedReason?: string | undefined;
  /** Of a job that comes from elsewhere: what it was there. */
  readonly past?: JobPast | undefined;
}

export interface JobPast {
  /** 12 hex digits. */
  readonly id?: string | undefined;
  /** The beat of an interval: the instants that follow keep it. */
  readonly nextRunAtMs?: number | undefined;
  readonly repeatDone?: number | undefined;
  readonly failureStreak?: number | undefined;
  readonly lastRunAtMs?: number | undefined;
  readonly lastStatus?: LastStatus | undefined;
  readonly createdAtMs?: number | undefined;
}

export function newJobRow(definition: JobDefinition, start: JobStart, nowMs: number): CronJobRow {
  const { isPaused = false, pausedReason, past = {} } = start;
  const id = past.id ?? crypto.randomUUID().replaceAll("-", "").slice(0, 12);
  const nextRunAtMs = past.nextRunAtMs ?? firstMs(definition, nowMs);
  const state = isPaused ? "paused" : "scheduled";
  const next = { state, nextRunAtMs, manualAtMs: undefined, retryAtMs: undefined } as const;
  return {
    id,
    ...definitionColumns(definition),
    revision: 1,
    ...upcomingColumns({ id, definition }, next, nowMs),
    retries: 0,
    repeat_done: past.repeatDone ?? 0,
    failure_streak: past.failureStreak ?? 0,
    last_run_at: past.lastRunAtMs ?? null,
    last_status: past.lastStatus ?? null,
    last_error: null,
    last_occurrence: null,
    last_delivery_error: null,
    paused_at: isPaused ? nowMs : null,
    paused_reason: (isPaused ? reasonOf(pausedReason) : undefined) ?? null,
    created_at: past.createdAtMs ?? nowMs,
    updated_at: nowMs,
  };
}
