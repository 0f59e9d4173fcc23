/** A job of the clock, as people define it and as it stands. Pure. */
import type { CronJobRow } from "../../store/schema/tables.ts";
import type { Schedule } from "../schedule/schedule.ts";
import { ServiceError } from "../../base/errors.ts";
import type { CronSettings } from "../settings.ts";

/** What people say a job is. Kept as JSON; each change is a new revision of the row. */
export interface JobDefinition {
  readonly name: string;
  /** What the agent is asked. Empty only where skills or a script say it. */
  readonly prompt: string;
  readonly schedule: Schedule;
  /** IANA zone in which the schedule is read and shown. */
  readonly zone: string;
  /** How many instants of the schedule run; null: without end. */
  readonly repeat: number | null;
  /** Names of skills, in their order. */
  readonly skills: readonly string[];
  /** A file below `<home>/scripts`. */
  readonly script?: string;
  /** True: what the script prints is the message, and no agent runs. */
  readonly isScriptOnly: boolean;
  /** Jobs, by id, whose newest outputs the agent is shown. */
  readonly contextFrom: readonly string[];
  /** Addresses as `resolveAddresses` of src/deliver/address.ts reads them. */
  readonly deliver: string;
  /** Where failures are told instead. */
  readonly failureDeliver?: string;
  /** Address of the chat in which the job was made. */
  readonly origin?: string;
  /** Absolute folder in which the tools work. */
  readonly workdir?: string;
  /** `model` or `provider:model`. */
  readonly model?: string;
  readonly reasoningEffort?: string;
  readonly toolsets?: readonly string[];
  /** Instead of the configured figures. */
  readonly tokenBudget?: number;
  readonly inactivitySeconds?: number;
  /** Whether a missed instant is made up for; absent: as it is configured. Of repeating jobs only. */
  readonly catchUp?: boolean;
  /** How late a run may begin; absent: half of the period, from 2 minutes to 2 hours. Of repeating jobs only. */
  readonly misfireGraceSeconds?: number;
  /** What becomes of an instant at which the run before is still at work. */
  readonly overlap: "skip" | "allow";
  /** Runs begin up to so much later than their instants, each instant by its own fixed time. */
  readonly jitterSeconds: number;
}

export const JOB_STATES = ["scheduled", "paused", "completed", "missed", "error"] as const;

/**
 * scheduled: it will run; also when its last run failed. completed: it ran as often as it was to. missed: a one-shot whose
 * time passed unseen. error: its schedule cannot be computed; that is tried again every hour.
 */
export type JobState = (typeof JOB_STATES)[number];

export type LastStatus = "ok" | "error" | "delivery_failed" | "blocked_config" | "unknown" | "missed";

/** A job as it stands. Times in milliseconds since the epoch. */
export interface Job {
  readonly id: string;
  readonly definition: JobDefinition;
  readonly revision: number;
  readonly state: JobState;
  /** When it is looked at next: {@link nextRunAtMs} with the jitter, or earlier for a run by hand or another try. */
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

/** Jobs that will not run again unless they are edited. */
export function isOver(state: JobState): boolean {
  return state === "completed" || state === "missed";
}

/** Undefined: the row is broken, and nothing of it can be trusted. */
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

/** What is missing in rows of earlier versions has its default; undefined when the rest does not make a job. */
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

/** Of a field that was said wrongly; `param` is its name in snake case, as tools and files write it. */
export function refusal(param: string, message: string): ServiceError {
  return new ServiceError("invalid_request", message, { param });
}

/** The tools that make and change jobs. */
const SCHEDULING = "cron";
/** Nobody is there to answer. */
const ASKING = "clarify";

type OfJob = Pick<JobDefinition, "toolsets">;
type Rules = Pick<CronSettings, "toolsets" | "allowAgentScheduling">;

/** Those of the job, else those of all jobs, else all; never those that ask, and no scheduling unless it is allowed. */
export function jobToolsets(job: OfJob, rules: Rules, offered: readonly string[]): readonly string[] {
  const wanted = job.toolsets ?? rules.toolsets ?? offered;
  return wanted.filter((name) => name !== ASKING && (name !== SCHEDULING || rules.allowAgentScheduling));
}

/** Names that stand for nothing here. */
export function unknownToolsets(
  job: OfJob,
  { toolsets }: Pick<Rules, "toolsets">,
  offered: readonly string[],
): readonly string[] {
  return (job.toolsets ?? toolsets ?? []).filter((name) => !offered.includes(name));
}
