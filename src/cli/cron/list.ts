/** `agentd cron list`, `show` and `runs`, which only read. */
import { defineCommand } from "citty";
import { jobEntry, occurrenceEntry } from "../../cron/job/format.ts";
import { isOver } from "../../cron/job/job.ts";
import { redact } from "../../base/observe.ts";
import { readJob, readJobs } from "./home.ts";
import { warnIfNotTicking } from "./status.ts";
import { brokenCells, JOB_HEAD, jobCells, jobText, NO_JOBS, runsTable } from "./text.ts";
import { listTime, print, printJson, printTable, warn } from "../kit/output.ts";
import {
  cursorOption,
  jsonOption,
  limitOption,
  optionalArgument,
  requiredArgument,
  switchOption,
  toLimit,
} from "../kit/options.ts";
import { join } from "node:path";

export const listCommand = defineCommand({
  meta: {
    name: "list",
    description: "List active and paused jobs. `agentd cron show` has the details of one",
  },
  args: {
    all: switchOption("Include completed and missed jobs"),
    json: jsonOption,
  },
  async run({ args }) {
    const isThere = await readJobs(async (cronContext) => {
      const { jobs: all, broken } = await cronContext.jobs.list({ withOver: true });
      const jobs = args.all ? all : all.filter(({ state }) => !isOver(state));
      if (args.json) {
        const rows = broken.map(({ id, name }) => ({ id, name: redact(name), state: "broken" }));
        printJson({ jobs: [...jobs.map((job) => jobEntry(job)), ...rows], count: jobs.length + rows.length });
      } else if (jobs.length + broken.length > 0) {
        const nowMs = Date.now();
        const cells = jobs.map((job) => jobCells(job, (atMs) => listTime(atMs, nowMs)));
        printTable(JOB_HEAD, [...cells, ...broken.map(brokenCells)]);
        for (const { id } of broken)
          warn(`The job ${id} is unreadable and does not run. Remove it with \`agentd cron remove ${id}\`.`);
      } else print(NO_JOBS);
      const left = all.length - jobs.length;
      if (left > 0)
        warn(`${left} more ${left === 1 ? "job has" : "jobs have"} ended. Pass --all to include them.`);
      if (jobs.some(({ state }) => state === "scheduled")) await warnIfNotTicking(cronContext);
    });
    if (isThere) return;
    if (args.json) printJson({ jobs: [], count: 0 });
    else print(NO_JOBS);
  },
});

export const showCommand = defineCommand({
  meta: { name: "show", description: "Show a job in detail" },
  args: {
    job: requiredArgument("Id or name of the job"),
    json: jsonOption,
  },
  async run({ args }) {
    await readJob(async (cronContext) => {
      const job = await cronContext.jobs.find(args.job);
      if (args.json) printJson({ job: jobEntry(job) });
      else print(jobText(job));
      if (job.state === "scheduled") await warnIfNotTicking(cronContext);
    });
  },
});

const MAX_LIMIT = 500;

export const runsCommand = defineCommand({
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
    const isThere = await readJobs(async ({ jobs, settings, outputFolder }) => {
      const job = args.job === undefined ? undefined : await jobs.find(args.job);
      const { occurrences, nextCursor } = await jobs.history(job?.id, { limit, cursor: args.cursor });
      if (args.json) {
        printJson({
          runs: occurrences.map((each) => occurrenceEntry(each)),
          next_cursor: nextCursor ?? null,
        });
      } else if (occurrences.length > 0) {
        const zone = job?.definition.zone ?? settings.zone;
        const { head, rows } = runsTable(occurrences, { zone, isOneJob: job !== undefined });
        printTable(head, rows);
        warn(`Outputs are in ${join(outputFolder, job?.id ?? "<job id>")}.`);
      } else warn(job === undefined ? "No job has run yet." : "The job has not run yet.");
      if (nextCursor !== undefined && !args.json) warn(`More runs follow: pass --cursor ${nextCursor}`);
    });
    if (!isThere && args.json) printJson({ runs: [], next_cursor: null });
  },
});
