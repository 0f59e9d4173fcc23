/** Builds the definition of a job from the input of people, tools and files. Touches the machine. */
import {
  type Job,
  type JobDefinition,
  refusal,
  type JobModels,
  type JobChange,
  type JobInput,
  type Schedule,
  formatSchedule,
} from "./job.ts";
import * as fields from "./fields.ts";

import { scanPrompt } from "./check.ts";
import { parseSchedule } from "../schedule/text.ts";
import { zoneProblem } from "../../base/suggest.ts";
import { nextRunMs } from "../schedule/instants.ts";
import { open, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { findScriptFile } from "../../exec/script-file.ts";

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
  if (problem !== undefined) throw refusal("time_zone", problem);
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

const MAX_SCRIPT_BYTES = 262_144;

/** Returns the context for `defineJob` and `changeJob`. `scriptsFolder` is absolute. */
export function createJobContext({
  scriptsFolder,
  ...rest
}: Omit<JobContext, "readScript" | "isFolder"> & { readonly scriptsFolder: string }): JobContext {
  return {
    ...rest,
    readScript: (script) => readScript(script, scriptsFolder),
    isFolder: async (path) => isAbsolute(path) && (await isFolder(path)),
  };
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

async function readScript(script: string, folder: string): Promise<string | undefined> {
  const path = await findScriptFile(script, folder);
  if (path === undefined) return undefined;
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read({ buffer: new Uint8Array(MAX_SCRIPT_BYTES) });
    return new TextDecoder().decode(buffer.subarray(0, bytesRead));
  } catch {
    return undefined;
  }
}

const SERVICE = String.raw`["'\x60]?agentd(?:[.@]\S{0,60}|-gateway)?(?![\w-])`;
const VERB = "(?:re)?start|stop|kill|reload|shutdown|disable|try-restart|kickstart|bootout|unload";
const WORDS = String.raw`(?:\s+[^\s;|&\x60]{1,100}){0,6}?\s+`;
const MANAGERS =
  "systemctl|launchctl|(?:docker|podman)(?:[ -]compose)?|kubectl|supervisorctl|pm2|rc-service|initctl|brew\\s+services|nssm";

/** Commands that stop or start the service, as typed. */
const SERVICE_COMMANDS = [
  String.raw`\b(?:${MANAGERS})${WORDS}(?:${VERB}|delete|rm|down)${WORDS}(?:\S{0,60}\/)?${SERVICE}`,
  String.raw`\b(?:service|rc-service|sv|pm2)\s+${SERVICE}\s+(?:${VERB})\b`,
  String.raw`\b(?:pkill|killall)${WORDS}${SERVICE}`,
  String.raw`\bkill\b[^\n;]{0,40}\b(?:pidof|pgrep)\b[^\n;]{0,40}${SERVICE}`,
  String.raw`\b(?:pidof|pgrep)\b[^\n;]{0,40}${SERVICE}[^\n;]{0,20}\|\s*xargs\b[^\n;]{0,20}\bkill\b`,
  String.raw`\bagentd\s+gateway\s+(?:run|${VERB})\b`,
];
const TYPED = new RegExp(SERVICE_COMMANDS.join("|"), "gi");
/** In a script, the command without a verb starts the service too. */
const IN_SCRIPT = new RegExp(
  `${TYPED.source}|^\\s*(?:sudo\\s+|exec\\s+|nohup\\s+)*agentd\\s+gateway\\b`,
  "gim",
);
/** In a prompt, phrases count too. */
const IN_PROMPT = new RegExp(
  String.raw`${TYPED.source}|\b(?:restart|stop|kill|shut\s+down|reboot)\s+(?:the\s+)?agentd(?![\w-])(?!\s+(?:job|session|run)s?\b)|\b(?:run|execute|call|type)\s+["'\x60]?agentd\s+gateway\b(?!\s+setup)`,
  "gi",
);

/** Words that only mention a command. */
const MENTIONED =
  /\b(?:never|not|don['’]?t|without|how\s+to|when\s+to|whether|why|who|did|does|explain|describe|document|documents?|mentions?|mentioning|contains?|says?|about|grep|search|look(?:ing)?\s+for|count|occurrences?|uses?\s+of)\b/i;
const CLAUSE_CHARACTERS = 160;

/** Returns why a text that stops or starts the service is refused; undefined when it does not. */
export function lifecycleProblem(text: string, what: "prompt" | "script"): string | undefined {
  const found = what === "script" ? inScript(text) : inPrompt(text);
  if (found === undefined) return undefined;
  const excerpt = JSON.stringify(found.replace(/\s+/g, " ").trim().slice(0, 80));
  return `The ${what} would stop or start the service that runs the job (${excerpt}), which can become an endless loop. Use the service manager of the system instead.`;
}

function inPrompt(text: string): string | undefined {
  for (const { 0: found, index } of text.matchAll(IN_PROMPT)) {
    const before = text.slice(Math.max(0, index - CLAUSE_CHARACTERS), index);
    const clause = before.split(/[.;:!?\n,]|\b(?:and|then|but)\b/i).at(-1) ?? "";
    if (!MENTIONED.test(clause)) return found;
  }
  return undefined;
}

/** Comments and lines that only print do not count. */
function inScript(text: string): string | undefined {
  const lines = text
    .split("\n")
    .filter((line) => !/^\s*(?:#|\/\/|\*|(?:echo|printf|print|console\.log)\b[^|]*$)/.test(line));
  // Languages other than the shell write the words of a command as a list.
  const plain = lines.map((line) => line.replace(/["',[\]()]+/g, " ")).join("\n");
  return plain.match(IN_SCRIPT)?.[0];
}
