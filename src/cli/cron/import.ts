/** `agentd cron import`: imports the jobs of another service from a file. */
import { readFile, stat } from "node:fs/promises";
import process from "node:process";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import {
  readJobFile,
  recordsIn,
  importJobs,
  type ImportedJob,
  type JobImport,
} from "../../cron/job/import.ts";
import {
  changeJobs,
  readJobs,
  readCronHome,
  warnOfTargets,
  type CronHome,
  type CronContext,
} from "./home.ts";
import { createJobContext, type JobContext } from "../../cron/job/input.ts";
import type { JobModels } from "../../cron/job/job.ts";
import { readCronStatus } from "../../cron/tick/status.ts";
import { warnOfScheduler } from "./status.ts";
import { masked, shown } from "./text.ts";
import { withApi } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { currentTarget } from "../kit/target.ts";
import { jsonOption, requiredArgument, switchOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

export const importCommand = defineApiCommand({
  meta: {
    name: "import",
    description:
      "Import the jobs of a jobs.json under their ids. Existing jobs stay unchanged, so a second import adds nothing. Exits with 1 if a job is rejected",
  },
  args: {
    file: requiredArgument("Path of the file"),
    "dry-run": switchOption("Only print what would happen to each job"),
    json: jsonOption,
  },
  async run({ args }) {
    const isDryRun = args["dry-run"] === true;
    const text = await readText(args.file);
    let done: JobImport = { jobs: [], problems: [] };
    const runImport = async (cronContext: CronHome & Partial<CronContext>) => {
      const jobContext = await contextOf(cronContext, text.includes('"model"') ? ANY_MODEL : {});
      done = await importJobs(text, { jobs: cronContext.jobs, jobContext, isDryRun });
      await warnOfTargets(cronContext, done.jobs);
    };
    const importAndWarn = async (cronContext: CronContext) => {
      await runImport(cronContext);
      if (done.jobs.some(({ outcome }) => outcome === "imported")) await warnIfNotTicking(cronContext);
    };
    if (await currentTarget()) done = await importToServer(text, isDryRun);
    else if (!isDryRun) await changeJobs("import", importAndWarn);
    else if (!(await readJobs(runImport))) await runImport(await readCronHome());
    report(done, { isDryRun, isJson: args.json === true });
    if (done.jobs.some(({ outcome }) => outcome === "refused")) process.exitCode = EXIT_FAILURE;
  },
});

/** The most jobs that the API takes at once. */
const MAX_JOBS = 1_000;

async function importToServer(text: string, isDryRun: boolean): Promise<JobImport> {
  const records = recordsIn(text);
  const [jobs, problems]: [ImportedJob[], string[]] = [[], []];
  for (let from = 0; from < records.length || from === 0; from += MAX_JOBS) {
    const body = { jobs: records.slice(from, from + MAX_JOBS) };
    const { data } = await withApi(({ client }) => client.importJobs({ body, query: { dry_run: isDryRun } }));
    jobs.push(...data.jobs.map(({ reason, ...job }) => ({ ...job, ...(reason === null ? {} : { reason }) })));
    problems.push(...data.problems);
  }
  return { jobs, problems };
}

async function warnIfNotTicking({ store, settings: { isEnabled: enabled } }: CronContext): Promise<void> {
  const { state } = await readCronStatus(store, { nowMs: Date.now() });
  warnOfScheduler({ state, enabled });
}

/** Returns what validates the input. Loads models only for a named one: that may query servers on this machine. */
async function contextOf(
  cronContext: CronHome & Partial<CronContext>,
  { model }: { readonly model?: string },
): Promise<JobContext> {
  const { config, settings, jobs, scriptsFolder } = cronContext;
  return createJobContext({
    nowMs: Date.now(),
    zone: settings.zone,
    models: model ? (await (await import("../model/deps.ts")).loadModels()).models : NO_MODELS,
    toolsets: config.agent.toolsets,
    findJob: async (ref) => (jobs ? jobs.find(ref) : refuse(ref)),
    scriptsFolder,
  });
}

function refuse(ref: string): never {
  throw new ServiceError("not_found", `Unknown job ${JSON.stringify(ref)}: no jobs exist yet.`);
}

const NO_MODELS: JobModels = { resolve: () => undefined, providers: [] };

const MAX_BYTES = 64 * 1024 * 1024;

/** Reads the file before anything is created. ServiceError for an invalid one. */
async function readText(path: string): Promise<string> {
  try {
    if ((await stat(path)).size > MAX_BYTES) throw new RangeError(`It exceeds ${MAX_BYTES} bytes.`);
    const text = await readFile(path, "utf8");
    readJobFile(text);
    return text;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ServiceError("invalid_request", `Cannot import ${JSON.stringify(path)}. ${why}`, {
      cause,
    });
  }
}

/** Loads the models for any model that a job names. */
const ANY_MODEL = { model: "any" };

function report(
  { jobs, problems }: JobImport,
  { isDryRun, isJson }: { readonly isDryRun: boolean; readonly isJson: boolean },
): void {
  if (isJson) {
    const entries = jobs.map(({ id, name, outcome, reason }) => ({
      id,
      name: redact(name),
      outcome,
      reason: reason === undefined ? null : redact(reason),
    }));
    printJson({ dry_run: isDryRun, jobs: entries, problems: problems.map(redact) });
    return;
  }
  for (const problem of problems) warn(`Warning: ${masked(problem)}`);
  for (const each of jobs) print(lineOf(each, isDryRun));
  const count = jobs.filter(({ outcome }) => outcome === "imported").length;
  print(
    `${isDryRun ? "Would import" : "Imported"} ${count} of ${jobs.length} ${jobs.length === 1 ? "job" : "jobs"}.`,
  );
}

function lineOf({ id, name, outcome, reason }: ImportedJob, isDryRun: boolean): string {
  const label = `${shown(name)} (${id})`;
  if (outcome === "imported") return `${isDryRun ? "Would import" : "Imported"} job: ${label}`;
  if (outcome === "exists") return `Unchanged: ${label} already exists`;
  return `Not imported: ${label}: ${masked(reason ?? "")}`;
}
