/** `agentd cron pause` and `resume`. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { jobEntry } from "../../cron/job/entry.ts";
import { parseSchedule } from "../../cron/schedule/text.ts";
import { UsageError } from "../kit/arguments.ts";
import { changeKnownJob, type CronContext } from "./home.ts";
import { warnOfStillness } from "./status.ts";
import { nameAndId, nextRunText, shown } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, yesOption } from "../kit/options.ts";
import process from "node:process";
import type { Jobs } from "../../cron/job/jobs.ts";
import { removeOutputs } from "../../cron/output/outputs.ts";
import { confirm } from "../kit/confirm.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

const job = { type: "positional", required: true, description: "Id or name of the job" } as const;

export const pauseCommand = defineCommand({
  meta: { name: "pause", description: "Let a job rest until it is resumed; what runs already goes on" },
  args: {
    job,
    reason: { type: "string", valueHint: "text", description: "Why, for those who see it in the list" },
    json: jsonOption,
  },
  async run({ args }) {
    await changeKnownJob("pause", async ({ jobs }) => {
      const paused = await jobs.pause(args.job, { reason: args.reason });
      if (args.json) printJson({ job: jobEntry(paused) });
      else print(`Paused job: ${nameAndId(paused)}`);
    });
  },
});

export const resumeCommand = defineCommand({
  meta: { name: "resume", description: "Let a job go on: at its next time, now, or at a time of your own" },
  args: {
    job,
    "run-now": { type: "boolean", description: "Run it now besides" },
    at: {
      type: "string",
      valueHint: "time",
      description: 'Run it next at this time: "in 20m", "2026-12-24T18:00"',
    },
    json: jsonOption,
  },
  async run({ args }) {
    const runNow = args["run-now"] === true;
    if (runNow && args.at !== undefined) throw new UsageError("Give --run-now or --at, one of the two.");
    await changeKnownJob("resume", async (place) => {
      const { at } = args;
      const atMs = at === undefined ? undefined : await timeOf(place, args.job, at);
      const resumed = await place.jobs.resume(args.job, { runNow, atMs });
      if (args.json) printJson({ job: jobEntry(resumed) });
      else print(`Resumed job: ${nameAndId(resumed)}\n  Next run: ${nextRunText(resumed)}`);
      await warnOfStillness(place);
    });
  },
});

/** As the job's own zone reads it. ServiceError for what is not one time. */
async function timeOf({ jobs }: CronContext, ref: string, text: string): Promise<number> {
  const { definition } = await jobs.find(ref);
  const schedule = parseSchedule(text, { nowMs: Date.now(), zone: definition.zone });
  if (schedule.kind === "once") return schedule.atMs;
  throw new ServiceError(
    "invalid_request",
    `--at is one time, such as "in 20m" or "2026-12-24T18:00"; ${JSON.stringify(text)} comes again and again: that is \`agentd cron edit --schedule\`.`,
  );
}

export const removeCommand = defineCommand({
  meta: {
    name: "remove",
    description: "Remove a job with its history and its kept outputs; a run at work comes to its end",
  },
  args: {
    job: { type: "positional", required: true, description: "Id or name of the job" },
    yes: yesOption,
    json: jsonOption,
  },
  async run({ args }) {
    if (!args.yes && !confirm.isPossible())
      throw new UsageError("There is no terminal to ask on. Give --yes to remove the job.");
    await changeKnownJob("remove", async ({ jobs, outputFolder }) => {
      if (
        !args.yes &&
        !(await confirm.ask(`Remove the job ${await called(jobs, args.job)} and its outputs?`))
      ) {
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

/** One that is broken can be removed, too. ServiceError when there is none, or more than one. */
async function called(jobs: Jobs, ref: string): Promise<string> {
  try {
    return nameAndId(await jobs.find(ref));
  } catch (error) {
    if (error instanceof ServiceError && error.code !== "internal_error") throw error;
    return shown(ref);
  }
}
