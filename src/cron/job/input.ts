/** Builds the definition of a job from the input of people, tools and files. */
import { type Job, type JobDefinition, refusal } from "./job.ts";
import * as fields from "./fields.ts";
import type { JobModels, JobChange, JobInput } from "./fields.ts";
import { lifecycleProblem, scanPrompt } from "./scan.ts";
import { parseSchedule } from "../schedule/text.ts";
import { type Schedule, formatSchedule } from "../schedule/schedule.ts";
import { zoneProblem } from "../../base/zone.ts";
import { nextRunMs } from "../schedule/instants.ts";

/** What the checks of a definition need. */
export interface JobContext {
  readonly nowMs: number;
  /** Time zone of jobs that name none. */
  readonly zone: string;
  readonly models: JobModels;
  /** Names of all toolsets; undefined when they are not known. */
  readonly toolsets?: readonly string[] | undefined;
  /** Rejects with a ServiceError when no job, or more than one, matches. */
  readonly findJob: (ref: string) => Promise<Pick<Job, "id">>;
  /** Returns the start of a file in the folder of scripts; undefined when it does not exist. */
  readonly readScript: (script: string) => Promise<string | undefined>;
  readonly isFolder: (path: string) => Promise<boolean>;
}

/**
 * Returns the definition of a new job. ServiceError `invalid_request` for an invalid field: `param` is its name in snake
 * case, and the message says what is valid.
 */
export async function defineJob(input: JobInput, jobContext: JobContext): Promise<JobDefinition> {
  return complete({}, input, jobContext);
}

/** Returns a definition with changes. Throws like {@link defineJob}. */
export async function changeJob(
  definition: JobDefinition,
  change: JobChange,
  jobContext: JobContext,
): Promise<JobDefinition> {
  return complete(definition, change, jobContext);
}

type Before = Partial<JobDefinition>;

async function complete(before: Before, change: JobChange, jobContext: JobContext): Promise<JobDefinition> {
  const timing = readTiming(before, change, jobContext);
  const payload = await readPayload(before, change, jobContext);
  const name = fields.readName(change.name, before.name, payload);
  const whole = {
    name,
    ...timing,
    ...payload,
    ...fields.readTargets(change, before),
    ...(await readSurroundings(before, change, jobContext)),
    ...fields.readLimits(change, before),
  };
  return withoutUndefined(whole);
}

type Timing = Pick<
  JobDefinition,
  "schedule" | "zone" | "repeat" | "catchUp" | "misfireGraceSeconds" | "overlap" | "jitterSeconds"
>;

function readTiming(before: Before, change: JobChange, jobContext: JobContext): Timing {
  const zone = fields.given(change.zone, before.zone) ?? jobContext.zone;
  const problem = zoneProblem(zone);
  if (problem !== undefined) throw refusal("zone", problem);
  const schedule = readSchedule(before, change, { nowMs: jobContext.nowMs, zone });
  const kept = before.schedule?.kind === schedule.kind ? before : {};
  const timing = {
    zone,
    schedule,
    repeat: fields.readRepeat(change.repeat, kept.repeat, schedule),
    ...fields.readMisfire(change, kept, schedule),
    overlap: fields.readOverlap(change.overlap, before.overlap),
    jitterSeconds: fields.readJitter(change.jitterSeconds, kept.jitterSeconds),
  };
  const excess = jitterProblem(timing, jobContext.nowMs);
  if (excess !== undefined) throw refusal("jitter_seconds", excess);
  return timing;
}

function readSchedule(
  before: Before,
  { schedule }: JobChange,
  at: { readonly nowMs: number; readonly zone: string },
): Schedule {
  if (schedule !== undefined && schedule !== null) return parseSchedule(schedule, at);
  if (before.schedule && schedule === undefined) return before.schedule;
  return parseSchedule("", at);
}

type Payload = Pick<JobDefinition, "prompt" | "skills" | "script" | "isScriptOnly">;

