/** Options of `agentd cron create` and `edit`: what they are called, and what was said with them. Pure. */
import type { ArgsDef } from "citty";
import { UsageError } from "../kit/arguments.ts";
import { commaList, jsonOption, repeatedOption } from "../kit/options.ts";
import { ServiceError } from "../../base/errors.ts";
import { createJobContext } from "../../cron/job/context.ts";
import type { JobContext, JobChange } from "../../cron/job/input.ts";
import type { JobModels } from "../../cron/job/fields.ts";
import type { CronHome, CronContext } from "./home.ts";
import { readStandardInput } from "../kit/streams.ts";

const text = (valueHint: string, description: string) =>
  ({ type: "string", valueHint, description }) as const;
const flag = (description: string) => ({ type: "boolean", description }) as const;

/** Of both commands. */
export const definitionArgs = {
  name: text("text", "What to call it; without one the start of the prompt"),
  deliver: text(
    "target",
    "Where the answer goes, several with commas or given again: origin, local, all, telegram, telegram:CHAT[:THREAD], sms:+15550100, ...; local only keeps it as a file",
  ),
  "failure-deliver": text("target", "Where failures are told instead, in the same forms"),
  repeat: text("number", "How often it runs; forever for no end. One-shots run once"),
  skill: text("name", "Skill that is loaded, in their order; may be given again"),
  script: text("file", "File in <home>/scripts that runs first; what it prints is shown to the agent"),
  "no-agent": flag("What the script prints is the message; no agent runs"),
  "context-from": text("job", "Job whose newest output the agent is shown; may be given again"),
  workdir: text("folder", "Where the tools work, instead of the workspace"),
  model: text("model", "Model, or provider:model, instead of the default"),
  provider: text("name", "Provider of --model"),
  "reasoning-effort": text("level", "How much the model thinks, where it can be told"),
  toolsets: text("a,b", "Sets of tools, instead of cron.toolsets"),
  tz: text(
    "zone",
    "IANA zone in which the schedule is read, such as Europe/Berlin; without it that of the configuration",
  ),
  "catch-up": flag("Run once for what was missed, whatever cron.catch_up_missed says"),
  "no-catch-up": flag("Never run for what was missed"),
  grace: text("seconds", "How late a run may begin before its instant counts as missed"),
  overlap: {
    type: "enum" as const,
    options: ["skip", "allow"],
    description: "At an instant while the run before is at work: skip it, or run beside it",
  },
  jitter: text("seconds", "Begin each run up to so much later, so that not all begin at once"),
  "token-budget": text("number", "Tokens a run may use"),
  inactivity: text("seconds", "Stop a run in which nothing happens for so long; 0 never"),
  json: jsonOption,
} satisfies ArgsDef;

/** The last value of an option that is given; undefined when it is not, and "" when it is empty. */
export function optionOf(words: readonly string[], name: string): string | undefined {
  return repeatedOption(words, name).at(-1);
}

/** All values of one that may be given again, or hold several with commas. Undefined: it is not given. */
export function listOption(words: readonly string[], name: string): readonly string[] | undefined {
  const values = repeatedOption(words, name);
  return values.length === 0 ? undefined : values.flatMap(commaList);
}

/** Whether a switch is there, as `normalizeArguments` leaves it: the parser reads `--no-x` as the opposite of `--x`. */
export function hasSwitch(words: readonly string[], name: string): boolean {
  const end = words.indexOf("--");
  return words.slice(0, end < 0 ? words.length : end).includes(`--${name}`);
}

/** True for the first, false for the second, undefined for neither. UsageError for both. */
export function eitherSwitch(words: readonly string[], yes: string, no: string): boolean | undefined {
  const [isYes, isNo] = [hasSwitch(words, yes), hasSwitch(words, no)];
  if (isYes && isNo) throw new UsageError(`--${yes} and --${no} contradict each other.`);
  return isYes ? true : isNo ? false : undefined;
}

/** Undefined when the option is not given, null when it is empty. UsageError for what is no number. */
export function numberOption(words: readonly string[], name: string): number | null | undefined {
  const given = optionOf(words, name)?.trim();
  if (given === undefined) return undefined;
  if (given === "") return null;
  if (/^-?\d{1,15}$/.test(given)) return Number(given);
  throw new UsageError(`--${name} must be a whole number, not ${JSON.stringify(given)}.`);
}

/** What the options say; what they do not is undefined, and what is empty is null. UsageError for what contradicts. */
export function inputOf(words: readonly string[]): JobChange {
  const text = (name: string) => emptyAsNull(optionOf(words, name));
  const list = (name: string) => emptyListAsNull(listOption(words, name));
  const provider = optionOf(words, "provider");
  const model = optionOf(words, "model");
  if (provider && !model) throw new UsageError("--provider needs --model.");
  return {
    name: text("name"),
    deliver: list("deliver"),
    failureDeliver: list("failure-deliver"),
    repeat: text("repeat"),
    skills: list("skill"),
    script: text("script"),
    isScriptOnly: hasSwitch(words, "no-agent") ? true : undefined,
    contextFrom: list("context-from"),
    workdir: text("workdir"),
    model: provider ? `${provider}:${model}` : text("model"),
    reasoningEffort: text("reasoning-effort"),
    toolsets: list("toolsets"),
    tokenBudget: numberOption(words, "token-budget"),
    inactivitySeconds: numberOption(words, "inactivity"),
    zone: text("tz"),
    catchUp: eitherSwitch(words, "catch-up", "no-catch-up"),
    misfireGraceSeconds: numberOption(words, "grace"),
    overlap: text("overlap"),
    jitterSeconds: numberOption(words, "jitter"),
  };
}

/** `-` stands for what is piped in. */
export async function readPromptOption(text: string | undefined): Promise<string | undefined> {
  if (text !== "-") return text;
  const piped = await readStandardInput();
  if (piped.trim() === "") throw new UsageError("Standard input, which - stands for, is empty.");
  return piped;
}

/** What the wish is judged by. Models are only looked for where one is named: that may ask servers on this machine. */
export async function contextOf(
  place: CronHome & Partial<CronContext>,
  { model }: Pick<JobChange, "model">,
): Promise<JobContext> {
  const { config, settings, jobs, scriptsFolder } = place;
  return createJobContext({
    nowMs: Date.now(),
    zone: settings.zone,
    models: model ? await loadJobModels() : NO_MODELS,
    toolsets: config.agent.toolsets,
    findJob: async (ref) => (jobs ? jobs.find(ref) : refuse(ref)),
    scriptsFolder,
  });
}

function refuse(ref: string): never {
  throw new ServiceError("not_found", `There is no job ${JSON.stringify(ref)}: there are none yet.`);
}

const NO_MODELS: JobModels = { resolve: () => undefined, providers: [] };

async function loadJobModels(): Promise<JobModels> {
  const { loadModels } = await import("../model/deps.ts");
  return (await loadModels()).models;
}

function emptyAsNull(text: string | undefined): string | null | undefined {
  return text?.trim() === "" ? null : text;
}

function emptyListAsNull(list: readonly string[] | undefined): readonly string[] | null | undefined {
  return list?.length === 0 ? null : list;
}
