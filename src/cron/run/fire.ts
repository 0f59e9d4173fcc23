/** Runs an occurrence: its script, then the prompt of its agent. Touches the machine. */
import type { Prompt, RunInput } from "../../agent/run/run.ts";
import { ServiceError, toServiceError } from "../../base/errors.ts";
import { createSessionId, excerptOf, isBlank, toReadable, Fence } from "../../base/text.ts";
import { redact, type Log } from "../../base/observe.ts";
import { UNLEASED } from "../../store/tx/tx.ts";
import type { Tx, Store } from "../../store/store.ts";
import type { OccurrenceRow, RunRow } from "../../store/schema/tables.ts";
import type { CronDeps, CronSettings } from "../deps.ts";
import {
  jobToolsets,
  toolsetNames,
  type JobDefinition,
  zonedTime,
  type Timing,
  changeOccurrence,
} from "../job/job.ts";
import type { Claimed } from "../tick/claim.ts";
import { endOccurrence, listOutputs, readOutput } from "./end.ts";
import {
  clip,
  type Ending,
  FAILURE_MARK,
  isSilent,
  planOccurrence,
  type DeliveryPlan,
  responseOf,
} from "./result.ts";
import { findBlock, scanAssembled } from "../job/check.ts";
import { commandEnvironment } from "../../exec/process-group.ts";
import { describeScriptFailure, findScriptFile, runScriptFile } from "../../exec/script-file.ts";
import { isRecord } from "../../base/data.ts";

/**
 * Runs a claimed occurrence: its script, if it has one, and its agent, unless the script is enough. Resolves when the
 * occurrence has ended, or another process has taken it over; never rejects. Until its script or its run has started, a
 * crash leaves it claimed for another process, and so does an end that cannot be written.
 */
export async function fire(deps: CronDeps, claimed: Claimed): Promise<void> {
  const firing = new Firing(deps, claimed);
  try {
    await firing.run();
  } catch (error) {
    await firing.fail(error).catch((cause: unknown) =>
      deps.log.error("cannot record the end of a job's run", {
        job: claimed.job.id,
        occurrence: claimed.occurrence.id,
        error: cause,
      }),
    );
  }
}

/** Thrown inside the transaction that would start something: another process has the claim now. */
class LostClaim extends Error {
  override readonly name = "LostClaim";
}

const CUT_OFF = "The server was shut down after the script, before the agent started.";

class Firing {
  readonly #deps: CronDeps;
  readonly #claimed: Claimed;
  /** The script has started: nothing of the occurrence may run a second time. */
  #hasStarted = false;
  /** The result, even when it could not be written yet. */
  #ending: Ending | undefined;

  constructor(deps: CronDeps, claimed: Claimed) {
    this.#deps = deps;
    this.#claimed = claimed;
  }

