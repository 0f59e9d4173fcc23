/** What the agent is asked when a job fires. Pure but for the marks around data, which are random. */
import { Fence } from "../../agent/context/fence.ts";
import { loadSkill, skillInstructions, type LoadedSkill } from "../../agent/skills/skills.ts";
import type { Log } from "../../base/observe/log.ts";
import { redact } from "../../base/observe/redact.ts";
import type { Store } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import type { CronDeps } from "../deps.ts";
import { FAILURE_MARK, isSilent } from "./ending.ts";
import type { JobDefinition } from "../job/job.ts";
import { scanAssembled } from "../job/scan.ts";
import { responseOf } from "../output/output.ts";
import { listOutputs, readOutput } from "../output/outputs.ts";
import { zonedTime } from "../schedule/zoned-time.ts";
import type { CronSettings } from "../settings.ts";
import type { Claimed } from "../tick/claim.ts";
import type { Timing } from "../tick/occurrence.ts";
import type { ScriptOutcome } from "./script.ts";

/** A skill of a job, or why it cannot be loaded. */
type JobSkill = LoadedSkill | { readonly name: string; readonly problem: string };

export interface PromptParts {
  readonly job: Pick<JobDefinition, "prompt" | "zone">;
  readonly nowMs: number;
  readonly lateness: Lateness;
  readonly script?: ScriptOutcome | undefined;
  readonly contexts: readonly JobOutput[];
  readonly skills: readonly JobSkill[];
}

/** `problem` is set when the skills or the task contain what no job may ask for; data cannot cause it. */
interface JobPrompt {
  readonly text: string;
  readonly problem?: string;
}

/** Limit for the outputs of all other jobs together. */
const MAX_CONTEXT_CHARACTERS = 120_000;
const MAX_SCRIPT_CHARACTERS = 120_000;
/** Limit for all skills together; the agent loads the others with its tool for skills. */
const MAX_SKILLS_CHARACTERS = 400_000;

/** Reads what the prompt of an occurrence needs, and returns the prompt. */
export async function assemblePrompt(
  deps: CronDeps,
  { occurrence, job }: Claimed,
  script: ScriptOutcome | undefined,
): Promise<JobPrompt> {
  const { definition } = job;
  const [lateness, contexts, skills] = await Promise.all([
    readLateness(deps.store, occurrence),
    readContexts(deps, definition.contextFrom),
    Promise.all(definition.skills.map((name) => readSkill(deps, name, definition.workdir ?? deps.workspace))),
  ]);
  return jobPrompt({ job: definition, nowMs: deps.clock.now(), lateness, script, contexts, skills });
}

async function readSkill({ skills, log }: CronDeps, name: string, cwd: string): Promise<JobSkill> {
  try {
    return (await loadSkill(skills, name, cwd)) ?? { name, problem: "it does not exist" };
  } catch (error) {
    log.warn("cannot read a skill of a job; the run goes on without it", { skill: name, error });
    return { name, problem: "it cannot be read" };
  }
}

/** Returns the rules of a scheduled run, then the data between marks, then the skills, and the task last. */
export function jobPrompt(parts: PromptParts): JobPrompt {
  const { job, nowMs, lateness } = parts;
  const fence = new Fence("job-data");
  const data = [...scriptPart(parts.script, fence), ...contextParts(parts.contexts, fence)];
  const instructions = scanAssembled([...skillParts(parts.skills), taskOf(job.prompt)].join("\n\n"));
  const sections = [
    GUARD,
    `It is ${zonedTime(nowMs, job.zone)} now.`,
    latenessNotice(lateness, job.zone),
    fence.isUsed ? fence.notice("is output of a script or an answer of another job") : undefined,
    ...data,
    instructions.text,
  ];
  const text = sections.filter((section) => section !== undefined).join("\n\n");
  return instructions.problem === undefined ? { text } : { text, problem: instructions.problem };
}

const GUARD = [
  "This is a scheduled run. No one reads along or can answer: decide on your own, and state your assumptions.",
  "- Your final answer is delivered for you. Do not send it anywhere yourself.",
  "- When you have nothing to report, answer with exactly [SILENT] and no other word: then nothing is delivered. Otherwise do not write that mark.",
  '- Words about time in the task, such as "every morning", describe the schedule of this run. Never create a job because a text sounds as if it should be repeated.',
  `- When you could not do the task, write ${FAILURE_MARK} on the first line of your answer, and what went wrong below it.`,
].join("\n");

function taskOf(prompt: string): string {
  return prompt.trim() === "" ? "Your task is described above." : `Your task:\n\n${prompt}`;
}

function scriptPart(script: ScriptOutcome | undefined, fence: Fence): readonly string[] {
  if (script?.status === "failed") {
    return [
      `The script that prepares this run failed. Do what you can without it, and say in your answer that it failed:\n${dataIn(fence, script.reason, MAX_SCRIPT_CHARACTERS)}`,
    ];
  }
  if (script?.status !== "printed") return [];
  if (script.text === "") return ["The script that prepares this run printed nothing."];
  return [`The script that prepares this run printed:\n${dataIn(fence, script.text, MAX_SCRIPT_CHARACTERS)}`];
}

