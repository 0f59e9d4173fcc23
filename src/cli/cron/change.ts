/** `agentd cron pause`, `resume` and `remove`. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { jobEntry } from "../../cron/job/format.ts";
import { UsageError } from "../kit/arguments.ts";
import { changeExistingJob } from "./home.ts";
import { warnIfNotTicking } from "./status.ts";
import { nameAndId, nextRunText, shown } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, requiredArgument, switchOption, textOption, yesOption } from "../kit/options.ts";
import process from "node:process";
import type { Jobs } from "../../cron/job/jobs.ts";
import { removeOutputs } from "../../cron/run/end.ts";
import { confirm } from "../kit/confirm.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

const job = requiredArgument("Id or name of the job");

export const pauseCommand = defineCommand({
  meta: { name: "pause", description: "Pause a job until it is resumed. A running run continues" },
  args: {
    job,
    reason: textOption("text", "Why the job is paused, shown in lists"),
    json: jsonOption,
  },
  async run({ args }) {
    await changeExistingJob("pause", async ({ jobs }) => {
      const paused = await jobs.pause(args.job, { reason: args.reason });
      if (args.json) printJson({ job: jobEntry(paused) });
      else print(`Paused job: ${nameAndId(paused)}`);
    });
  },
});

export const resumeCommand = defineCommand({
  meta: { name: "resume", description: "Resume a job at its next scheduled time, now, or at a given time" },
  args: {
    job,
    "run-now": switchOption("Also run the job now"),
    at: textOption("time", 'Time of the next run, such as "in 20m" or "2026-12-24T18:00"'),
    json: jsonOption,
  },
  async run({ args }) {
    const runNow = args["run-now"] === true;
    if (runNow && args.at !== undefined) throw new UsageError("--run-now and --at cannot be combined.");
    await changeExistingJob("resume", async (cronContext) => {
      const { at } = args;
      const atMs = at === undefined ? undefined : await cronContext.jobs.readTime(args.job, at);
      const resumed = await cronContext.jobs.resume(args.job, { runNow, atMs });
      if (args.json) printJson({ job: jobEntry(resumed) });
      else print(`Resumed job: ${nameAndId(resumed)}\n  Next run: ${nextRunText(resumed)}`);
      await warnIfNotTicking(cronContext);
    });
  },
});

export const removeCommand = defineCommand({
  meta: {
    name: "remove",
    description: "Remove a job with its history and outputs. A running run continues to its end",
  },
  args: {
    job: requiredArgument("Id or name of the job"),
    yes: yesOption,
    json: jsonOption,
  },
  async run({ args }) {
    await changeExistingJob("remove", async ({ jobs, outputFolder }) => {
      const label = args.yes ? args.job : await describeJob(jobs, args.job);
      if (!args.yes && !confirm.isPossible())
        throw new UsageError("Cannot ask for confirmation without a terminal. Pass --yes to remove the job.");
      if (!args.yes && !(await confirm.ask(`Remove the job ${label} and its outputs?`))) {
        warn("Nothing was removed.");
        process.exitCode = EXIT_FAILURE;
        return;
      }
      const removed = await jobs.remove(args.job);
      await removeOutputs(outputFolder, removed.id);
      if (args.json) printJson({ removed: { id: removed.id, name: shown(removed.name) } });
      else print(`Removed job: ${shown(removed.name)} (${removed.id})`);
    });
  },
});

/** Returns the label of a job, even of an unreadable one. ServiceError for no match, or several. */
async function describeJob(jobs: Jobs, ref: string): Promise<string> {
  try {
    return nameAndId(await jobs.find(ref));
  } catch (error) {
    if (error instanceof ServiceError && error.code !== "internal_error") throw error;
    return shown(ref);
  }
}