  async run(): Promise<void> {
    const { definition } = this.#claimed.job;
    const block = await findBlock(this.#deps, definition);
    if (block !== undefined) return this.#end(blockedEnding(this.#claimed, block));
    const script = await this.#runScript();
    const ending = script && endingOfScript(definition.isScriptOnly, script);
    if (ending) return this.#end(ending);
    const { text, problem } = await assemblePrompt(this.#deps, this.#claimed, script);
    if (problem !== undefined) return this.#end(blockedEnding(this.#claimed, problem));
    await this.#runAgent(text);
  }

  async fail(error: unknown): Promise<void> {
    if (error instanceof LostClaim) return;
    const { code, message } = toServiceError(error);
    const isStoreDown = code === "state_store_unavailable";
    if ((isStoreDown || code === "server_draining") && !this.#hasStarted) return this.#release();
    if (isStoreDown && this.#ending) return this.#end(this.#ending);
    this.#deps.log.warn("cannot run a job", { job: this.#claimed.job.id, error });
    const text = code === "server_draining" ? CUT_OFF : message;
    await this.#end({ status: "failed", text: redact(text) });
  }

  /** Matches the occurrence while this process holds it and it has no run. */
  get #mine(): Partial<OccurrenceRow> & Pick<OccurrenceRow, "id"> {
    const { id } = this.#claimed.occurrence;
    return { id, lease_owner: this.#deps.store.owner, run_id: null, ended_at: null };
  }

  get #plan(): DeliveryPlan {
    return planOccurrence(this.#claimed, this.#deps);
  }

  async #runScript(): Promise<ScriptOutcome | undefined> {
    const { script, workdir } = this.#claimed.job.definition;
    if (script === undefined) return undefined;
    if (this.#deps.runs.draining) throw new ServiceError("server_draining", "The server is shutting down.");
    await this.#deps.store.write(async (tx) => {
      const started = { status: "running", started_at: tx.nowMs };
      if (!(await changeOccurrence(tx, { ...this.#mine, status: "claimed" }, started))) throw new LostClaim();
    });
    this.#hasStarted = true;
    const outcome = await runJobScript(this.#deps, script, workdir);
    if (outcome.status === "failed") {
      const { id: job } = this.#claimed.job;
      this.#deps.log.warn("the script of a job failed", { job, script, reason: outcome.reason });
    }
    return outcome;
  }

  /** Resolves when the run has ended. */
  async #runAgent(text: string): Promise<void> {
    const { ends } = this.#deps;
    const { id } = this.#claimed.occurrence;
    const prompt = jobRun(this.#deps, this.#claimed, { plan: this.#plan, text });
    const ended = ends.wait(id);
    try {
      await this.#submit({ ...prompt, alsoRecord: (tx, run) => this.#record(tx, run) });
      await ended;
    } finally {
      ends.resolve(id);
    }
  }

  /** Waits while too many runs are active: a job has no client that could retry. */
  async #submit(prompt: Prompt): Promise<void> {
    const { runs, clock } = this.#deps;
    for (;;) {
      try {
        return void (await runs.submit(prompt));
      } catch (error) {
        if (!(error instanceof ServiceError) || error.code !== "too_many_concurrent_runs") throw error;
        await clock.sleep((error.retryAfterSeconds ?? 1) * 1000);
      }
    }
  }

  async #record(tx: Tx, run: Pick<RunRow, "id" | "session_id" | "status">): Promise<void> {
    const starts = run.status === "running" && !this.#hasStarted;
    const started = starts ? { status: "running", started_at: tx.nowMs } : {};
    const columns = { run_id: run.id, session_id: run.session_id, ...started };
    if (!(await changeOccurrence(tx, this.#mine, columns))) throw new LostClaim();
  }

  async #end(ending: Ending): Promise<void> {
    const { store } = this.#deps;
    this.#ending = ending;
    const end = { plan: this.#plan, ending, isMine: true };
    await store.write((tx) => endOccurrence(tx, store, end));
  }

  /** Releases the claim for the next process that looks for claims. */
  async #release(): Promise<void> {
    await this.#deps.store.write((tx) =>
      tx.update("occurrences", { ...this.#mine, status: "claimed" }, UNLEASED),
    );
  }
}

/** Reports a reason once: it is not delivered again while it stays the same, except for a manual run. */
function blockedEnding({ occurrence, job }: Claimed, reason: string): Ending {
  const text = clip(reason, MAX_REASON_CHARACTERS);
  const isKnown = job.lastStatus === "blocked_config" && job.lastError === text;
  return {
    status: "failed",
    lastStatus: "blocked_config",
    text,
    isQuiet: isKnown && occurrence.cause !== "manual",
  };
}

/** Shorter than the last error that a job keeps, so that the two compare equal. */
const MAX_REASON_CHARACTERS = 400;

/** Returns the prompt of an occurrence's run. Each run has a session of its own; `plan` says where its result goes. */
function jobRun(
  deps: CronDeps,
  { occurrence, job }: Claimed,
  { plan, text }: { readonly plan: DeliveryPlan; readonly text: string },
): Prompt {
  const { name, workdir, model } = job.definition;
  const ref = model === undefined ? undefined : deps.models.resolve(model);
  const stamp = (occurrence.output_file ?? "").replace(/\.md$/, "").replaceAll("-", "");
  return {
    address: {
      owner: job.owner,
      id: createSessionId(deps.clock.now()),
      key: `cron_${job.id}_${stamp}`,
    },
    seed: {
      source: "cron",
      title: name,
      transient: true,
      ...(workdir === undefined ? {} : { cwd: workdir }),
    },
    kind: "run",
    input: inputOf(deps, job.definition, text),
    ...(ref ? { model: ref } : {}),
    delivery: JSON.stringify(plan),
  };
}

function inputOf({ settings, toolsets }: CronDeps, job: JobDefinition, text: string): RunInput {
  const { reasoningEffort, inactivitySeconds, tokenBudget = settings.runTokenBudget } = job;
  return {
    prompt: [{ role: "user", text }],
    settings: reasoningEffort === undefined ? {} : { reasoningEffort },
    toolsets: jobToolsets(job, settings, toolsetNames(toolsets)),
    answerable: false,
    isDetached: true,
    inactivityMs: inactivitySeconds === undefined ? settings.inactivityMs : inactivitySeconds * 1000,
    ...(tokenBudget === undefined ? {} : { tokenBudget }),
    slot: { group: "cron" },
  };
}

export type ScriptOutcome =
  /** Readable and without secrets; empty when it printed nothing visible. */
  | { readonly status: "printed"; readonly text: string }
  /** It asks to skip the agent. */
  | { readonly status: "asleep" }
  | { readonly status: "failed"; readonly reason: string };

export type ScriptDeps = Pick<CronDeps, "scriptsFolder" | "envPassthrough"> & {
  readonly settings: Pick<CronDeps["settings"], "scriptTimeoutMs">;
};

/** Runs a file in the folder of scripts, in `cwd` or else in its own folder. Never rejects. */
export async function runJobScript(
  { scriptsFolder, envPassthrough, settings }: ScriptDeps,
  script: string,
  cwd?: string,
): Promise<ScriptOutcome> {
  const path = await findScriptFile(script, scriptsFolder);
  if (path === undefined)
    return { status: "failed", reason: "there is no such file in the folder of scripts" };
  const ended = await runScriptFile(path, {
    env: commandEnvironment(envPassthrough, {}),
    timeoutMs: settings.scriptTimeoutMs,
    ...(cwd === undefined ? {} : { cwd }),
  });
  if (!("output" in ended)) return { status: "failed", reason: describeScriptFailure(ended) };
  const text = textOf(ended.output);
  return isAsleep(text) ? { status: "asleep" } : { status: "printed", text };
}

/** Returns the result of an occurrence that needs no agent; undefined when the agent must run. */
export function endingOfScript(isScriptOnly: boolean, outcome: ScriptOutcome): Ending | undefined {
  if (outcome.status === "asleep") return quiet("The script reported nothing to do.");
  if (!isScriptOnly) return undefined;
  if (outcome.status === "failed") return { status: "failed", text: `The script failed: ${outcome.reason}.` };
  return outcome.text === "" ? quiet("The script printed nothing.") : { status: "ok", text: outcome.text };
}

const quiet = (why: string): Ending => ({ status: "ok", text: `[SILENT] ${why}`, isQuiet: true });

/** Colours and cursor movements of a terminal. */
// oxlint-disable-next-line no-control-regex -- escape sequences begin with one
const TERMINAL_CODES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]{0,2000}(?:\u0007|\u001b\\))/g;

function textOf(output: Uint8Array): string {
  const text = toReadable(new TextDecoder().decode(output).replace(TERMINAL_CODES, ""));
  return isBlank(text) ? "" : redact(text.trim());
}

/** Whether the last line is a JSON object with `"wakeAgent": false`. */
function isAsleep(text: string): boolean {
  const last = text.slice(text.lastIndexOf("\n") + 1).trim();
  if (!last.startsWith("{")) return false;
  try {
    const value: unknown = JSON.parse(last);
    return isRecord(value) && value["wakeAgent"] === false;
  } catch {
    return false;
  }
}

/** A skill of a job, or why it cannot be loaded. */
type LoadedSkill = NonNullable<Awaited<ReturnType<CronDeps["skills"]["load"]>>>;
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
async function assemblePrompt(
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
    return (await skills.load(name, cwd)) ?? { name, problem: "it does not exist" };
  } catch (error) {
    log.warn("cannot read a skill of a job; the run continues without it", { skill: name, error });
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
  "- To send a file along, write MEDIA: and its path on a line of its own. It must be in the working directory or in the workspace.",
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
  return fence.around(excerptOf(scanAssembled(text).text, characters));
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
    return `${skill.prompt}${variablesNotice(skill)}`;
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
