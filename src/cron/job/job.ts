/** A scheduled job: its definition and its state. Pure. */
import type { CronJobRow } from "../../store/schema/tables.ts";
import type { Schedule } from "../schedule/schedule.ts";
import { ServiceError } from "../../base/errors.ts";
import type { CronSettings } from "../settings.ts";

/** What people define. Kept as JSON; each change is a new revision of the row. */
export interface JobDefinition {
  readonly name: string;
  /** The prompt of the agent. Empty only when the job has skills or a script. */
  readonly prompt: string;
  readonly schedule: Schedule;
  /** IANA time zone of the schedule. */
  readonly zone: string;
  /** How many instants of the schedule run; null: no limit. */
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
 * scheduled: it will run, also after a failed run. completed: it has no runs left. missed: a one-shot whose time passed
 * while no scheduler was running. error: its schedule cannot be computed, which is retried every hour.
 */
export type JobState = (typeof JOB_STATES)[number];

export type LastStatus = "ok" | "error" | "delivery_failed" | "blocked_config" | "unknown" | "missed";

/** A job with its state. Times in milliseconds since the epoch. */
export interface Job {
  readonly id: string;
  readonly definition: JobDefinition;
  readonly revision: number;
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
    definition,
    revision: row.revision,
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

/** Returns the error for an invalid field; `param` is its name in snake case, as in tools and files. */
export function refusal(param: string, message: string): ServiceError {
  return new ServiceError("invalid_request", message, { param });
}

/** The toolset that creates and changes jobs. */
const SCHEDULING = "cron";
/** The toolset that asks people, who are not there to answer. */
const ASKING = "clarify";

type OfJob = Pick<JobDefinition, "toolsets">;
type Rules = Pick<CronSettings, "toolsets" | "allowAgentScheduling">;

/** Returns the toolsets of the job, or those configured for all jobs, or all; without questions, and scheduling only if allowed. */
export function jobToolsets(job: OfJob, rules: Rules, offered: readonly string[]): readonly string[] {
  const wanted = job.toolsets ?? rules.toolsets ?? offered;
  return wanted.filter((name) => name !== ASKING && (name !== SCHEDULING || rules.allowAgentScheduling));
}

/** Returns the names that are not offered. */
export function unknownToolsets(
  job: OfJob,
  { toolsets }: Pick<Rules, "toolsets">,
  offered: readonly string[],
): readonly string[] {
  return (job.toolsets ?? toolsets ?? []).filter((name) => !offered.includes(name));
}
