/** Imports jobs from the file in which another service keeps them, `jobs.json`. */
import { sha256 } from "../../base/text.ts";
import { ServiceError } from "../../base/errors.ts";
import { defineJob, type JobContext } from "./input.ts";
import type { JobPast } from "./moves.ts";
import type { JobDefinition, LastStatus, JobInput } from "./job.ts";
import type { Jobs } from "./jobs.ts";
import { isRecord } from "../../base/data.ts";

/** The result for one job of the file. */
export interface ImportedJob {
  readonly id: string;
  readonly name: string;
  /** exists: a job with its id exists, and stays unchanged. over: it will not run again. */
  readonly outcome: "imported" | "exists" | "over" | "refused";
  /** Why it was not imported. */
  readonly reason?: string;
  /** Where an imported job sends its answers and its failures, and the chat that created it. */
  readonly deliver?: string;
  readonly failureDeliver?: string | undefined;
  readonly origin?: string | undefined;
}

/** The result of an import. */
export interface JobImport {
  readonly jobs: readonly ImportedJob[];
  /** Records that are not jobs, or were repaired, a sentence each. */
  readonly problems: readonly string[];
}

export interface ImportOptions {
  /** Absent: the database does not exist yet. */
  readonly jobs?: Jobs | undefined;
  readonly jobContext: JobContext;
  /** True: nothing is created. */
  readonly isDryRun?: boolean;
  /** Who imports, for the feed. */
  readonly actor?: string;
  /** Returns the input that its author may use. ServiceError `invalid_request`, `insufficient_scope`. Default: any. */
  readonly checkInput?: (input: JobInput) => Promise<JobInput>;
}

const MINUTE_MS = 60_000;

/**
 * Creates a job from each usable record of the file, under its id, so that a second import creates nothing twice. Paused jobs
 * stay paused, and intervals keep their phase. ServiceError `invalid_request` when the file is not a file of jobs.
 */
export async function importJobs(text: string, options: ImportOptions): Promise<JobImport> {
  const { jobs, problems } = read(text);
  const identified = withIds(jobs);
  const ids = new Set(identified.map(({ id }) => id));
  const { jobContext } = options;
  const findJob: JobContext["findJob"] = async (ref) =>
    ids.has(ref) ? { id: ref } : jobContext.findJob(ref);
  const all: ImportedJob[] = [];
  for (const each of identified)
    all.push(await importOne(each, { ...options, jobContext: { ...jobContext, findJob } }));
  return { jobs: all, problems };
}

