/** What becomes of a job when people act on it. Pure: each move is the columns that it changes. */
import type { CronJobRow } from "../../store/schema/tables.ts";
import { ServiceError } from "../../base/errors.ts";
import { dueAtMs, upcomingOf, type Upcoming } from "../schedule/upcoming.ts";
import { isOver, type Job, type JobDefinition, refusal, type LastStatus } from "./job.ts";
import { scanPrompt } from "./scan.ts";
import { nextRunMs } from "../schedule/instants.ts";
import { formatSchedule, type Schedule } from "../schedule/schedule.ts";
import { requireNotPast } from "../schedule/text.ts";

/** Columns of a job's row; undefined: it is as it is to be. */
export type Move = Partial<CronJobRow> | undefined;

const MAX_REASON_CHARACTERS = 500;
const MINUTE_MS = 60_000;
const MAX_AHEAD_MS = 10 * 366 * 86_400_000;

/** A job that is paused before it ever ran may be resumed like any other. */
export function pause(job: Job, { reason, nowMs }: { reason?: string | undefined; nowMs: number }): Move {
  if (isOver(job.state)) throw over(job, "There is nothing to pause");
  const isLast = job.state === "scheduled" && job.nextRunAtMs === undefined && job.retryAtMs === undefined;
  if (isLast && job.manualAtMs === undefined) {
    throw refusal("job", `${called(job)} is at its last run: there is nothing to pause. It ends by itself.`);
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
  /** When a run at once is asked for. */
  readonly manualAtMs?: number | undefined;
  readonly atMs?: number | undefined;
  readonly nowMs: number;
}

/**
 * Goes on with a paused job. A repeating one is due at its next instant; of `atMs`, at that time first. A job that was
 * missed, or ran once, comes back only with a new time.
 */
export function resume(job: Job, { manualAtMs: asked, atMs, nowMs }: Resumption): Move {
  const { definition, state } = job;
  if (atMs !== undefined) requireTime(atMs, nowMs);
  const isOnce = definition.schedule.kind === "once";
  if (isOver(state) && (!isOnce || (atMs ?? asked) === undefined)) throw over(job, "It cannot be resumed");
  const isPast = isOver(state) || hasPassed(job, nowMs);
  const time = atMs ?? (asked !== undefined && isPast ? asked : undefined);
  const unpaused = { paused_at: null, paused_reason: null };
  if (isOnce && time !== undefined) {
    const schedule = { kind: "once", atMs: time } as const;
    return { ...unpaused, ...reanchored({ ...job, state: "scheduled" }, { ...definition, schedule }, nowMs) };
  }
  if (state === "scheduled" && atMs === undefined && asked === undefined) return undefined;
  if (definition.repeat !== null && definition.repeat <= job.repeatDone)
    throw over(job, "It cannot be resumed");
  const manualAtMs = asked ?? job.manualAtMs;
  const nextRunAtMs = atMs ?? (state === "scheduled" ? job.nextRunAtMs : continuationMs(job, nowMs));
  const next = { state: nextRunAtMs === undefined ? "error" : "scheduled", nextRunAtMs, manualAtMs } as const;
  return {
    ...unpaused,
    ...unsaid(job),
    retries: 0,
    ...upcomingColumns(job, { ...next, retryAtMs: undefined }, nowMs),
  };
}

/** Asks for a run at once, beside the schedule. A paused job stays paused. */
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

/** Refuses to ask for a run of a job that is at work and must not overlap itself. */
export function requireFree(job: Job, isAtWork: boolean): void {
  if (!isAtWork || job.definition.overlap === "allow") return;
  const what = `${called(job)} is at work`;
  throw new ServiceError(
    "session_busy",
    `${what}. Wait for its end, or let its runs overlap (overlap: allow).`,
    { param: "job" },
  );
}

/** A new definition. What says when it runs begins anew, and brings back a job that was over. */
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

/** The same whatever order the fields are in. */
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
    ...unsaid(job),
    repeat_done: repeatDone,
    retries: 0,
    ...upcomingColumns({ ...job, definition }, next, nowMs),
  };
}

/** What was wrong with a schedule is not wrong with how it goes on. */
function unsaid({ state }: Job): Partial<CronJobRow> {
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
  const most = `repeat counts the runs there were: ${done} so far`;
  throw refusal("repeat", `${most}. Say more than that, or forever.`);
}

/** Where a new schedule begins. ServiceError for one that never comes. */
export function firstMs({ schedule, zone }: Pick<JobDefinition, "schedule" | "zone">, nowMs: number): number {
  requireNotPast(schedule, { nowMs, text: formatSchedule(schedule) });
  const first = schedule.kind === "once" ? schedule.atMs : nextRunMs(schedule, nowMs, zone);
  if (first !== undefined) return first;
  throw refusal("schedule", `${formatSchedule(schedule)} never comes. Name a schedule with a time to come.`);
}

/** Where a job goes on that was paused. An interval keeps its beat. */
function continuationMs({ definition, nextRunAtMs: stoodAtMs }: Job, nowMs: number): number | undefined {
  const { schedule } = definition;
  if (schedule.kind !== "interval" || stoodAtMs === undefined) return firstMs(definition, nowMs);
  if (stoodAtMs > nowMs) return stoodAtMs;
  const periodMs = schedule.minutes * MINUTE_MS;
  return stoodAtMs + (Math.floor((nowMs - stoodAtMs) / periodMs) + 1) * periodMs;
}

export function definitionColumns(
  definition: JobDefinition,
): Pick<CronJobRow, "name" | "name_key" | "definition"> {
  const { name } = definition;
  return { name, name_key: nameKey(name), definition: JSON.stringify(definition) };
}

/** Names are the same whatever case they are written in. */
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

/** As it is kept: one line, of bounded length. */
export function reasonOf(reason: string | undefined): string | undefined {
  const text = (reason ?? "")
    .toWellFormed()
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  return text === "" ? undefined : text.slice(0, MAX_REASON_CHARACTERS);
}

function requireTime(atMs: number, nowMs: number): void {
  const schedule: Schedule = { kind: "once", atMs };
  if (!Number.isSafeInteger(atMs) || atMs > nowMs + MAX_AHEAD_MS)
    throw refusal("at", "The time is not within the next ten years.");
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
      ? "its time passed unseen"
      : `it ran ${isOnce ? "once" : `${repeatDone} times`}, as it was to`;
  const advice = isOnce
    ? "give it a new schedule (edit), or resume it at a new time"
    : "raise its repeat or give it a new schedule (edit)";
  return refusal("job", `${called(job)} is ${state}: ${why}. ${what}; ${advice}.`);
}

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
