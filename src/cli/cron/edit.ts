/** `agentd cron edit`: changes a job; what is not said stays. */
import type { JobChange } from "../../cron/job/fields.ts";
import { defineCommand } from "citty";
import { changeJob } from "../../cron/job/input.ts";
import { jobEntry } from "../../cron/job/format.ts";
import { UsageError } from "../kit/arguments.ts";
import { warnOfTargets } from "./create.ts";
import { definitionArgs, eitherSwitch, hasSwitch, listOption, optionOf } from "./options.ts";
import { changeKnownJob } from "./home.ts";
import { warnOfStillness } from "./status.ts";
import { jobText, nameAndId } from "./text.ts";
import { contextOf, readPromptOption, inputOf } from "./input.ts";
import { print, printJson } from "../kit/output.ts";

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