async function readPayload(before: Before, change: JobChange, jobContext: JobContext): Promise<Payload> {
  const prompt = fields.readPrompt(change.prompt, before.prompt);
  const threat = scanPrompt(prompt) ?? lifecycleProblem(prompt, "prompt");
  if (threat !== undefined && change.prompt !== undefined) throw refusal("prompt", threat);
  const skills = fields.readSkills(change, before.skills);
  const script = fields.given(change.script, before.script);
  if (script !== undefined && change.script !== undefined) await requireScript(script, jobContext);
  const isScriptOnly =
    (change.isScriptOnly === undefined ? before.isScriptOnly : change.isScriptOnly) ?? false;
  if (isScriptOnly && script === undefined)
    throw refusal("script", "A job without the agent needs a script: its output is the message.");
  if (prompt.trim() === "" && skills.length === 0 && script === undefined)
    throw refusal("prompt", "The job has nothing to do: set a prompt, a skill or a script.");
  return { prompt, skills, ...(script === undefined ? {} : { script }), isScriptOnly };
}

async function requireScript(script: string, { readScript }: JobContext): Promise<void> {
  const formProblem = fields.scriptProblem(script);
  if (formProblem !== undefined) throw refusal("script", formProblem);
  const text = await readScript(script);
  if (text === undefined) {
    const what = `The file ${JSON.stringify(script)} does not exist in <home>/scripts.`;
    throw refusal("script", `${what} Put it there, and use its path from that folder.`);
  }
  const problem = lifecycleProblem(text, "script");
  if (problem !== undefined) throw refusal("script", problem);
}

type Surroundings = Pick<JobDefinition, "contextFrom" | "workdir" | "model" | "reasoningEffort" | "toolsets">;

async function readSurroundings(
  before: Before,
  change: JobChange,
  jobContext: JobContext,
): Promise<Surroundings> {
  const { contextFrom, workdir: folder } = change;
  const workdir = fields.given(folder, before.workdir);
  if (typeof folder === "string" && workdir !== undefined && !(await jobContext.isFolder(workdir))) {
    throw refusal(
      "workdir",
      `${JSON.stringify(workdir.slice(0, 200))} is not a folder. Use the absolute path of an existing folder.`,
    );
  }
  return {
    contextFrom:
      contextFrom === undefined ? (before.contextFrom ?? []) : await idsOf(contextFrom ?? [], jobContext),
    workdir,
    model: fields.readModel(change.model, before.model, jobContext.models),
    reasoningEffort: fields.readEffort(change.reasoningEffort, before.reasoningEffort),
    toolsets: fields.readToolsets(change.toolsets, before.toolsets, jobContext.toolsets),
  };
}

async function idsOf(refs: readonly string[], { findJob }: JobContext): Promise<readonly string[]> {
  fields.requireList("context_from", refs, fields.MAX_CONTEXTS);
  const ids = [];
  for (const ref of refs) {
    const found = await findJob(ref).catch((error: unknown) => {
      throw refusal("context_from", error instanceof Error ? error.message : String(error));
    });
    ids.push(found.id);
  }
  return [...new Set(ids)];
}

function withoutUndefined(whole: JobDefinition): JobDefinition {
  return Object.fromEntries(
    Object.entries(whole).filter(([, value]) => value !== undefined),
  ) as unknown as JobDefinition;
}

const MAX_JITTER_SECONDS = 86_400;
/** Instants of an expression that are checked: more than a year of days. */
const MAX_INSTANTS = 400;

/** Returns why a jitter is refused; undefined when every run starts before the next instant. */
function jitterProblem(
  { schedule, zone, jitterSeconds }: Pick<JobDefinition, "schedule" | "zone" | "jitterSeconds">,
  nowMs: number,
): string | undefined {
  if (jitterSeconds === 0) return undefined;
  if (schedule.kind === "once") return "A job that runs once starts at its time: leave the jitter out.";
  const shortest = Math.min(shortestPeriodMs(schedule, nowMs, zone) / 1000 - 1, MAX_JITTER_SECONDS);
  if (jitterSeconds <= shortest) return undefined;
  const why =
    shortest === MAX_JITTER_SECONDS
      ? ""
      : `, less than the time between two runs of ${formatSchedule(schedule)}`;
  return `The jitter is at most ${Math.floor(shortest)} seconds here${why}.`;
}

function shortestPeriodMs(schedule: Schedule, nowMs: number, zone: string): number {
  if (schedule.kind === "interval") return schedule.minutes * 60_000;
  let shortest = Number.POSITIVE_INFINITY;
  let before = nextRunMs(schedule, nowMs, zone);
  for (let count = 0; before !== undefined && count < MAX_INSTANTS; count++) {
    const next = nextRunMs(schedule, before, zone);
    if (next === undefined) break;
    shortest = Math.min(shortest, next - before);
    before = next;
  }
  return shortest;
}
