/** `agentd cron list`, `show` and `runs`, which only read. */
import { join } from "node:path";
import type { Job, Occurrence } from "../../client/http.ts";
import { withApi, type Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { currentContext } from "../kit/context.ts";
import { listTime, print, printJson, printTable, warn } from "../kit/output.ts";
import { readPages } from "../kit/pages.ts";
import {
  cursorOption,
  jsonOption,
  limitOption,
  optionalArgument,
  requiredArgument,
  switchOption,
  toLimit,
} from "../kit/options.ts";
import { findJob, listJobs } from "./jobs.ts";
import { readScheduler, warnOfScheduler } from "./status.ts";
import { brokenCells, JOB_HEAD, jobCells, jobText, NO_JOBS, runsTable } from "./text.ts";

const ACTIVE: readonly Job["state"][] = ["scheduled", "paused", "error"];

export const listCommand = defineApiCommand({
  meta: {
    name: "list",
    description: "List active and paused jobs. `agentd cron show` has the details of one",
  },
  args: {
    all: switchOption("Include completed and missed jobs"),
    json: jsonOption,
  },
  async run({ args }) {
    await withApi(async (api) => {
      const { data: jobs, broken } = await listJobs(api, args.all ? [] : ACTIVE);
      if (args.json) {
        const rows = broken.map((each) => ({ ...each, state: "broken" }));
        printJson({ jobs: [...jobs, ...rows], count: jobs.length + rows.length });
      } else if (jobs.length + broken.length > 0) {
        const nowMs = Date.now();
        const cells = jobs.map((job) => jobCells(job, (atMs) => listTime(atMs, nowMs)));
        printTable(JOB_HEAD, [...cells, ...broken.map(brokenCells)]);
        for (const { id } of broken)
          warn(`The job ${id} is unreadable and does not run. Remove it with \`agentd cron remove ${id}\`.`);
      } else print(NO_JOBS);
      const scheduler = await readScheduler(api);
      const { completed = 0, missed = 0 } = scheduler.jobs;
      const left = args.all ? 0 : completed + missed;
      if (left > 0)
        warn(`${left} more ${left === 1 ? "job has" : "jobs have"} ended. Pass --all to include them.`);
      if (jobs.some(({ state }) => state === "scheduled")) warnOfScheduler(scheduler);
    });
  },
});

export const showCommand = defineApiCommand({
  meta: { name: "show", description: "Show a job in detail" },
  args: {
    job: requiredArgument("Id or name of the job"),
    json: jsonOption,
  },
  async run({ args }) {
    await withApi(async (api) => {
      const { id, owner } = await findJob(api, args.job);
      const { data: job } = await api.client.getJob({ path: { job_id: id }, headers: api.ownedBy(owner) });
      if (args.json) printJson({ job });
      else print(jobText(job));
      if (job.state === "scheduled") warnOfScheduler(await readScheduler(api));
    });
  },
});

const MAX_LIMIT = 500;

export const runsCommand = defineApiCommand({
  meta: {
    name: "runs",
    description: "List the runs of a job, or of all jobs, newest first, including missed and skipped ones",
  },
  args: {
    job: optionalArgument("Id or name of the job. Default: all jobs"),
    limit: limitOption("Runs", { max: MAX_LIMIT, fallback: 20 }),
    cursor: cursorOption,
    json: jsonOption,
  },
  async run({ args }) {
    const limit = toLimit(args.limit, MAX_LIMIT);
    await withApi(async (api) => {
      const job = args.job === undefined ? undefined : await findJob(api, args.job);
      const { runs, next } = await readRuns(api, { job, limit, cursor: args.cursor });
      if (args.json) return printJson({ runs, next_cursor: next });
      if (runs.length > 0) {
        const zone = job?.time_zone ?? (await readScheduler(api)).time_zone;
        const { head, rows } = runsTable(runs, { zone, isOneJob: job !== undefined });
        printTable(head, rows);
        if (!api.target)
          warn(`Outputs are in ${join(currentContext().home, "cron", "output", job?.id ?? "<job id>")}.`);
      } else warn(job === undefined ? "No job has run yet." : "The job has not run yet.");
      if (next !== null) warn(`More runs follow: pass --cursor ${next}`);
    });
  },
});

async function readRuns(
  { client, anyOwner: headers }: Api,
  {
    job,
    limit,
    cursor,
  }: { readonly job?: Job; readonly limit: number; readonly cursor?: string | undefined },
): Promise<{ readonly runs: readonly Occurrence[]; readonly next: string | null }> {
  const ofJob = job ? { job_id: job.id } : {};
  const read = (page: object) => client.listOccurrences({ query: { ...ofJob, ...page }, headers });
  const { rows: runs, next } = await readPages(read, { limit, after: cursor });
  return { runs, next };
}
