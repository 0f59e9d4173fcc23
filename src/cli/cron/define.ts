/** `agentd cron create` and `edit`. */
import type { CreateJobBody, Job, UpdateJobBody } from "../../client/http.ts";
import { positionalsOf, UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { optionalArgument, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import { print, printJson } from "../kit/output.ts";
import { changeJob, findJob, warnOf } from "./jobs.ts";
import {
  definitionArgs,
  eitherSwitch,
  hasSwitch,
  inputOf,
  listOption,
  optionOf,
  readPromptOption,
  withoutAbsent,
} from "./options.ts";
import { createdText, jobText, nameAndId } from "./text.ts";

export const createCommand = defineApiCommand({
  meta: {
    name: "create",
    description: "Create a job. It runs while `agentd gateway` runs",
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
    const input = inputOf(rawArgs);
    const [, words] = positionalsOf(rawArgs);
    const pausedReason = optionOf(rawArgs, "paused-reason");
    const isPaused = hasSwitch(rawArgs, "paused");
    if (pausedReason !== undefined && !isPaused) throw new UsageError("--paused-reason requires --paused.");
    const prompt = await readPromptOption(words);
    const body: CreateJobBody = {
      schedule: args.schedule,
      ...withoutAbsent({
        ...input,
        prompt,
        paused: isPaused ? true : undefined,
        paused_reason: pausedReason,
      }),
    };
    await changeJob("create", async ({ client }) => {
      const { data: job } = await client.createJob({ body });
      if (args.json) printJson({ job });
      else print(createdText(job));
      warnOf(job);
    });
  },
});

export const editCommand = defineApiCommand({
  meta: {
    name: "edit",
    description:
      'Change a job. Omitted options keep their values, and an empty value (--script "") resets one',
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
    const skills = skillChangeOf(rawArgs);
    if (Object.keys(change).length === 0 && !skills)
      throw new UsageError("No changes. Pass an option, such as --schedule or --prompt.");
    await changeJob("edit", async (api) => {
      const before = await findJob(api, args.job);
      const body = skills
        ? { ...change, skills: skillsAfter(change.skills ?? before.skills, skills) }
        : change;
      // The new list of skills is only right for the job that it was made from.
      const match = skills ? { "If-Match": `"${before.revision}"` } : {};
      const headers = { ...api.ownedBy(before.owner), ...match };
      const { data: job } = await api.client.updateJob({ path: { job_id: before.id }, headers, body });
      if (args.json) printJson({ job });
      else print(`Updated job: ${nameAndId(job)}\n${jobText(job)}`);
      warnOf(job);
    });
  },
});

async function changeOf(words: readonly string[]): Promise<UpdateJobBody> {
  const schedule = optionOf(words, "schedule");
  if (schedule?.trim() === "") throw new UsageError("--schedule is empty. To stop a job, pause it.");
  const prompt = await readPromptOption(optionOf(words, "prompt"));
  const no_agent = eitherSwitch(words, "no-agent", "agent");
  return withoutAbsent({ ...inputOf(words), schedule, prompt, no_agent });
}

interface SkillChange {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly isCleared: boolean;
}

function skillChangeOf(words: readonly string[]): SkillChange | undefined {
  const added = listOption(words, "add-skill") ?? [];
  const removed = listOption(words, "remove-skill") ?? [];
  const isCleared = hasSwitch(words, "clear-skills");
  return added.length + removed.length > 0 || isCleared ? { added, removed, isCleared } : undefined;
}

function skillsAfter(before: Job["skills"], { added, removed, isCleared }: SkillChange): string[] {
  const kept = isCleared ? [] : before.filter((name) => !removed.includes(name));
  return [...new Set([...kept, ...added])];
}
