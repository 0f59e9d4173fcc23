/** `agentd cron create` and `edit`. */
import { defineCommand } from "citty";
import { optionalArgument, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import { defineJob, changeJob } from "../../cron/job/input.ts";
import type { JobInput, JobChange } from "../../cron/job/fields.ts";
import { jobEntry } from "../../cron/job/format.ts";
import { platformsOf } from "../../deliver/address.ts";
import { platformProblems } from "../../deliver/platform/platforms.ts";
import { positionalsOf, UsageError } from "../kit/arguments.ts";
import {
  definitionArgs,
  hasSwitch,
  optionOf,
  contextOf,
  readPromptOption,
  inputOf,
  eitherSwitch,
  listOption,
} from "./options.ts";
import { changeJobs, type CronContext, changeExistingJob } from "./home.ts";
import { warnIfNotTicking } from "./status.ts";
import { createdText, jobText, nameAndId } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";

export const createCommand = defineCommand({
  meta: {
    name: "create",
    description: [
      "Create a job. It runs while `agentd gateway` runs. Examples:",
      '  agentd cron create "every 2h" "Look for failed builds. Answer [SILENT] without any." --deliver telegram',
      '  agentd cron create "weekdays at 9am" "Summarize the news." --name news --tz Europe/Berlin --skill news',
      '  agentd cron create "0 3 * * *" --script backup.sh --no-agent --name backup',
      '  agentd cron create "in 45m" "Remind me of the tea."',
    ].join("\n"),
  },
  args: {
    schedule: requiredArgument(
      'When: "every 30m", "in 2h", "weekdays at 9am", "0 9 * * 1-5", "2026-12-24T18:00"',
    ),
    prompt: optionalArgument(
      "Prompt for the agent; - reads standard input. Optional with --skill or --script",
    ),
    ...definitionArgs,
    paused: switchOption("Create the job paused"),
    "paused-reason": textOption("text", "Why the job is paused, shown in lists"),
  },
  async run({ args, rawArgs }) {
    const input = { ...(inputOf(rawArgs) as JobInput), schedule: args.schedule };
    const [, words] = positionalsOf(rawArgs);
    const pausedReason = optionOf(rawArgs, "paused-reason");
    const isPaused = hasSwitch(rawArgs, "paused");
    if (pausedReason !== undefined && !isPaused) throw new UsageError("--paused-reason requires --paused.");
    const prompt = await readPromptOption(words);
    await changeJobs("create", async (cronContext) => {
      const definition = await defineJob({ ...input, prompt }, await contextOf(cronContext, input));
      const job = await cronContext.jobs.create(definition, { isPaused, pausedReason });
      if (args.json) printJson({ job: jobEntry(job) });
      else print(createdText(job));
      await warnOfUnreadyPlatforms(cronContext, definition);
      if (!isPaused) await warnIfNotTicking(cronContext);
    });
  },
});

/** Warns about target platforms that are not ready. */
async function warnOfUnreadyPlatforms(
  { config, env }: CronContext,
  { deliver, failureDeliver }: { readonly deliver: string; readonly failureDeliver?: string },
): Promise<void> {
  const addresses = [deliver, ...(failureDeliver === undefined ? [] : [failureDeliver])].join(",");
  const names = platformsOf(addresses).filter((name) => name !== "local" && name !== "all");
  for (const problem of await platformProblems(names, config, env)) warn(`Warning: ${problem}.`);
}

export const editCommand = defineCommand({
  meta: {
    name: "edit",
    description: [
      'Change a job. Omitted options keep their values, and an empty value (--script "") resets one. Examples:',
      '  agentd cron edit news --schedule "weekdays at 8am" --add-skill weather',
      "  agentd cron edit backup --deliver telegram,local --failure-deliver email:ops@example.com",
    ].join("\n"),
  },
  args: {
    job: requiredArgument("Id or name of the job"),
    schedule: textOption("text", "New schedule, which restarts the job's timing"),
    prompt: textOption("text", "Prompt for the agent; - reads standard input"),
    ...definitionArgs,
    "add-skill": textOption("name", "Add a skill. Repeatable"),
    "remove-skill": textOption("name", "Remove a skill. Repeatable"),
    "clear-skills": switchOption("Remove all skills"),
    agent: switchOption("Run the agent again; the opposite of --no-agent"),
  },
  async run({ args, rawArgs }) {
    const change = await changeOf(rawArgs);
    await changeExistingJob("edit", async (cronContext) => {
      const jobContext = await contextOf(cronContext, change);
      const job = await cronContext.jobs.edit(args.job, ({ definition }) =>
        changeJob(definition, change, jobContext),
      );
      if (args.json) printJson({ job: jobEntry(job) });
      else print(`Updated job: ${nameAndId(job)}\n${jobText(job)}`);
      await warnOfUnreadyPlatforms(cronContext, job.definition);
      if (job.state === "scheduled") await warnIfNotTicking(cronContext);
    });
  },
});

async function changeOf(words: readonly string[]): Promise<JobChange> {
  const schedule = optionOf(words, "schedule");
  if (schedule?.trim() === "") throw new UsageError("--schedule is empty. To stop a job, pause it.");
  const prompt = await readPromptOption(optionOf(words, "prompt"));
  const change: JobChange = {
    ...inputOf(words),
    schedule,
    prompt,
    isScriptOnly: eitherSwitch(words, "no-agent", "agent"),
    addSkills: listOption(words, "add-skill"),
    removeSkills: listOption(words, "remove-skill"),
    clearSkills: hasSwitch(words, "clear-skills") ? true : undefined,
  };
  if (Object.values(change).some((value) => value !== undefined)) return change;
  throw new UsageError("No changes. Pass an option, such as --schedule or --prompt.");
}
