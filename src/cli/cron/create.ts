/** `agentd cron create`: makes a job, in a home that need not have been started. */
import type { JobInput } from "../../cron/job/fields.ts";
import { defineCommand } from "citty";
import { defineJob } from "../../cron/job/input.ts";
import { jobEntry } from "../../cron/job/format.ts";
import { platformsOf } from "../../deliver/address.ts";
import { platformProblems } from "../../deliver/platform/platforms.ts";
import { positionalsOf, UsageError } from "../kit/arguments.ts";
import { definitionArgs, hasSwitch, optionOf } from "./options.ts";
import { changeJobs, type CronContext } from "./home.ts";
import { warnOfStillness } from "./status.ts";
import { createdText } from "./text.ts";
import { contextOf, readPromptOption, inputOf } from "./input.ts";
import { print, printJson, warn } from "../kit/output.ts";

export const createCommand = defineCommand({
  meta: {
    name: "create",
    description: [
      "Make a job: a schedule, and what is to be done. It runs while `agentd gateway` does. For example:",
      '  agentd cron create "every 2h" "Look for failed builds; say [SILENT] when there are none." --deliver telegram',
      '  agentd cron create "weekdays at 9am" "Sum up the news." --name news --tz Europe/Berlin --skill news',
      '  agentd cron create "0 3 * * *" --script backup.sh --no-agent --name backup',
      '  agentd cron create "in 45m" "Remind me of the tea."',
    ].join("\n"),
  },
  args: {
    schedule: {
      type: "positional",
      required: true,
      description: 'When: "every 30m", "in 2h", "weekdays at 9am", "0 9 * * 1-5", "2026-12-24T18:00"',
    },
    prompt: {
      type: "positional",
      required: false,
      description:
        "What the agent is asked; - reads it from standard input. Not needed with --skill or --script",
    },
    ...definitionArgs,
    paused: { type: "boolean", description: "It runs from when it is resumed" },
    "paused-reason": {
      type: "string",
      valueHint: "text",
      description: "Why, for those who see it in the list",
    },
  },
  async run({ args, rawArgs }) {
    const input = { ...(inputOf(rawArgs) as JobInput), schedule: args.schedule };
    const [, words] = positionalsOf(rawArgs);
    const pausedReason = optionOf(rawArgs, "paused-reason");
    const isPaused = hasSwitch(rawArgs, "paused");
    if (pausedReason !== undefined && !isPaused) throw new UsageError("--paused-reason needs --paused.");
    const prompt = await readPromptOption(words);
    await changeJobs("create", async (place) => {
      const definition = await defineJob({ ...input, prompt }, await contextOf(place, input));
      const job = await place.jobs.create(definition, { isPaused, pausedReason });
      if (args.json) printJson({ job: jobEntry(job) });
      else print(createdText(job));
      await warnOfTargets(place, definition);
      if (!isPaused) await warnOfStillness(place);
    });
  },
});

/** Says which platforms could not be reached as things are. */
export async function warnOfTargets(
  { config, env }: CronContext,
  { deliver, failureDeliver }: { readonly deliver: string; readonly failureDeliver?: string },
): Promise<void> {
  const addresses = [deliver, ...(failureDeliver === undefined ? [] : [failureDeliver])].join(",");
  const names = platformsOf(addresses).filter((name) => name !== "local" && name !== "all");
  for (const problem of await platformProblems(names, config, env)) warn(`Warning: ${problem}.`);
}
