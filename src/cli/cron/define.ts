/** `agentd cron create`: makes a job, in a home that need not have been started. */
import { defineCommand } from "citty";
import { defineJob, type JobInput, changeJob, type JobChange } from "../../cron/job/input.ts";
import { jobEntry } from "../../cron/job/entry.ts";
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
import { changeJobs, type CronContext, changeKnownJob } from "./home.ts";
import { warnOfStillness } from "./status.ts";
import { createdText, jobText, nameAndId } from "./text.ts";
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

export const editCommand = defineCommand({
  meta: {
    name: "edit",
    description: [
      'Change a job: what is not said stays, and an empty value (--script "") takes back what was said. For example:',
      '  agentd cron edit news --schedule "weekdays at 8am" --add-skill weather',
      "  agentd cron edit backup --deliver telegram,local --failure-deliver email:ops@example.com",
    ].join("\n"),
  },
  args: {
    job: { type: "positional", required: true, description: "Id or name of the job" },
    schedule: { type: "string", valueHint: "text", description: "A new schedule; it begins anew" },
    prompt: {
      type: "string",
      valueHint: "text",
      description: "What the agent is asked; - reads it from standard input",
    },
    ...definitionArgs,
    "add-skill": { type: "string", valueHint: "name", description: "One more skill; may be given again" },
    "remove-skill": { type: "string", valueHint: "name", description: "A skill less; may be given again" },
    "clear-skills": { type: "boolean", description: "No skills" },
    agent: { type: "boolean", description: "The agent runs again; the opposite of --no-agent" },
  },
  async run({ args, rawArgs }) {
    const change = await changeOf(rawArgs);
    await changeKnownJob("edit", async (place) => {
      const jobContext = await contextOf(place, change);
      const job = await place.jobs.edit(args.job, ({ definition }) =>
        changeJob(definition, change, jobContext),
      );
      if (args.json) printJson({ job: jobEntry(job) });
      else print(`Updated job: ${nameAndId(job)}\n${jobText(job)}`);
      await warnOfTargets(place, job.definition);
      if (job.state === "scheduled") await warnOfStillness(place);
    });
  },
});

async function changeOf(words: readonly string[]): Promise<JobChange> {
  const schedule = optionOf(words, "schedule");
  if (schedule?.trim() === "")
    throw new UsageError("--schedule is empty. A job has one: to stop it, pause it.");
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
  throw new UsageError("Nothing is to be changed. Say what, such as --schedule or --prompt.");
}
