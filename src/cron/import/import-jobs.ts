/** Takes jobs over from the file of another service. */
import { sha256 } from "../../base/digest.ts";
import { ServiceError } from "../../base/errors.ts";
import { readJobFile, type FileJob, type JobFile } from "./job-file.ts";
import { defineJob, type JobContext } from "../job/input.ts";
import type { JobPast } from "../job/moves.ts";
import type { JobDefinition } from "../job/job.ts";
import type { Jobs } from "../job/jobs.ts";

/** What became of a job of the file, or would become of it. */
export interface ImportedJob {
  readonly id: string;
  readonly name: string;
  /** exists: a job with its id is here already, and stays as it is. over: it will not run again. */
  readonly outcome: "imported" | "exists" | "over" | "refused";
  /** Why, for what was not imported. */
  readonly reason?: string;
}

/** What a file came to. */
export interface JobImport {
  readonly jobs: readonly ImportedJob[];
  /** Of records that are no jobs, or were mended, a sentence each. */
  readonly problems: readonly string[];
}

export interface ImportPlace {
  /** Absent: there is no database yet, and so no job. */
  readonly jobs?: Jobs | undefined;
  readonly jobContext: JobContext;
  /** True: nothing is made. */
  readonly isDryRun?: boolean;
}

const MINUTE_MS = 60_000;

/**
 * Makes a job of each record of the file that can be one, under its id, so that importing again makes nothing twice. Paused
 * jobs stay paused, and intervals keep their beat. ServiceError `invalid_request` for what is no such file.
 */
export async function importJobs(text: string, place: ImportPlace): Promise<JobImport> {
  const { jobs, problems } = read(text);
  const identified = withIds(jobs);
  const ids = new Set(identified.map(({ id }) => id));
  const { jobContext } = place;
  const findJob: JobContext["findJob"] = async (ref) =>
    ids.has(ref) ? { id: ref } : jobContext.findJob(ref);
  const all: ImportedJob[] = [];
  for (const each of identified)
    all.push(await importOne(each, { ...place, jobContext: { ...jobContext, findJob } }));
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

/** One without an id gets the same one each time, so that it is known again. */
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
  { jobs, jobContext, isDryRun }: ImportPlace,
): Promise<ImportedJob> {
  const { input, isPaused, pausedReason, isOver, past } = job;
  const told = { id, name: input.name ?? input.prompt?.slice(0, 100) ?? id };
  if (await jobs?.has(id))
    return { ...told, outcome: "exists", reason: `a job with the id ${id} is there already` };
  const over = { ...told, outcome: "over", reason: "it will not run again" } as const;
  if (isOver) return over;
  try {
    const definition = await defineJob(input, jobContext);
    const { name, repeat } = definition;
    if (repeat !== null && (past.repeatDone ?? 0) >= repeat) return { ...over, name };
    const kept = { ...past, id, nextRunAtMs: nextBeatMs(definition, past, jobContext) };
    if (!isDryRun) await jobs?.create(definition, { isPaused, pausedReason, past: kept });
    return { ...told, name, outcome: "imported" };
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "invalid_request") throw error;
    return { ...told, outcome: "refused", reason: error.message };
  }
}

/** What lies behind is not made up for. All schedules but intervals say their next time themselves. */
function nextBeatMs(
  { schedule }: JobDefinition,
  { nextRunAtMs }: JobPast,
  { nowMs }: Pick<JobContext, "nowMs">,
): number | undefined {
  if (schedule.kind !== "interval" || nextRunAtMs === undefined) return undefined;
  const periodMs = schedule.minutes * MINUTE_MS;
  return nextRunAtMs + (Math.floor((nowMs - nextRunAtMs) / periodMs) + 1) * periodMs;
}
