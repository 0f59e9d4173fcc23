/** From the words of `agentd cron create` and `edit` to what is asked of a job, and what it is judged by. */
import { ServiceError } from "../../base/errors.ts";
import { createJobContext } from "../../cron/job/context.ts";
import type { JobContext } from "../../cron/job/input.ts";
import type { JobModels, JobChange } from "../../cron/job/fields.ts";
import { UsageError } from "../kit/arguments.ts";
import { eitherSwitch, hasSwitch, listOption, numberOption, optionOf } from "./options.ts";
import type { CronHome, CronContext } from "./home.ts";
import { readStandardInput } from "../kit/standard-input.ts";

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
