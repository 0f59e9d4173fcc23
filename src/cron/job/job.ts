/** A scheduled job: its schedule, its definition, its state and its next instants. Pure; it loads nothing that computes instants. */
import type { CronJobRow, OccurrenceRow } from "../../store/schema/tables.ts";
import type { Tx } from "../../store/store.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ModelCatalog } from "../../agent/model.ts";
import type { CronSettings, OfferedToolsets } from "../deps.ts";
import { sha256 } from "../../base/text.ts";
import { LruMap } from "../../base/data.ts";
import { zoneProblem } from "../../base/suggest.ts";

export type Schedule =
  /** Once, at an instant, Unix milliseconds. */
  | { readonly kind: "once"; readonly atMs: number }
  /** Repeatedly, in elapsed time: clock changes do not matter. */
  | { readonly kind: "interval"; readonly minutes: number }
  /** By local time: five fields (minute, hour, day of month, month, day of week), or `@daily` and the like. */
  | { readonly kind: "cron"; readonly expression: string };

/** What people define. Kept as JSON; each change is a new revision of the row. */
export interface JobDefinition {
  readonly name: string;
  /** The prompt of the agent. Empty only when the job has skills or a script. */
  readonly prompt: string;
  readonly schedule: Schedule;
  /** IANA time zone of the schedule. */
  readonly zone: string;
  /** Number of instants of the schedule that run; null: no limit. */
  readonly repeat: number | null;
  /** Names of skills, in the order in which they are loaded. */
  readonly skills: readonly string[];
  /** A file in `<home>/scripts`. */
  readonly script?: string;
  /** True: the output of the script is the message, and no agent runs. */
  readonly isScriptOnly: boolean;
  /** Ids of jobs whose newest outputs the agent gets. */
  readonly contextFrom: readonly string[];
  /** Addresses for `resolveAddresses` of src/deliver/address.ts. */
  readonly deliver: string;
  /** Addresses for failures instead of `deliver`. */
  readonly failureDeliver?: string;
  /** Address of the chat in which the job was created. */
  readonly origin?: string;
  /** Absolute working directory. */
  readonly workdir?: string;
  /** `model` or `provider:model`. */
  readonly model?: string;
  readonly reasoningEffort?: string;
  readonly toolsets?: readonly string[];
  /** In place of the configured limits. */
  readonly tokenBudget?: number;
  readonly inactivitySeconds?: number;
  /** Whether a missed instant is caught up; absent: as configured. Repeating jobs only. */
  readonly catchUp?: boolean;
  /** How late a run may start; absent: half the period, from 2 minutes to 2 hours. Repeating jobs only. */
  readonly misfireGraceSeconds?: number;
  /** What happens at an instant while the previous run is still running. */
  readonly overlap: "skip" | "allow";
  /** Runs start up to this much after their instants, each instant with its own fixed delay. */
  readonly jitterSeconds: number;
}

export const JOB_STATES = ["scheduled", "paused", "completed", "missed", "error"] as const;

/**
 * scheduled: it will run, even after a failed run. completed: it has no runs left. missed: a one-shot whose time passed
 * while no scheduler was running. error: its schedule cannot be computed, which is retried every hour.
 */
export type JobState = (typeof JOB_STATES)[number];

export type LastStatus = "ok" | "error" | "delivery_failed" | "blocked_config" | "unknown" | "missed";

/**
 * claimed: a process has claimed it, and nothing has started. running: its script or its run has started. missed: no
 * scheduler ran at its time; one row may cover several instants. skipped: the previous run was still running. unknown: its
 * process is gone; it is never run again.
 */
const OCCURRENCE_STATUSES = ["claimed", "running", "ok", "failed", "missed", "skipped", "unknown"] as const;
export type OccurrenceStatus = (typeof OCCURRENCE_STATUSES)[number];

export type Cause = "schedule" | "manual" | "retry";
/** late: started more than 5 minutes after its instant. catch_up: it replaces instants that were missed. */
export type Timing = "on_time" | "late" | "catch_up";

/** none: only the output file is written. silent: the answer asked not to be delivered. */
export type DeliveryStatus = "pending" | "delivered" | "failed" | "unknown" | "silent" | "none";