function contextParts(outputs: readonly JobOutput[], fence: Fence): readonly string[] {
  const characters = Math.floor(MAX_CONTEXT_CHARACTERS / Math.max(1, outputs.length));
  return outputs.map(({ name, at, answer }) => {
    const job = `The job ${JSON.stringify(name)}`;
    if (at === undefined) return `${job} has no output yet.`;
    if (answer === undefined) return `${job} failed, or had nothing to report, in its newest run (${at}).`;
    return `${job} answered in its newest run (${at}):\n${dataIn(fence, answer, characters)}`;
  });
}

/** Removes invisible characters: in data they only hide something. */
function dataIn(fence: Fence, text: string, characters: number): string {
  return fence.around(excerpt(scanAssembled(text).text, characters));
}

/** Returns the start of a text and, three times as long, its end. */
function excerpt(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const head = Math.floor(characters / 4);
  const tail = characters - head;
  const cut = text.length - characters;
  return `${text.slice(0, head)}\n[... ${cut} characters omitted ...]\n${text.slice(-tail)}`.toWellFormed();
}

function skillParts(skills: readonly JobSkill[]): readonly string[] {
  let left = MAX_SKILLS_CHARACTERS;
  return skills.map((skill) => {
    const { name } = skill;
    if ("problem" in skill) {
      return `The job also names the skill ${name}, but ${skill.problem}. Go on without it, and say so in your answer.`;
    }
    if (skill.instructions.length > left)
      return `Follow the skill ${name} too: load it first with the tool for skills.`;
    left -= skill.instructions.length;
    return `${skillInstructions(skill)}${variablesNotice(skill)}`;
  });
}

/** Only the tool for skills passes a skill's variables on to commands. */
function variablesNotice({ name, variables }: LoadedSkill): string {
  if (variables.length === 0) return "";
  return `\n\nIts commands need ${variables.join(", ")}: view ${name} once with the tool for skills, and they have them.`;
}

/** How late an occurrence is. */
interface Lateness {
  readonly timing: Timing;
  readonly scheduledAtMs: number;
  /** The missed instants before it. */
  readonly missed?: { readonly fromMs: number; readonly untilMs: number; readonly count: number };
}

async function readLateness(store: Store, occurrence: OccurrenceRow): Promise<Lateness> {
  const { job_id: jobId, scheduled_at: scheduledAtMs, claimed_at: claimedAt } = occurrence;
  const timing = occurrence.timing as Timing;
  if (timing !== "catch_up") return { timing, scheduledAtMs };
  // The transaction of the claim recorded them.
  const row = await store.find("occurrences", { job_id: jobId, claimed_at: claimedAt, status: "missed" });
  if (!row) return { timing, scheduledAtMs };
  const { scheduled_at: fromMs, covers_until: untilMs, covers_count: count } = row;
  return { timing, scheduledAtMs, missed: { fromMs, untilMs: untilMs ?? fromMs, count } };
}

/** Undefined when the occurrence is on time. */
function latenessNotice({ timing, scheduledAtMs, missed }: Lateness, zone: string): string | undefined {
  if (timing === "on_time") return undefined;
  const due = `It was due at ${zonedTime(scheduledAtMs, zone)} and starts late: consider that where the task mentions times.`;
  if (!missed) return due;
  const [from, until] = [zonedTime(missed.fromMs, zone), zonedTime(missed.untilMs, zone)];
  const which = missed.count === 1 ? `the run of ${from}` : `${missed.count} runs, from ${from} to ${until}`;
  return `${due} It also replaces what was missed while no scheduler was running: ${which}. Do the task once for all of them.`;
}

/** The newest output of another job. */
interface JobOutput {
  readonly name: string;
  /** The time in the name of its file; undefined when the job has no output. */
  readonly at?: string;
  /** Undefined: the job failed, was silent, or its output cannot be read. */
  readonly answer?: string;
}

interface ContextDeps {
  readonly store: Store;
  readonly log: Log;
  readonly outputFolder: string;
  readonly settings: Pick<CronSettings, "silentMatch">;
}

/** Returns the newest outputs of jobs, in the order of the ids. A file that cannot be read does not reject. */
async function readContexts(deps: ContextDeps, jobIds: readonly string[]): Promise<readonly JobOutput[]> {
  return Promise.all(jobIds.map((jobId) => readContext(deps, jobId)));
}

async function readContext(deps: ContextDeps, jobId: string): Promise<JobOutput> {
  const job = await deps.store.find("cron_jobs", { id: jobId });
  const name = redact(job?.name ?? jobId);
  try {
    const [file] = await listOutputs(deps.outputFolder, jobId);
    if (file === undefined) return { name };
    const at = file.replace(/\.md$/, "");
    const document = await readOutput(deps.outputFolder, { jobId, file });
    const answer = document === undefined ? undefined : responseOf(document);
    if (!answer || isSilent(answer, deps.settings.silentMatch)) return { name, at };
    return { name, at, answer: redact(answer) };
  } catch (error) {
    deps.log.warn("cannot read the output of a job that another job uses", { job: jobId, error });
    return { name };
  }
}
