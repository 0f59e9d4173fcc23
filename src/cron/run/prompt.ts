import { loadSkill, skillInstructions, type LoadedSkill } from "../../agent/skills/load-skill.ts";
import type { Claimed } from "../tick/claim.ts";
import type { CronDeps } from "../deps.ts";
import type { ScriptOutcome } from "./script.ts";
import { Fence } from "../../agent/context/fence.ts";
import { FAILURE_MARK, isSilent } from "./ending.ts";
import type { JobDefinition } from "../job/job.ts";
import { scanAssembled } from "../job/scan.ts";
import { zonedTime } from "../schedule/zoned-time.ts";
import type { Store } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import type { Timing } from "../tick/occurrence.ts";
import type { Log } from "../../base/observe/log.ts";
import { redact } from "../../base/observe/redact.ts";
import { responseOf } from "../output/output.ts";
import { listOutputs, readOutput } from "../output/outputs.ts";
import type { CronSettings } from "../settings.ts";

/** The prompt of an occurrence, with what has to be read for it. */
export async function assemblePrompt(
  deps: CronDeps,
  { occurrence, job }: Claimed,
  script: ScriptOutcome | undefined,
): Promise<ReturnType<typeof jobPrompt>> {
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
    return (await loadSkill(skills, name, cwd)) ?? { name, problem: "there is none of that name" };
  } catch (error) {
    log.warn("a skill of a job cannot be read; the run goes on without", { skill: name, error });
    return { name, problem: "it cannot be read" };
  }
}

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
  return fence.around(excerpt(scanAssembled(text).text, characters));
}

/** The beginning and, three times as much, the end. */
function excerpt(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const head = Math.floor(characters / 4);
  const tail = characters - head;
  const cut = text.length - characters;
  return `${text.slice(0, head)}\n[... ${cut} characters cut here ...]\n${text.slice(-tail)}`.toWellFormed();
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

/** How far an occurrence is behind its time. */
export interface Lateness {
  readonly timing: Timing;
  readonly scheduledAtMs: number;
  /** The instants before it that nobody ran. */
  readonly missed?: { readonly fromMs: number; readonly untilMs: number; readonly count: number };
}

export async function readLateness(store: Store, occurrence: OccurrenceRow): Promise<Lateness> {
  const { job_id: jobId, scheduled_at: scheduledAtMs, claimed_at: claimedAt } = occurrence;
  const timing = occurrence.timing as Timing;
  if (timing !== "catch_up") return { timing, scheduledAtMs };
  // Those were written down in the transaction of the claim.
  const row = await store.find("occurrences", { job_id: jobId, claimed_at: claimedAt, status: "missed" });
  if (!row) return { timing, scheduledAtMs };
  const { scheduled_at: fromMs, covers_until: untilMs, covers_count: count } = row;
  return { timing, scheduledAtMs, missed: { fromMs, untilMs: untilMs ?? fromMs, count } };
}

/** What the agent is told of it; undefined when it is in time. */
export function latenessNotice(
  { timing, scheduledAtMs, missed }: Lateness,
  zone: string,
): string | undefined {
  if (timing === "on_time") return undefined;
  const due = `It was due at ${zonedTime(scheduledAtMs, zone)} and begins late: mind that where the task speaks of times.`;
  if (!missed) return due;
  const [from, until] = [zonedTime(missed.fromMs, zone), zonedTime(missed.untilMs, zone)];
  const which = missed.count === 1 ? `the run of ${from}` : `${missed.count} runs, from ${from} to ${until}`;
  return `${due} It also stands for what was missed while no scheduler was at work: ${which}. Do the task once for all of them.`;
}

/** The newest output of a job. */
export interface JobContext {
  readonly name: string;
  /** When it was, as the name of its file says it; undefined: there is none. */
  readonly at?: string;
  /** Undefined: it failed, had nothing to say, or cannot be read. */
  readonly answer?: string;
}

export interface ContextDeps {
  readonly store: Store;
  readonly log: Log;
  readonly outputFolder: string;
  readonly settings: Pick<CronSettings, "silentMatch">;
}

/** In the order of the ids. Never rejects for what is wrong with a file. */
export async function readContexts(
  deps: ContextDeps,
  jobIds: readonly string[],
): Promise<readonly JobContext[]> {
  return Promise.all(jobIds.map((jobId) => readContext(deps, jobId)));
}

async function readContext(deps: ContextDeps, jobId: string): Promise<JobContext> {
  const job = await deps.store.find("cron_jobs", { id: jobId });
  const name = redact(job?.name ?? jobId);
  try {
    const [file] = await listOutputs(deps.outputFolder, jobId);
    if (file === undefined) return { name };
    const at = file.replace(/\.md$/, "");
    const document = await readOutput(deps.outputFolder, { jobId, file });
    const answer = document === undefined ? undefined : responseOf(document);
    const isTold = answer !== undefined && answer !== "" && !isSilent(answer, deps.settings.silentMatch);
    return isTold ? { name, at, answer: redact(answer) } : { name, at };
  } catch (error) {
    deps.log.warn("the output of a job that another builds on cannot be read", { job: jobId, error });
    return { name };
  }
}
