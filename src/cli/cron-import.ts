/** `agentd cron import`: takes over the jobs that another service of this kind keeps in a file. */
import { readFile, stat } from "node:fs/promises";
import process from "node:process";
import { defineCommand } from "citty";
import { sha256 } from "../base/digest.ts";
import { ServiceError } from "../base/errors.ts";
import { redact } from "../base/redact.ts";
import { readJobFile, type FileJob, type JobFile } from "../cron/job-file.ts";
import { defineJob, type JobAround } from "../cron/job-input.ts";
import type { JobPast } from "../cron/job-start.ts";
import type { JobDefinition } from "../cron/job.ts";
import { changeJobs, lookAtJobs, readCronHome, type CronHome, type CronPlace } from "./cron-place.ts";
import { warnOfStillness } from "./cron-status.ts";
import { masked, shown } from "./cron-text.ts";
import { aroundOf } from "./cron-wish.ts";
import { print, printJson, warn } from "./output.ts";
import { EXIT_FAILURE } from "./run.ts";

export const importCommand = defineCommand({
  meta: {
    name: "import",
    description:
      "Take over the jobs of a jobs.json, under their ids: what is there already stays as it is, so a second import adds nothing. Exit code 1 when one could not be taken over",
  },
  args: {
    file: { type: "positional", required: true, description: "Path of the file" },
    "dry-run": { type: "boolean", description: "Only tell what would become of each job" },
    json: { type: "boolean", description: "Print JSON" },
  },
  async run({ args }) {
    const isDry = args["dry-run"] === true;
    const file = await openJobFile(args.file);
    let taken: readonly Taken[] = [];
    const take = async (place: CronPlace) => {
      taken = await takeAll(file, place, isDry);
      if (!isDry && taken.some(({ outcome }) => outcome === "imported")) await warnOfStillness(place);
    };
    if (!isDry) await changeJobs("import", take);
    else if (!(await lookAtJobs(take))) taken = await takeAll(file, await readCronHome(), isDry);
    report(file, taken, { isDry, isJson: args.json === true });
    if (taken.some(({ outcome }) => outcome === "refused")) process.exitCode = EXIT_FAILURE;
  },
});

const MAX_BYTES = 64 * 1024 * 1024;

/** ServiceError for what is no such file. */
async function openJobFile(path: string): Promise<JobFile> {
  try {
    if ((await stat(path)).size > MAX_BYTES) throw new RangeError(`It is larger than ${MAX_BYTES} bytes.`);
    return readJobFile(await readFile(path, "utf8"));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ServiceError("invalid_request", `${JSON.stringify(path)} cannot be imported. ${why}`, {
      cause,
    });
  }
}

interface Taken {
  readonly id: string;
  readonly name: string;
  readonly outcome: "imported" | "exists" | "over" | "refused";
  readonly reason?: string;
}

/** Without a database there is no `store`, and nothing that exists. */
async function takeAll(
  { jobs }: JobFile,
  place: CronHome & Partial<CronPlace>,
  isDry: boolean,
): Promise<readonly Taken[]> {
  const identified = withIds(jobs);
  const ids = new Set(identified.map(({ id }) => id));
  const model = jobs.find(({ input }) => input.model !== undefined)?.input.model;
  const around = await aroundOf(place, { model });
  const findJob: JobAround["findJob"] = async (ref) => (ids.has(ref) ? { id: ref } : around.findJob(ref));
  const all: Taken[] = [];
  for (const each of identified)
    all.push(await takeOne(each, place, { around: { ...around, findJob }, isDry }));
  return all;
}

interface Identified {
  readonly id: string;
  readonly job: FileJob;
}

/** One without an id gets the same one each time, so that it is known again. */
function withIds(jobs: readonly FileJob[]): readonly Identified[] {
  const given = new Set<string>();
  return jobs.map((job) => {
    let id = job.past.id;
    for (let count = 0; id === undefined || given.has(id); count++) {
      id = sha256(JSON.stringify([job.input, count])).slice(0, 12);
    }
    given.add(id);
    return { id, job };
  });
}

async function takeOne(
  { id, job }: Identified,
  { store, jobs }: Partial<CronPlace>,
  { around, isDry }: { readonly around: JobAround; readonly isDry: boolean },
): Promise<Taken> {
  const { input, isPaused, pausedReason, isOver, past } = job;
  const told = { id, name: input.name ?? input.prompt ?? id };
  if (await store?.find("cron_jobs", { id })) return { ...told, outcome: "exists" };
  if (isOver) return { ...told, outcome: "over", reason: "it will not run again" };
  try {
    const definition = await defineJob(input, around);
    const kept = { ...past, id, nextRunAtMs: nextBeatMs(definition, past, around.nowMs) };
    if (!isDry) await jobs?.create(definition, { isPaused, pausedReason, past: kept });
    return { ...told, name: definition.name, outcome: "imported" };
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return { ...told, outcome: "refused", reason: error.message };
  }
}

/** An interval goes on in its beat; what lies behind is not made up for. */
function nextBeatMs({ schedule }: JobDefinition, past: JobPast, nowMs: number): number | undefined {
  const { nextRunAtMs } = past;
  if (schedule.kind !== "interval" || nextRunAtMs === undefined) return undefined;
  const periodMs = schedule.minutes * 60_000;
  if (nextRunAtMs > nowMs + periodMs) return undefined;
  return nextRunAtMs + Math.max(0, Math.floor((nowMs - nextRunAtMs) / periodMs) + 1) * periodMs;
}

function report(
  { flaws }: JobFile,
  taken: readonly Taken[],
  { isDry, isJson }: { readonly isDry: boolean; readonly isJson: boolean },
): void {
  if (isJson) {
    const jobs = taken.map(({ id, name, outcome, reason }) => ({
      id,
      name: redact(name),
      outcome,
      reason: reason === undefined ? null : redact(reason),
    }));
    printJson({ dry_run: isDry, jobs, flaws: flaws.map(redact) });
    return;
  }
  for (const flaw of flaws) warn(`Warning: ${masked(flaw)}`);
  for (const each of taken) print(lineOf(each, isDry));
  const count = taken.filter(({ outcome }) => outcome === "imported").length;
  print(
    `${isDry ? "Would import" : "Imported"} ${count} of ${taken.length} ${taken.length === 1 ? "job" : "jobs"}.`,
  );
}

function lineOf({ id, name, outcome, reason }: Taken, isDry: boolean): string {
  const called = `${shown(name)} (${id})`;
  if (outcome === "imported") return `${isDry ? "Would import" : "Imported"} job: ${called}`;
  if (outcome === "exists") return `Left as it is: ${called} is here already`;
  return `Not imported: ${called}: ${masked(reason ?? "")}`;
}