/** A job with its state. Times in milliseconds since the epoch. */
export interface Job {
  readonly id: string;
  readonly owner: string;
  readonly definition: JobDefinition;
  /** Grows when people change the job. */
  readonly revision: number;
  /** Grows with every change that affects later runs. */
  readonly lockVersion: number;
  readonly state: JobState;
  /** When the scheduler looks at it next: {@link nextRunAtMs} with the jitter, or earlier for a manual run or a retry. */
  readonly dueAtMs: number | undefined;
  readonly nextRunAtMs: number | undefined;
  readonly manualAtMs: number | undefined;
  readonly retryAtMs: number | undefined;
  readonly retries: number;
  readonly repeatDone: number;
  readonly failureStreak: number;
  readonly lastRunAtMs: number | undefined;
  readonly lastStatus: LastStatus | undefined;
  readonly lastError: string | undefined;
  readonly lastDeliveryError: string | undefined;
  readonly pausedAtMs: number | undefined;
  readonly pausedReason: string | undefined;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Whether the job will not run again unless it is edited. */
export function isOver(state: JobState): boolean {
  return state === "completed" || state === "missed";
}

/** Undefined: the row is broken, and none of it is reliable. */
export function toJob(row: CronJobRow): Job | undefined {
  const definition = readDefinition(row.definition);
  if (!definition || !isState(row.state)) return undefined;
  return {
    id: row.id,
    owner: row.owner,
    definition,
    revision: row.revision,
    lockVersion: row.lock_version,
    state: row.state,
    dueAtMs: row.due_at ?? undefined,
    nextRunAtMs: row.next_run_at ?? undefined,
    manualAtMs: row.manual_at ?? undefined,
    retryAtMs: row.retry_at ?? undefined,
    retries: row.retries,
    repeatDone: row.repeat_done,
    failureStreak: row.failure_streak,
    lastRunAtMs: row.last_run_at ?? undefined,
    lastStatus: (row.last_status ?? undefined) as LastStatus | undefined,
    lastError: row.last_error ?? undefined,
    lastDeliveryError: row.last_delivery_error ?? undefined,
    pausedAtMs: row.paused_at ?? undefined,
    pausedReason: row.paused_reason ?? undefined,
    createdAtMs: row.created_at,
    updatedAtMs: row.updated_at,
  };
}

function isState(text: string): text is JobState {
  return (JOB_STATES as readonly string[]).includes(text);
}

/** Parses a definition and fills in defaults for missing fields; undefined when it is invalid. */
export function readDefinition(text: string): JobDefinition | undefined {
  try {
    const value = { ...DEFAULTS, ...(JSON.parse(text) as Partial<JobDefinition>) };
    return isDefinition(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const DEFAULTS = {
  prompt: "",
  repeat: null,
  skills: [],
  isScriptOnly: false,
  contextFrom: [],
  deliver: "local",
  overlap: "skip",
  jitterSeconds: 0,
} as const;

function isDefinition(value: Partial<JobDefinition>): value is JobDefinition {
  const { repeat, overlap, schedule } = value;
  const isEach = (names: readonly (keyof JobDefinition)[], is: (field: unknown) => boolean) =>
    names.every((name) => is(value[name]));
  return (
    isEach(["name", "prompt", "zone", "deliver"], isText) &&
    isEach(["script", "failureDeliver", "origin", "workdir", "model", "reasoningEffort"], orAbsent(isText)) &&
    isEach(["skills", "contextFrom"], isTexts) &&
    orAbsent(isTexts)(value.toolsets) &&
    isCount(value.jitterSeconds) &&
    isEach(["tokenBudget", "inactivitySeconds", "misfireGraceSeconds"], orAbsent(isCount)) &&
    isEach(
      ["isScriptOnly", "catchUp"],
      orAbsent((field) => typeof field === "boolean"),
    ) &&
    (repeat === null || isCount(repeat)) &&
    (overlap === "skip" || overlap === "allow") &&
    isSchedule(schedule)
  );
}

const isText = (field: unknown): boolean => typeof field === "string";
const isTexts = (field: unknown): boolean => Array.isArray(field) && field.every(isText);
const isCount = (field: unknown): boolean => typeof field === "number" && field >= 0;
const orAbsent =
  (is: (field: unknown) => boolean) =>
  (field: unknown): boolean =>
    field === undefined || is(field);

function isSchedule(value: unknown): value is Schedule {
  const { kind, atMs, minutes, expression } = Object(value) as Readonly<Record<string, unknown>>;
  if (kind === "once") return typeof atMs === "number";
  if (kind === "interval") return typeof minutes === "number" && minutes >= 1;
  return kind === "cron" && typeof expression === "string";
}

/** Input from a command line, a tool or a file. Undefined: not given. */
export interface JobInput {
  /** For `parseSchedule` of src/cron/schedule/text.ts. */
  readonly schedule?: string | undefined;
  readonly prompt?: string | undefined;
  readonly name?: string | undefined;
  readonly deliver?: string | readonly string[] | undefined;
  /** How often the job runs: a number, or `once`, `forever`, `infinite` or `none`. */
  readonly repeat?: number | string | undefined;
  readonly skills?: readonly string[] | undefined;
  readonly script?: string | undefined;
  readonly isScriptOnly?: boolean | undefined;
  /** Ids or names of jobs. */
  readonly contextFrom?: readonly string[] | undefined;
  readonly failureDeliver?: string | readonly string[] | undefined;
  /** Address of the chat in which the job is created. */
  readonly origin?: string | undefined;
  readonly workdir?: string | undefined;
  readonly model?: string | undefined;
  readonly reasoningEffort?: string | undefined;
  readonly toolsets?: readonly string[] | undefined;
  readonly tokenBudget?: number | undefined;
  /** 0: no limit. */
  readonly inactivitySeconds?: number | undefined;
  readonly zone?: string | undefined;
  readonly catchUp?: boolean | undefined;
  readonly misfireGraceSeconds?: number | undefined;
  readonly overlap?: string | undefined;
  readonly jitterSeconds?: number | undefined;
}

/** Undefined leaves a field unchanged; null, or an empty text, resets it to its default. */
export type JobChange = { readonly [Field in keyof JobInput]?: JobInput[Field] | null } & {
  readonly addSkills?: readonly string[] | undefined;
  readonly removeSkills?: readonly string[] | undefined;
  readonly clearSkills?: boolean | undefined;
};

export type JobModels = Pick<ModelCatalog, "resolve" | "providers">;

/** Returns the error for an invalid field; `param` is its name in snake case, as in tools and files. */
export function refusal(param: string, message: string): ServiceError {
  return new ServiceError("invalid_request", message, { param });
}

/** The toolset that creates and changes jobs. */
const SCHEDULING = "cron";
/** The toolset that asks people, of whom none is present to answer. */
const ASKING = "clarify";

type OfJob = Pick<JobDefinition, "toolsets">;
type Rules = Pick<CronSettings, "toolsets" | "allowAgentScheduling">;

/** Returns the names of all toolsets. */
export function toolsetNames({ configured, tools }: OfferedToolsets): readonly string[] {
  return [...new Set([...configured, ...tools().map(({ toolset }) => toolset)])];
}

/** Returns the toolsets of the job, or those configured for all jobs, or all; without questions, and scheduling only if allowed. */
export function jobToolsets(job: OfJob, rules: Rules, offered: readonly string[]): readonly string[] {
  const wanted = job.toolsets ?? rules.toolsets ?? offered;
  return wanted.filter((name) => name !== ASKING && (name !== SCHEDULING || rules.allowAgentScheduling));
}

/** A one-shot may be this late, even at its creation: writing its text takes time. */
export const ONCE_GRACE_MS = 120_000;

/** Throws when the time of a one-shot has passed. */
export function requireNotPast(
  schedule: Schedule,
  { nowMs, text }: { readonly nowMs: number; readonly text: string },
): void {
  if (schedule.kind !== "once" || schedule.atMs >= nowMs - ONCE_GRACE_MS) return;
  throw scheduleError(
    `${text} is more than ${ONCE_GRACE_MS / 1000} s in the past and cannot be scheduled. Use a future time.`,
  );
}

export function scheduleError(message: string): ServiceError {
  return new ServiceError("invalid_schedule", message, { param: "schedule" });
}

/** Returns the schedule as `list` shows it, in a form that can be typed again. */
export function formatSchedule(schedule: Schedule): string {
  switch (schedule.kind) {
    case "once":
      return new Date(schedule.atMs).toISOString().replace(".000Z", "Z");
    case "interval": {
      const { minutes } = schedule;
      const unit = UNITS.find((each) => minutes % each.minutes === 0);
      return unit ? `every ${minutes / unit.minutes}${unit.letter}` : `every ${minutes}m`;
    }
    case "cron":
      return schedule.expression;
  }
}

const UNITS = [
  { minutes: 1440, letter: "d" },
  { minutes: 60, letter: "h" },
] as const;

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

/** Returns `2026-01-05 13:00:00 +01:00 (Europe/Berlin)`. The offset distinguishes the two hours when clocks go back. */
export function zonedTime(atMs: number, zone: string): string {
  if (Math.abs(atMs) > MAX_TIME_MS) return "(not a valid time)";
  const at = clockTime(atMs, zone);
  return `${at.time} ${at.offset} (${at.zone})`;
}

/** Returns `YYYY-MM-DD HH:MM:SS` in the local time of `zone`. */
export function wallTime(atMs: number, zone: string): string {
  return clockTime(atMs, zone).time;
}

/** Returns `2026-01-05T13:00:00+01:00`, the local time of `zone` in RFC 3339. */
export function wallTimeWithOffset(atMs: number, zone: string): string {
  const { time, offset } = clockTime(atMs, zone);
  return `${time.replace(" ", "T")}${offset}`;
}

const MAX_TIME_MS = 8.64e15;

interface Clock {
  /** UTC when this runtime does not know the zone. */
  readonly zone: string;
  readonly format: Intl.DateTimeFormat;
}

function clockTime(atMs: number, name: string): Pick<Clock, "zone"> & Record<"time" | "offset", string> {
  const { zone, format } = clockOf(name);
  const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
  const of = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? "";
  const date = `${of("year")}-${of("month")}-${of("day")}`;
  const time = `${date} ${of("hour")}:${of("minute")}:${of("second")}`;
  return { zone, time, offset: of("timeZoneName").replace(/^(GMT|UTC)/, "") || "+00:00" };
}

function clockOf(name: string): Clock {
  const known = clocks.get(name);
  if (known) return known;
  const zone = zoneProblem(name) === undefined ? name : "UTC";
  const format = new Intl.DateTimeFormat("en-CA", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "longOffset",
  });
  const made = { zone, format };
  clocks.set(name, made);
  return made;
}

/** Creating a format costs a hundred times as much as using it, and zones are few. */
const clocks = new LruMap<string, Clock>(100);

// What the change feed reports of jobs and their occurrences

type JobFields = Pick<CronJobRow, "id" | "owner" | "state" | "revision">;

/** Records a change of a job. `actor` is who made it; null: the scheduler. */
export function recordJob(
  tx: Tx,
  change: "created" | "updated" | "deleted",
  { id: ref, owner, state, revision }: JobFields,
  actor: string | null = null,
): void {
  tx.record({ type: `job.${change}`, ref, owner, data: { state, revision }, actor });
}

/** Records a new occurrence, or one whose status or delivery status changed. */
export function recordOccurrence(tx: Tx, change: "created" | "updated", row: OccurrenceRow): void {
  const data = {
    job_id: row.job_id,
    scheduled_at: row.scheduled_at / 1000,
    status: row.status,
    delivery_status: row.delivery_status,
  };
  tx.record({ type: `occurrence.${change}`, ref: row.id, owner: row.owner, data, actor: null });
}

/** Changes the status of the occurrence that equals `where`, and records that. Resolves to false if none matches. */
export async function changeOccurrence(
  tx: Tx,
  where: Partial<OccurrenceRow> & Pick<OccurrenceRow, "id">,
  columns: Partial<OccurrenceRow>,
): Promise<boolean> {
  if ((await tx.update("occurrences", where, columns)) === 0) return false;
  const row = await tx.find("occurrences", { id: where.id });
  if (row) recordOccurrence(tx, "updated", row);
  return true;
}
