/** `agentd cron import`: takes over the jobs that another service of this kind keeps in a file. */
import { readFile, stat } from "node:fs/promises";
import process from "node:process";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import { readJobFile } from "../../cron/import/job-file.ts";
import { importJobs, type ImportedJob, type JobImport } from "../../cron/import/import-jobs.ts";
import { changeJobs, lookAtJobs, readCronHome, type CronHome, type CronContext } from "./home.ts";
import { warnOfStillness } from "./status.ts";
import { masked, shown } from "./text.ts";
import { contextOf } from "./options.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

export const importCommand = defineCommand({
  meta: {
    name: "import",
    description:
      "Take over the jobs of a jobs.json, under their ids: what is there already stays as it is, so a second import adds nothing. Exit code 1 when one could not be taken over",
  },
  args: {
    file: { type: "positional", required: true, description: "Path of the file" },
    "dry-run": { type: "boolean", description: "Only tell what would become of each job" },
    json: jsonOption,
  },
  async run({ args }) {
    const isDryRun = args["dry-run"] === true;
    const text = await readText(args.file);
    let done: JobImport = { jobs: [], problems: [] };
    const take = async (place: CronHome & Partial<CronContext>) => {
      const jobContext = await contextOf(place, text.includes('"model"') ? ANY_MODEL : {});
      done = await importJobs(text, { jobs: place.jobs, jobContext, isDryRun });
    };
    const takeAndWarn = async (place: CronContext) => {
      await take(place);
      if (done.jobs.some(({ outcome }) => outcome === "imported")) await warnOfStillness(place);
    };
    if (!isDryRun) await changeJobs("import", takeAndWarn);
    else if (!(await lookAtJobs(take))) await take(await readCronHome());
    report(done, { isDryRun, isJson: args.json === true });
    if (done.jobs.some(({ outcome }) => outcome === "refused")) process.exitCode = EXIT_FAILURE;
  },
});

const MAX_BYTES = 64 * 1024 * 1024;

/** ServiceError for what is no such file; before anything is made for it. */
async function readText(path: string): Promise<string> {
  try {
    if ((await stat(path)).size > MAX_BYTES) throw new RangeError(`It is larger than ${MAX_BYTES} bytes.`);
    const text = await readFile(path, "utf8");
    readJobFile(text);
    return text;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ServiceError("invalid_request", `${JSON.stringify(path)} cannot be imported. ${why}`, {
      cause,
    });
  }
}

/** Whatever model a job names is looked for. */
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
  const called = `${shown(name)} (${id})`;
  if (outcome === "imported") return `${isDryRun ? "Would import" : "Imported"} job: ${called}`;
  if (outcome === "exists") return `Left as it is: ${called} is here already`;
  return `Not imported: ${called}: ${masked(reason ?? "")}`;
}
