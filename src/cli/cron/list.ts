/** `agentd cron list` and `show`: nothing changes. */
import { defineCommand } from "citty";
import { jobEntry } from "../../cron/job/format.ts";
import { isOver } from "../../cron/job/job.ts";
import { redact } from "../../base/observe/redact.ts";
import { lookAtJob, lookAtJobs } from "./home.ts";
import { warnOfStillness } from "./status.ts";
import { brokenBlock, jobBlock, jobText, NO_JOBS } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";

const json = { type: "boolean", description: "Print JSON" } as const;

export const listCommand = defineCommand({
  meta: {
    name: "list",
    description:
      "List the jobs that will run, or would if they were not paused; times are in each job's own zone",
  },
  args: {
    all: { type: "boolean", description: "Those too that are over: completed, or missed" },
    json,
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
    json,
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
