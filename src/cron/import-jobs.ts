/** Takes jobs over from the file of another service. */
import { ServiceError, toServiceError } from "../base/errors.ts";
import type { FileJob } from "./job-file.ts";
import { readJobFile } from "./job-file.ts";
import { defineJob, type JobAround } from "./job-input.ts";
import type { JobPast, JobStart } from "./job-start.ts";
import type { Job, JobDefinition } from "./job.ts";
import type { Jobs } from "./jobs.ts";

export interface ImportedJobs {
  readonly jobs: readonly Job[];
  /** What was left out or mended, a sentence each. */
  readonly flaws: readonly string[];
}

const MINUTE_MS = 60_000;

/**
 * Makes a job of each record of the file that can be one; the rest is told. Ids stay, so that importing again makes nothing
 * twice. Paused jobs stay paused, those that are over are left out. ServiceError `invalid_request` for what is no such file.
 */
export async function importJobs(
  text: string,
  { jobs, around }: { readonly jobs: Jobs; readonly around: JobAround },
): Promise<ImportedJobs> {
  const file = read(text);
  const flaws = [...file.flaws];
  const made: Job[] = [];
  const known = await knownIds(file.jobs, jobs);
  for (const each of file.jobs) {
    const name = JSON.stringify(each.input.name ?? each.past.id ?? "a job");
    try {
      const done = await importJob(each, { jobs, around, known });
      if (typeof done === "string") flaws.push(`${name}: ${done}`);
      else made.push(done);
    } catch (error) {
      const { code, message } = toServiceError(error);
      if (code !== "invalid_request") throw error;
      flaws.push(`${name}: ${message}`);
    }
  }
  return { jobs: made, flaws };
}

function read(text: string): ReturnType<typeof readJobFile> {
  try {
    return readJobFile(text);
  } catch (error) {
    if (error instanceof RangeError)
      throw new ServiceError("invalid_request", error.message, { param: "file" });
    throw error;
  }
}

interface Ids {
  /** Of all jobs of the file, made yet or not. */
  readonly all: ReadonlySet<string>;
  /** Those that the store had before. */
  readonly there: ReadonlySet<string>;
}

async function knownIds(files: readonly FileJob[], jobs: Jobs): Promise<Ids> {
  const all = new Set(
    files.flatMap(({ past, isOver }) => (past.id === undefined || isOver ? [] : [past.id])),
  );
  const list = await jobs.list({ withOver: true });
  return { all, there: new Set([...list.jobs, ...list.broken].map(({ id }) => id)) };
}

async function importJob(
  { input, past, isOver, isPaused, pausedReason }: FileJob,
  place: { readonly jobs: Jobs; readonly around: JobAround; readonly known: Ids },
): Promise<Job | string> {
  const { jobs, around, known } = place;
  if (past.id !== undefined && known.there.has(past.id))
    return `a job with the id ${past.id} is there already.`;
  if (isOver) return "it ran as often as it was to, so it is left out.";
  const findJob: JobAround["findJob"] = async (ref) =>
    known.all.has(ref) ? { id: ref } : around.findJob(ref);
  const definition = await defineJob(input, { ...around, findJob });
  if (definition.repeat !== null && (past.repeatDone ?? 0) >= definition.repeat)
    return "it ran as often as it was to, so it is left out.";
  const start: JobStart = {
    isPaused,
    pausedReason,
    past: { ...past, nextRunAtMs: beatOf(definition, past, around) },
  };
  return jobs.create(definition, start);
}

/** An interval keeps the beat that it had; all others follow from their schedule. */
function beatOf(
  { schedule }: JobDefinition,
  { nextRunAtMs }: JobPast,
  { nowMs }: Pick<JobAround, "nowMs">,
): number | undefined {
  if (schedule.kind !== "interval" || nextRunAtMs === undefined) return undefined;
  const periodMs = schedule.minutes * MINUTE_MS;
  const periods = Math.floor((nowMs - nextRunAtMs) / periodMs) + 1;
  return nextRunAtMs + periods * periodMs;
}
