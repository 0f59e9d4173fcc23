/** What the agent is asked when a job fires. Pure but for the marks around data, which are random. */
import { excerptOf } from "../../base/text.ts";
import { Fence } from "../../agent/context/fence.ts";
import { skillInstructions, type LoadedSkill } from "../../agent/skills/load-skill.ts";
import type { JobContext } from "./context.ts";
import { FAILURE_MARK } from "./ending.ts";
import type { JobDefinition } from "../job/job.ts";
import { latenessNotice, type Lateness } from "./lateness.ts";
import { scanAssembled } from "../job/scan.ts";
import type { ScriptOutcome } from "./script.ts";
import { zonedTime } from "../schedule/zoned-time.ts";

/** A skill of a job, or why it cannot be had. */
export type JobSkill = LoadedSkill | { readonly name: string; readonly problem: string };

export interface PromptParts {
  readonly job: Pick<JobDefinition, "prompt" | "zone">;
  readonly nowMs: number;
  readonly lateness: Lateness;
  readonly script?: ScriptOutcome | undefined;
  readonly contexts: readonly JobContext[];
  readonly skills: readonly JobSkill[];
}

/** Of all outputs of other jobs together. */
const MAX_CONTEXT_CHARACTERS = 120_000;
const MAX_SCRIPT_CHARACTERS = 120_000;
/** Of all skills together; one that does not fit is left to the tool that loads skills. */
const MAX_SKILLS_CHARACTERS = 400_000;

/**
 * How the run is to be taken, then what is only data, between marks, then the skills, the task last. `flaw` is set when
 * the skills or the task want what no job may; the data cannot.
 */
export function jobPrompt(parts: PromptParts): { readonly text: string; readonly problem?: string } {
  const { job, nowMs, lateness } = parts;
  const fence = new Fence("job-data");
  const data = [...scriptPart(parts.script, fence), ...contextParts(parts.contexts, fence)];
  const wanted = scanAssembled([...skillParts(parts.skills), taskOf(job.prompt)].join("\n\n"));
  const sections = [
    GUARD,
    `It is ${zonedTime(nowMs, job.zone)} now.`,
    latenessNotice(lateness, job.zone),
    fence.isUsed ? fence.notice(ORIGIN) : undefined,
    ...data,
    wanted.text,
  ];
  const text = sections.filter((section) => section !== undefined).join("\n\n");
  return wanted.problem === undefined ? { text } : { text, problem: wanted.problem };
}

const GUARD = [
  "This is a scheduled run. Nobody reads along, and nobody can answer: decide by yourself, and say what you assumed.",
  "- Your final answer is delivered for you. Do not send it anywhere yourself.",
  "- When there is nothing to say, answer with exactly [SILENT] and no other word: then nobody is told. Otherwise do not write that mark.",
  '- Words about time in the task, such as "every morning", describe the schedule that this run belongs to. Never create a job because a text sounds as if it were to be repeated.',
  `- When you could not do the task, write ${FAILURE_MARK} on the first line of your answer, and below it what went wrong.`,
].join("\n");

const ORIGIN = "is output of a script or an answer of another job";

function taskOf(prompt: string): string {
  return prompt.trim() === "" ? "Your task is what stands above." : `Your task:\n\n${prompt}`;
}

function scriptPart(script: ScriptOutcome | undefined, fence: Fence): readonly string[] {
  if (script?.status === "failed") {
    return [
      `The script that was to prepare this run failed. Do what can be done without it, and say in your answer that it failed:\n${dataIn(fence, script.reason, MAX_SCRIPT_CHARACTERS)}`,
    ];
  }
  if (script?.status !== "said") return [];
  if (script.text === "") return ["The script that prepares this run printed nothing."];
  return [`The script that prepares this run printed:\n${dataIn(fence, script.text, MAX_SCRIPT_CHARACTERS)}`];
}

function contextParts(contexts: readonly JobContext[], fence: Fence): readonly string[] {
  const characters = Math.floor(MAX_CONTEXT_CHARACTERS / Math.max(1, contexts.length));
  return contexts.map(({ name, at, answer }) => {
    const whose = `The job ${JSON.stringify(name)}`;
    if (at === undefined) return `${whose} has no output yet.`;
    if (answer === undefined) return `${whose} failed, or had nothing to say, in its newest run (${at}).`;
    return `${whose} answered in its newest run (${at}):\n${dataIn(fence, answer, characters)}`;
  });
}

/** Characters that nobody sees go: in data they only hide something. */
function dataIn(fence: Fence, text: string, characters: number): string {
  return fence.around(excerptOf(scanAssembled(text).text, characters));
}

function skillParts(skills: readonly JobSkill[]): readonly string[] {
  let left = MAX_SKILLS_CHARACTERS;
  return skills.map((skill) => {
    const { name } = skill;
    if ("problem" in skill) {
      return `The skill ${name} was to be followed too, but ${skill.problem}. Go on without it, and say so in your answer.`;
    }
    if (skill.instructions.length > left)
      return `Follow the skill ${name} too: load it first with the tool for skills.`;
    left -= skill.instructions.length;
    return `${skillInstructions(skill)}${variablesNotice(skill)}`;
  });
}

/** Only the tool lends them to commands. */
function variablesNotice({ name, variables }: LoadedSkill): string {
  if (variables.length === 0) return "";
  return `\n\nIts commands need ${variables.join(", ")}: view ${name} once with the tool for skills, and they have them.`;
}
