/** `agentd cron list` and `show`: nothing changes. */
import { defineCommand } from "citty";
import { jobEntry, occurrenceEntry } from "../../cron/job/entry.ts";
import { isOver } from "../../cron/job/job.ts";
import { redact } from "../../base/observe/redact.ts";
import { lookAtJob, lookAtJobs } from "./home.ts";
import { warnOfStillness } from "./status.ts";
import { brokenBlock, jobBlock, jobText, NO_JOBS, runsTable } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { cursorOption, jsonOption, limitOption, toLimit } from "../kit/options.ts";
import { join } from "node:path";

export const listCommand = defineCommand({
  meta: {
    name: "list",
    description:
      "List the jobs that will run, or would if they were not paused; times are in each job's own zone",
  },
  args: {
    all: { type: "boolean", description: "Those too that are over: completed, or missed" },
    json: jsonOption,
  },
  async run({ args }) {
    const isThere = await lookAtJobs(async (place) => {
      const { jobs: all, broken } = await place.jobs.list({ withOver: true });
      const jobs = args.all ? all : all.filter(({ state }) => !isOver(state));
      if (args.json) {
        const rows = broken.map(({ id, name }) => ({ id, name: redact(name), state: "broken" }));
        printJson({ jobs: [...jobs.map(jobEntry), ...rows], count: jobs.length + rows.length });
      } else if (jobs.length + broken.length > 0) {
        print(["Scheduled jobs:", ...jobs.map(jobBlock), ...broken.map(brokenBlock)].join("\n\n"));
      } else print(NO_JOBS);
      const left = all.length - jobs.length;
      if (left > 0) warn(`${left} more ${left === 1 ? "is" : "are"} over: --all lists them, too.`);
      if (jobs.some(({ state }) => state === "scheduled")) await warnOfStillness(place);
    });
    if (isThere) return;
    if (args.json) printJson({ jobs: [], count: 0 });
    else print(NO_JOBS);
  },
});

export const showCommand = defineCommand({
  meta: { name: "show", description: "Show a job: all there is to know of it" },
  args: {
    job: { type: "positional", required: true, description: "Id or name of the job" },
    json: jsonOption,
  },
  async run({ args }) {
    await lookAtJob(async (place) => {
      const job = await place.jobs.find(args.job);
      if (args.json) printJson({ job: jobEntry(job) });
      else print(jobText(job));
      if (job.state === "scheduled") await warnOfStillness(place);
    });
  },
});

const MAX_LIMIT = 500;

export const runsCommand = defineCommand({
  meta: {
    name: "runs",
    description:
      "List the runs of a job, or of all, newest first, with the instants that were missed or skipped",
  },
  args: {
    job: { type: "positional", required: false, description: "Id or name of the job; without it all jobs" },
    limit: limitOption("Runs", { max: MAX_LIMIT, fallback: 20 }),
    cursor: cursorOption,
    json: jsonOption,
  },
  async run({ args }) {
    const limit = toLimit(args.limit, MAX_LIMIT);
    const isThere = await lookAtJobs(async ({ jobs, settings, outputFolder }) => {
      const job = args.job === undefined ? undefined : await jobs.find(args.job);
      const { occurrences, nextCursor } = await jobs.history(job?.id, { limit, cursor: args.cursor });
      if (args.json) {
        printJson({ runs: occurrences.map(occurrenceEntry), next_cursor: nextCursor ?? null });
      } else if (occurrences.length > 0) {
        const zone = job?.definition.zone ?? settings.zone;
        print(runsTable(occurrences, { zone, isOneJob: job !== undefined }));
        warn(`Outputs are in ${join(outputFolder, job?.id ?? "<job id>")}.`);
      } else warn(job === undefined ? "Nothing ran yet." : "It did not run yet.");
      if (nextCursor !== undefined && !args.json) warn(`There are more: --cursor ${nextCursor}`);
    });
    if (!isThere && args.json) printJson({ runs: [], next_cursor: null });
  },
});
