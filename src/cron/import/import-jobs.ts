/** Imports jobs from the file of another service. */
import { sha256 } from "../../base/digest.ts";
import { ServiceError } from "../../base/errors.ts";
import { readJobFile, type FileJob, type JobFile } from "./job-file.ts";
import { defineJob, type JobContext } from "../job/input.ts";
import type { JobPast } from "../job/moves.ts";
import type { JobDefinition } from "../job/job.ts";
import type { Jobs } from "../job/jobs.ts";

/** The result for one job of the file. */
export interface ImportedJob {
  readonly id: string;
  readonly name: string;
  /** exists: a job with its id exists, and stays unchanged. over: it will not run again. */
  readonly outcome: "imported" | "exists" | "over" | "refused";
  /** Why it was not imported. */
  readonly reason?: string;
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
  { jobs, jobContext, isDryRun }: ImportOptions,
): Promise<ImportedJob> {
  const { input, isPaused, pausedReason, isOver, past } = job;
  const named = { id, name: input.name ?? input.prompt?.slice(0, 100) ?? id };
  if (await jobs?.has(id))
    return { ...named, outcome: "exists", reason: `a job with the id ${id} exists already` };
  const over = { ...named, outcome: "over", reason: "it will not run again" } as const;
  if (isOver) return over;
  try {
    const definition = await defineJob(input, jobContext);
    const { name, repeat } = definition;
    if (repeat !== null && (past.repeatDone ?? 0) >= repeat) return { ...over, name };
    const kept = { ...past, id, nextRunAtMs: nextInPhaseMs(definition, past, jobContext) };
    if (!isDryRun) await jobs?.create(definition, { isPaused, pausedReason, past: kept });
    return { ...named, name, outcome: "imported" };
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "invalid_request") throw error;
    return { ...named, outcome: "refused", reason: error.message };
  }
}

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
