/** `agentd cron remove`: the job, its history and its kept outputs. */
import process from "node:process";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import type { Jobs } from "../../cron/job/jobs.ts";
import { removeOutputs } from "../../cron/output/outputs.ts";
import { UsageError } from "../kit/arguments.ts";
import { confirm } from "../kit/confirm.ts";
import { changeKnownJob } from "./home.ts";
import { nameAndId, shown } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

export const removeCommand = defineCommand({
  meta: {
    name: "remove",
    description: "Remove a job with its history and its kept outputs; a run at work comes to its end",
  },
  args: {
    job: { type: "positional", required: true, description: "Id or name of the job" },
    yes: { type: "boolean", alias: "y", description: "Do not ask" },
    json: { type: "boolean", description: "Print JSON" },
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
