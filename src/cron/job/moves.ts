/** What commands do to a job. Pure: each move is the columns that it changes. */
import type { CronJobRow } from "../../store/schema/tables.ts";
import { ServiceError } from "../../base/errors.ts";
import {
  dueAtMs,
  upcomingOf,
  type Upcoming,
  isOver,
  type Job,
  type JobDefinition,
  refusal,
  type LastStatus,
  formatSchedule,
  type Schedule,
  requireNotPast,
} from "./job.ts";
import { scanPrompt } from "./check.ts";
import { nextRunMs } from "../schedule/instants.ts";

/** Columns of a job's row; undefined: nothing changes. */
export type Move = Partial<CronJobRow> | undefined;

const MAX_REASON_CHARACTERS = 500;
const MINUTE_MS = 60_000;
const MAX_AHEAD_MS = 10 * 366 * 86_400_000;

/** Pauses a job. */
export function pause(job: Job, { reason, nowMs }: { reason?: string | undefined; nowMs: number }): Move {
  if (isOver(job.state)) throw over(job, "It cannot be paused");
  const isLast = job.state === "scheduled" && job.nextRunAtMs === undefined && job.retryAtMs === undefined;
  if (isLast && job.manualAtMs === undefined) {
    throw refusal("job", `${called(job)} is in its last run and cannot be paused. It ends by itself.`);
  }
  const pausedReason = reasonOf(reason) ?? job.pausedReason;
  if (job.state === "paused" && pausedReason === job.pausedReason) return undefined;
  return {
    ...upcomingColumns(job, { ...upcomingOf(job), state: "paused", retryAtMs: undefined }, nowMs),
    retries: 0,
    paused_at: job.pausedAtMs ?? nowMs,
    paused_reason: pausedReason ?? null,
  };
}

export interface Resumption {
  /** The instant of a run that is requested at once. */
  readonly manualAtMs?: number | undefined;
  readonly atMs?: number | undefined;
  readonly nowMs: number;
}

/**
 * Resumes a paused job. A repeating job is due at its next instant, or at `atMs` first. A one-shot that was missed or has run
 * needs a new time.
 */
export function resume(job: Job, { manualAtMs: requested, atMs, nowMs }: Resumption): Move {
  const { definition, state } = job;
  if (atMs !== undefined) requireTime(atMs, nowMs);
  const isOnce = definition.schedule.kind === "once";
  if (isOver(state) && (!isOnce || (atMs ?? requested) === undefined))
    throw over(job, "It cannot be resumed");
  const isPast = isOver(state) || hasPassed(job, nowMs);
  const time = atMs ?? (isPast ? requested : undefined);
  const unpaused = { paused_at: null, paused_reason: null };
  if (isOnce && time !== undefined) {
    const schedule = { kind: "once", atMs: time } as const;
    return { ...unpaused, ...reanchored({ ...job, state: "scheduled" }, { ...definition, schedule }, nowMs) };
  }
  if (state === "scheduled" && atMs === undefined && requested === undefined) return undefined;
  if (definition.repeat !== null && definition.repeat <= job.repeatDone)
    throw over(job, "It cannot be resumed");
  const manualAtMs = requested ?? job.manualAtMs;
  const nextRunAtMs = atMs ?? (state === "scheduled" ? job.nextRunAtMs : continuationMs(job, nowMs));
  const next = { state: nextRunAtMs === undefined ? "error" : "scheduled", nextRunAtMs, manualAtMs } as const;
  return {
    ...unpaused,
    ...clearedError(job),
    retries: 0,
    ...upcomingColumns(job, { ...next, retryAtMs: undefined }, nowMs),
  };
}

/** Requests a run at once, outside the schedule. A paused job stays paused. */
export function runNow(
  job: Job,
  { manualAtMs, nowMs }: { readonly manualAtMs: number; readonly nowMs: number },
): Move {
  if (isOver(job.state)) throw over(job, "It cannot be run");
  const threat = scanPrompt(job.definition.prompt);
  if (threat !== undefined) throw refusal("prompt", threat);
  if (job.manualAtMs !== undefined) return undefined;
  return upcomingColumns(job, { ...upcomingOf(job), manualAtMs }, nowMs);
}

