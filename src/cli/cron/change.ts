/** `agentd cron pause`, `resume` and `remove`. */
import process from "node:process";
import { EXIT_FAILURE } from "../chat/run.ts";
import type { Api } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { confirm } from "../kit/confirm.ts";
import { jsonOption, requiredArgument, switchOption, textOption, yesOption } from "../kit/options.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { changeJob, findJob, listJobs, warnOf } from "./jobs.ts";
import { nameAndId, nextRunText, shown } from "./text.ts";

const job = requiredArgument("Id or name of the job");

export const pauseCommand = defineApiCommand({
  meta: { name: "pause", description: "Pause a job until it is resumed. A running run continues" },
  args: {
    job,
    reason: textOption("text", "Why the job is paused, shown in lists"),
    json: jsonOption,
  },
  async run({ args }) {
    await changeJob("pause", async (api) => {
      const body = args.reason === undefined ? {} : { reason: args.reason };
      const { data: paused } = await api.client.pauseJob({ ...(await pathOf(api, args.job)), body });
      if (args.json) printJson({ job: paused });
      else print(`Paused job: ${nameAndId(paused)}`);
    });
  },
});

export const resumeCommand = defineApiCommand({
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
    await changeJob("resume", async (api) => {
      const body = {
        ...(runNow ? { run_now: true } : {}),
        ...(args.at === undefined ? {} : { at: args.at }),
      };
      const { data: resumed } = await api.client.resumeJob({ ...(await pathOf(api, args.job)), body });
      if (args.json) printJson({ job: resumed });
      else print(`Resumed job: ${nameAndId(resumed)}\n  Next run: ${nextRunText(resumed)}`);
      warnOf(resumed);
    });
  },
});

export const removeCommand = defineApiCommand({
  meta: {
    name: "remove",
    description: "Remove a job with its history and outputs. A running run continues to its end",
  },
  args: { job, yes: yesOption, json: jsonOption },
  async run({ args }) {
    await changeJob("remove", async (api) => {
      const { id, name, owner } = await findAny(api, args.job);
      if (!args.yes && !confirm.isPossible())
        throw new UsageError("Cannot ask for confirmation without a terminal. Pass --yes to remove the job.");
      if (!args.yes && !(await confirm.ask(`Remove the job ${shown(name)} (${id}) and its outputs?`))) {
        warn("Nothing was removed.");
        process.exitCode = EXIT_FAILURE;
        return;
      }
      const headers = owner === undefined ? {} : api.ownedBy(owner);
      await api.client.deleteJob({ path: { job_id: id }, headers });
      if (args.json) printJson({ removed: { id, name: shown(name) } });
      else print(`Removed job: ${shown(name)} (${id})`);
    });
  },
});

/** Returns the path and the headers of a request that changes a job. */
export async function pathOf(api: Api, ref: string) {
  const { id, owner } = await findJob(api, ref);
  return { path: { job_id: id }, headers: api.ownedBy(owner) };
}

interface AnyJob {
  readonly id: string;
  readonly name: string;
  /** Not known of a job that cannot be read. */
  readonly owner?: string;
}

/** Returns a job, also one that cannot be read. */
async function findAny(api: Api, ref: string): Promise<AnyJob> {
  try {
    return await findJob(api, ref);
  } catch (error) {
    const { broken } = await listJobs(api, []);
    const found = broken.find(({ id, name }) => id === ref.trim() || name === ref);
    if (found) return found;
    throw error;
  }
}
