/** `agentd cron create` and `edit`. */
import { defineCommand } from "citty";
import { optionalArgument, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import { defineJob, changeJob } from "../../cron/job/input.ts";
import type { JobInput, JobChange } from "../../cron/job/job.ts";
import { jobEntry } from "../../cron/job/format.ts";
import { requireSkills as checkSkills } from "../../cron/job/warnings.ts";
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
import { join } from "node:path";
import { changeJobs, changeExistingJob, warnOfTargets, type CronContext } from "./home.ts";
import { warnIfNotTicking } from "./status.ts";
import { createdText, jobText, nameAndId } from "./text.ts";
import { print, printJson } from "../kit/output.ts";

export const createCommand = defineCommand({
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
    const input = { ...(inputOf(rawArgs) as JobInput), schedule: args.schedule };
    const [, words] = positionalsOf(rawArgs);
    const pausedReason = optionOf(rawArgs, "paused-reason");
    const isPaused = hasSwitch(rawArgs, "paused");
    if (pausedReason !== undefined && !isPaused) throw new UsageError("--paused-reason requires --paused.");
    const prompt = await readPromptOption(words);
    await changeJobs("create", async (cronContext) => {
      await requireSkills(cronContext, input.skills ?? [], input.workdir);
      const definition = await defineJob({ ...input, prompt }, await contextOf(cronContext, input));
      const job = await cronContext.jobs.create(definition, { isPaused, pausedReason });
      if (args.json) printJson({ job: jobEntry(job) });
      else print(createdText(job));
      await warnOfTargets(cronContext, [definition]);
      if (!isPaused) await warnIfNotTicking(cronContext);
    });
  },
});

export const editCommand = defineCommand({
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
    await changeExistingJob("edit", async (cronContext) => {
      const jobContext = await contextOf(cronContext, change);
      await requireSkills(
        cronContext,
        [...(change.skills ?? []), ...(change.addSkills ?? [])],
        change.workdir,
      );
      const job = await cronContext.jobs.edit(args.job, ({ definition }) =>
        changeJob(definition, change, jobContext),
      );
      if (args.json) printJson({ job: jobEntry(job) });
      else print(`Updated job: ${nameAndId(job)}\n${jobText(job)}`);
      await warnOfTargets(cronContext, [job.definition]);
      if (job.state === "scheduled") await warnIfNotTicking(cronContext);
    });
  },
});

/** Refuses skills that the job could not load. */
async function requireSkills(
  { config, paths }: CronContext,
  names: readonly string[],
  workdir: string | null | undefined,
): Promise<void> {
  if (names.length === 0) return;
  const { createSkills } = await import("../../app/wire-agent.ts");
  const folder = join(paths.agentHome, "skills");
  await checkSkills(createSkills(config, paths), names, { cwd: workdir ?? paths.workspace, folder });
}

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