/** Throws if the job is running and its runs must not overlap. */
export function requireFree(job: Job, isRunning: boolean): void {
  if (!isRunning || job.definition.overlap === "allow") return;
  const what = `${called(job)} is running`;
  throw new ServiceError(
    "job_busy",
    `${what}. Wait until it ends, or allow its runs to overlap (overlap: allow).`,
    { param: "job" },
  );
}

/** Sets a new definition. A new schedule restarts the job, even one that will not run again. */
export function redefine(job: Job, definition: JobDefinition, nowMs: number): Move {
  if (canonical(definition) === canonical(job.definition)) return undefined;
  const before = job.definition;
  const isRetimed =
    JSON.stringify(before.schedule) !== JSON.stringify(definition.schedule) ||
    (before.zone !== definition.zone && definition.schedule.kind === "cron");
  if (isRetimed) return reanchored(job, definition, nowMs);
  if (before.repeat !== definition.repeat) return recounted(job, definition, nowMs);
  return {
    ...definitionColumns(definition),
    ...upcomingColumns({ ...job, definition }, upcomingOf(job), nowMs),
  };
}

/** Serializes a definition independently of the order of its fields. */
function canonical(definition: JobDefinition): string {
  const fields = Object.entries(definition).filter(([, value]) => value !== undefined);
  return JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function reanchored(job: Job, definition: JobDefinition, nowMs: number): Move {
  const isKindNew = job.definition.schedule.kind !== definition.schedule.kind;
  const startsOver = isKindNew || isOver(job.state) || definition.schedule.kind === "once";
  const repeatDone = startsOver ? 0 : job.repeatDone;
  requireLeft(definition, repeatDone);
  const nextRunAtMs = firstMs(definition, nowMs);
  const state = job.state === "paused" ? "paused" : "scheduled";
  const next = { state, nextRunAtMs, manualAtMs: job.manualAtMs, retryAtMs: undefined } as const;
  return {
    ...definitionColumns(definition),
    ...clearedError(job),
    repeat_done: repeatDone,
    retries: 0,
    ...upcomingColumns({ ...job, definition }, next, nowMs),
  };
}

/** The error of the old schedule does not apply any more. */
function clearedError({ state }: Job): Partial<CronJobRow> {
  return state === "error" ? { last_error: null } : {};
}

function recounted(job: Job, definition: JobDefinition, nowMs: number): Move {
  requireLeft(definition, job.repeatDone);
  const isEnded = isOver(job.state) || (job.state === "scheduled" && job.nextRunAtMs === undefined);
  if (isEnded) return reanchored({ ...job, state: "scheduled" }, definition, nowMs);
  return {
    ...definitionColumns(definition),
    ...upcomingColumns({ ...job, definition }, upcomingOf(job), nowMs),
  };
}

function requireLeft({ repeat }: JobDefinition, done: number): void {
  if (repeat === null || repeat > done) return;
  const what = `repeat includes past runs: ${done} so far`;
  throw refusal("repeat", `${what}. Use a larger number, or forever.`);
}

/** Returns the first instant of a schedule. ServiceError when it has none. */
function firstMs({ schedule, zone }: Pick<JobDefinition, "schedule" | "zone">, nowMs: number): number {
  requireNotPast(schedule, { nowMs, text: formatSchedule(schedule) });
  const first = schedule.kind === "once" ? schedule.atMs : nextRunMs(schedule, nowMs, zone);
  if (first !== undefined) return first;
  throw refusal("schedule", `${formatSchedule(schedule)} never occurs. Use a schedule with a future time.`);
}

/** Returns the next instant of a job that was paused. An interval keeps its phase. */
function continuationMs({ definition, nextRunAtMs: pausedMs }: Job, nowMs: number): number | undefined {
  const { schedule } = definition;
  if (schedule.kind !== "interval" || pausedMs === undefined) return firstMs(definition, nowMs);
  if (pausedMs > nowMs) return pausedMs;
  const periodMs = schedule.minutes * MINUTE_MS;
  return pausedMs + (Math.floor((nowMs - pausedMs) / periodMs) + 1) * periodMs;
}

function definitionColumns(definition: JobDefinition): Pick<CronJobRow, "name" | "name_key" | "definition"> {
  const { name } = definition;
  return { name, name_key: nameKey(name), definition: JSON.stringify(definition) };
}

/** Returns the key by which names are compared, ignoring case. */
export function nameKey(name: string): string {
  return name.trim().normalize("NFC").toLowerCase();
}

export function upcomingColumns(
  job: Pick<Job, "id" | "definition">,
  next: Upcoming,
  nowMs: number,
): Pick<CronJobRow, "state" | "next_run_at" | "manual_at" | "retry_at" | "due_at"> {
  return {
    state: next.state,
    next_run_at: next.nextRunAtMs ?? null,
    manual_at: next.manualAtMs ?? null,
    retry_at: next.retryAtMs ?? null,
    due_at: dueAtMs(job, next, nowMs) ?? null,
  };
}

/** Returns the reason in one line of limited length. */
function reasonOf(reason: string | undefined): string | undefined {
  const text = (reason ?? "")
    .toWellFormed()
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  return text === "" ? undefined : text.slice(0, MAX_REASON_CHARACTERS);
}

function requireTime(atMs: number, nowMs: number): void {
  const schedule: Schedule = { kind: "once", atMs };
  if (!Number.isSafeInteger(atMs) || atMs > nowMs + MAX_AHEAD_MS)
    throw refusal("at", "The time must be within the next ten years.");
  requireNotPast(schedule, { nowMs, text: formatSchedule(schedule) });
}

function hasPassed({ definition: { schedule } }: Job, nowMs: number): boolean {
  return schedule.kind === "once" && schedule.atMs <= nowMs;
}

const called = ({ id, definition }: Job): string => `${JSON.stringify(definition.name)} (${id})`;

function over(job: Job, what: string): ServiceError {
  const { definition, state, repeatDone } = job;
  const isOnce = definition.schedule.kind === "once";
  const why =
    state === "missed"
      ? "its time passed while no scheduler was running"
      : `it ran ${isOnce || repeatDone === 1 ? "once" : `${repeatDone} times`}`;
  const hint = isOnce
    ? "Set a new schedule (edit), or resume it at a new time"
    : "Raise its repeat or set a new schedule (edit)";
  return new ServiceError("job_over", `${called(job)} is ${state}: ${why}. ${what}. ${hint}.`, {
    param: "job",
  });
}

export interface JobStart {
  /** Default: `default`, who owns what people do on the machine. */
  readonly owner?: string | undefined;
  readonly isPaused?: boolean | undefined;
  readonly pausedReason?: string | undefined;
  /** The history of an imported job. */
  readonly past?: JobPast | undefined;
}

export interface JobPast {
  /** 12 hex digits. */
  readonly id?: string | undefined;
  /** The phase of an interval: later instants keep it. */
  readonly nextRunAtMs?: number | undefined;
  readonly repeatDone?: number | undefined;
  readonly failureStreak?: number | undefined;
  readonly lastRunAtMs?: number | undefined;
  readonly lastStatus?: LastStatus | undefined;
  readonly createdAtMs?: number | undefined;
}

/** Returns the row of a new job. */
export function newJobRow(definition: JobDefinition, start: JobStart, nowMs: number): CronJobRow {
  const { isPaused = false, pausedReason, past = {} } = start;
  const id = past.id ?? crypto.randomUUID().replaceAll("-", "").slice(0, 12);
  const nextRunAtMs = past.nextRunAtMs ?? firstMs(definition, nowMs);
  const state = isPaused ? "paused" : "scheduled";
  const next = { state, nextRunAtMs, manualAtMs: undefined, retryAtMs: undefined } as const;
  return {
    id,
    owner: start.owner ?? "default",
    ...definitionColumns(definition),
    revision: 1,
    lock_version: 1,
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