function read(text: string): JobFile {
  try {
    return readJobFile(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const what = `The file cannot be imported. ${error.message}`;
    throw new ServiceError("invalid_request", what, { param: "file", cause: error });
  }
}

interface Identified {
  readonly id: string;
  readonly job: FileJob;
}

/** A record without an id gets the same id each time, so that a second import recognizes it. */
function withIds(jobs: readonly FileJob[]): readonly Identified[] {
  const taken = new Set(jobs.flatMap(({ past }) => past.id ?? []));
  return jobs.map((job) => {
    let { id } = job.past;
    for (let count = 0; id === undefined || (job.past.id === undefined && taken.has(id)); count++) {
      id = sha256(JSON.stringify([job.input, count])).slice(0, 12);
    }
    taken.add(id);
    return { id, job };
  });
}

async function importOne(
  { id, job }: Identified,
  { jobs, jobContext, isDryRun, actor, checkInput }: ImportOptions,
): Promise<ImportedJob> {
  const { input, isPaused, pausedReason, isOver, past } = job;
  const named = { id, name: input.name ?? input.prompt?.slice(0, 100) ?? id };
  if (await jobs?.has(id))
    return { ...named, outcome: "exists", reason: `a job with the id ${id} exists already` };
  const over = { ...named, outcome: "over", reason: "it will not run again" } as const;
  if (isOver) return over;
  try {
    const definition = await defineJob((await checkInput?.(input)) ?? input, jobContext);
    const { name, repeat } = definition;
    if (repeat !== null && (past.repeatDone ?? 0) >= repeat) return { ...over, name };
    const kept = { ...past, id, nextRunAtMs: nextInPhaseMs(definition, past, jobContext) };
    if (!isDryRun) await jobs?.create(definition, { isPaused, pausedReason, past: kept }, { actor });
    const { deliver, failureDeliver, origin } = definition;
    return { ...named, name, outcome: "imported", deliver, failureDeliver, origin };
  } catch (error) {
    if (!(error instanceof ServiceError) || !REFUSALS.has(error.code)) throw error;
    return { ...named, outcome: "refused", reason: error.message };
  }
}

/** What a record is refused for: the others are imported. */
const REFUSALS: ReadonlySet<string> = new Set(["invalid_request", "invalid_schedule", "insufficient_scope"]);

/** Returns the next instant of an interval; past instants are not caught up. Other schedules compute their own. */
function nextInPhaseMs(
  { schedule }: JobDefinition,
  { nextRunAtMs }: JobPast,
  { nowMs }: Pick<JobContext, "nowMs">,
): number | undefined {
  if (schedule.kind !== "interval" || nextRunAtMs === undefined) return undefined;
  const periodMs = schedule.minutes * MINUTE_MS;
  return nextRunAtMs + (Math.floor((nowMs - nextRunAtMs) / periodMs) + 1) * periodMs;
}

/** A job of the file. */
export interface FileJob {
  /** For `defineJob`, which validates it. */
  readonly input: JobInput;
  readonly isPaused: boolean;
  readonly pausedReason?: string | undefined;
  /** It will not run again: it is reported, and not imported. */
  readonly isOver: boolean;
  readonly past: JobPast;
}

export interface JobFile {
  readonly jobs: readonly FileJob[];
  /** What could not be used or was repaired, a sentence each. */
  readonly problems: readonly string[];
}

type Record = Readonly<{ [name: string]: unknown }>;

const JOB_ID = /^[0-9a-f]{12}$/;
/** More than any service has. */
const MAX_RECORDS = 100_000;
const MAX_PROBLEMS = 1_000;
const MAX_COUNT = 1_000_000_000;

/**
 * Returns the jobs of a file: an object with a list `jobs`, a list, or an object with a job under each id. A problem of one
 * job is reported and does not stop the others. RangeError when it is not a file of jobs.
 */
export function readJobFile(text: string): JobFile {
  const problems: string[] = [];
  const jobs: FileJob[] = [];
  const ids = new Set<string>();
  for (const { key, value } of recordsOf(parse(text))) {
    const name = nameOf(value, key);
    const report = (problem: string) =>
      void (problems.length < MAX_PROBLEMS && problems.push(`${name}: ${problem}`));
    const job = isRecord(value) ? readRecord(value, key, report) : undefined;
    if (!job) {
      if (!isRecord(value)) report("it is not an object, and is left out.");
      continue;
    }
    const { id } = job.past;
    if (id !== undefined && ids.has(id))
      report(`another job in the file has the id ${id}, so it gets a new one.`);
    const isDuplicate = id !== undefined && ids.has(id);
    if (id !== undefined) ids.add(id);
    jobs.push(isDuplicate ? { ...job, past: { ...job.past, id: undefined } } : job);
  }
  return { jobs, problems };
}

/** Returns the jobs of a file as it has them, each with its id. Throws as {@link readJobFile}. */
export function recordsIn(text: string): { readonly [field: string]: unknown }[] {
  return recordsOf(parse(text)).flatMap(({ key, value }) => {
    if (!isRecord(value)) return [];
    return [key === undefined ? value : { id: key, ...value }];
  });
}

function parse(text: string): unknown {
  const clean = text.replace(/^\ufeff/, "");
  try {
    return JSON.parse(clean);
  } catch {
    // Old versions did not escape control characters in texts.
  }
  try {
    return JSON.parse(escapeControls(clean));
  } catch (error) {
    throw new RangeError(`It is not JSON: ${error instanceof Error ? error.message : String(error)}.`);
  }
}

/** Escapes control characters inside texts, and replaces them by spaces elsewhere. */
function escapeControls(text: string): string {
  // oxlint-disable-next-line no-control-regex -- The function repairs them.
  return text.replace(/"[^"\\]*(?:\\[^][^"\\]*)*"|[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, (part) =>
    part.startsWith('"')
      ? // oxlint-disable-next-line no-control-regex -- As above.
        part.replace(/[\u0000-\u001f]/g, (character) => JSON.stringify(character).slice(1, -1))
      : " ",
  );
}

interface Entry {
  readonly key: string | undefined;
  readonly value: unknown;
}

function recordsOf(value: unknown): readonly Entry[] {
  const list = isRecord(value) && "jobs" in value ? value["jobs"] : value;
  if (Array.isArray(list)) return bounded(list.map((each: unknown) => ({ key: undefined, value: each })));
  const isKeyed = isRecord(list) && Object.values(list).every(isRecord);
  if (isKeyed) return bounded(Object.entries(list).map(([key, each]) => ({ key, value: each })));
  throw new RangeError('It is not a file of jobs: it contains neither a list nor { "jobs": [...] }.');
}

function bounded(entries: readonly Entry[]): readonly Entry[] {
  if (entries.length <= MAX_RECORDS) return entries;
  throw new RangeError(`It contains ${entries.length} jobs; the limit is ${MAX_RECORDS}.`);
}

function nameOf(value: unknown, key: string | undefined): string {
  const { name, id, job_id: jobId } = isRecord(value) ? value : {};
  const found = [name, id, jobId, key].find((each) => typeof each === "string" && each.trim() !== "");
  return found === undefined
    ? "A job without a name"
    : JSON.stringify(String(found).slice(0, 100).toWellFormed());
}

function readRecord(
  record: Record,
  key: string | undefined,
  report: (problem: string) => void,
): FileJob | undefined {
  const schedule = fileSchedule(record["schedule"]);
  if (typeof schedule === "object") {
    report(`${schedule.problem}, so it is left out.`);
    return undefined;
  }
  const id = [record["id"], record["job_id"], key].find(
    (each) => typeof each === "string" && JOB_ID.test(each),
  );
  if (id === undefined) report("it has no id of 12 hex digits, so it gets a new one.");
  const { state, enabled } = record;
  const isOver = state === "completed" || state === "missed";
  return {
    input: { schedule, ...inputOf(record), ...timingOf(record) },
    isPaused: !isOver && (state === "paused" || enabled === false || text(record["paused_at"]) !== undefined),
    pausedReason: text(record["paused_reason"]),
    isOver,
    past: { ...pastOf(record), id: id as string | undefined },
  };
}

function inputOf(record: Record): JobInput {
  return {
    prompt: text(record["prompt"])?.replace(/(?![\n\t])\p{Cc}/gu, ""),
    name: text(record["name"])
      ?.replace(/\p{Cc}+/gu, " ")
      .slice(0, 100),
    deliver: textOrTexts(record["deliver"]),
    failureDeliver: textOrTexts(record["failure_deliver"]),
    origin: originOf(record["origin"]),
    skills: texts(record["skills"]) ?? texts(record["skill"]),
    script: text(record["script"]),
    isScriptOnly: flag(record["no_agent"]),
    contextFrom: texts(record["context_from"]),
    workdir: text(record["workdir"]),
    model: modelOf(record),
    reasoningEffort: text(record["reasoning_effort"]),
    toolsets: texts(record["enabled_toolsets"]),
  };
}

function timingOf(record: Record): JobInput {
  const { repeat, schedule } = record;
  const times = isRecord(repeat) ? repeat["times"] : repeat;
  const isOnce = isRecord(schedule) && schedule["kind"] === "once";
  return {
    repeat: !isOnce && (typeof times === "number" || typeof times === "string") ? times : undefined,
    zone: text(record["timezone"]) ?? text(record["tz"]),
    catchUp: isOnce ? undefined : flag(record["catch_up"]),
    misfireGraceSeconds: isOnce ? undefined : whole(record["misfire_grace_seconds"]),
  };
}

function pastOf(record: Record): JobPast {
  const { repeat } = record;
  return {
    nextRunAtMs: timeOf(record["next_run_at"]),
    repeatDone: isRecord(repeat) ? countOf(repeat["completed"]) : undefined,
    failureStreak: countOf(record["failure_streak"]),
    lastRunAtMs: timeOf(record["last_run_at"]),
    lastStatus: LAST_STATUSES.find((status) => status === record["last_status"]),
    createdAtMs: timeOf(record["created_at"]),
  };
}

const LAST_STATUSES: readonly LastStatus[] = ["ok", "error", "delivery_failed", "blocked_config"];

/** Joins a provider and a model. */
function modelOf(record: Record): string | undefined {
  const model = text(record["model"]);
  const provider = text(record["provider"]);
  return model !== undefined && provider !== undefined ? `${provider}:${model}` : model;
}

function originOf(value: unknown): string | undefined {
  if (!isRecord(value)) return text(value);
  const parts = [value["platform"], value["chat_id"], value["thread_id"]].map(idText);
  if (parts[0] === undefined || parts[1] === undefined) return undefined;
  return parts.filter((part) => part !== undefined).join(":");
}

const idText = (value: unknown): string | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) ? String(value) : text(value);

function text(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? value : undefined;
}

function texts(value: unknown): readonly string[] | undefined {
  if (typeof value === "string") return value.trim() === "" ? undefined : [value];
  return Array.isArray(value) ? value.filter((each) => text(each) !== undefined) : undefined;
}

function textOrTexts(value: unknown): string | readonly string[] | undefined {
  const list = texts(value);
  return list?.length === 0 ? undefined : list;
}

function flag(value: unknown): boolean | undefined {
  return typeof value === "boolean" ? value : undefined;
}

/** Limits a count, which continues from this number. */
function countOf(value: unknown): number | undefined {
  const count = whole(value);
  return count === undefined ? undefined : Math.min(count, MAX_COUNT);
}

function whole(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Returns a schedule as text for `parseSchedule`, or why it is invalid, a clause. */
function fileSchedule(value: unknown): string | { readonly problem: string } {
  if (typeof value === "string" && value.trim() !== "") return value;
  if (!isRecord(value)) return { problem: "its schedule is not an object" };
  const { kind, minutes, expr, expression, run_at: runAt, display } = value;
  if (kind === "interval" && typeof minutes === "number") return `every ${minutes}m`;
  if (kind === "cron" && typeof (expr ?? expression) === "string") return String(expr ?? expression);
  if (kind === "once") {
    const atMs = timeOf(runAt);
    return atMs === undefined ? { problem: "its time is invalid" } : isoOf(runAt, atMs);
  }
  if (kind === undefined && typeof display === "string" && display.trim() !== "") return display;
  return { problem: "its schedule has an unknown kind" };
}

/** A time without an offset is local time of the job's zone, and stays as written. */
function isoOf(value: unknown, atMs: number): string {
  const isLocal = typeof value === "string" && !/(?:[Zz]|[+-]\d{2}:?\d{2})$/.test(value.trim());
  return isLocal ? value.trim() : new Date(atMs).toISOString();
}

const MAX_MS = Date.UTC(10_000, 0, 1);

/** Returns the milliseconds of ISO 8601 text or of a number of seconds; undefined for anything else. */
function timeOf(value: unknown): number | undefined {
  const ms = typeof value === "number" ? Math.round(value * 1000) : parseTime(value);
  return ms !== undefined && ms > 0 && ms < MAX_MS ? ms : undefined;
}

/** Not every engine parses more than three digits of a second. */
function parseTime(value: unknown): number | undefined {
  if (typeof value !== "string" || !/^\d{4}-\d{2}-\d{2}/.test(value.trim())) return undefined;
  const ms = Date.parse(
    value
      .trim()
      .replace(" ", "T")
      .replace(/(\.\d{3})\d+/, "$1"),
  );
  return Number.isNaN(ms) ? undefined : ms;
}
