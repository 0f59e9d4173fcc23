/** The options of `agentd cron create` and `edit`, and how they become the input of a job. */
import type { ArgsDef } from "citty";
import { UsageError } from "../kit/arguments.ts";
import { commaList, jsonOption, repeatedOption, switchOption, textOption } from "../kit/options.ts";
import type { UpdateJobBody } from "../../client/http.ts";
import { readStandardInput } from "../kit/streams.ts";

/** The options of both commands. */
export const definitionArgs = {
  name: textOption("text", "Name of the job. Default: the start of the prompt"),
  deliver: textOption(
    "target",
    "Where to send the answer: origin, local, all, telegram, telegram:CHAT[:THREAD], sms:+15550100 and so on. local only saves it as a file. Comma-separated or repeatable",
  ),
  "failure-deliver": textOption("target", "Where to report failures instead, in the same format"),
  repeat: textOption("number", "Number of runs, or forever. One-shot jobs run once"),
  skill: textOption("name", "Skill to load. Repeatable, loaded in order"),
  script: textOption("file", "File in <home>/scripts to run first. The agent sees its output"),
  "no-agent": switchOption("Send the output of the script as the message, without running the agent"),
  "context-from": textOption("job", "Job whose latest output the agent sees. Repeatable"),
  workdir: textOption("folder", "Working folder of the tools. Default: the workspace"),
  model: textOption("model", "Model or provider:model. Default: model.default"),
  provider: textOption("name", "Provider of --model"),
  "reasoning-effort": textOption("level", "Reasoning effort, for models that support it"),
  toolsets: textOption("a,b", "Toolsets. Default: cron.toolsets"),
  tz: textOption(
    "zone",
    "IANA time zone of the schedule, such as Europe/Berlin. Default: the configured zone",
  ),
  "catch-up": switchOption("Catch up on missed runs with one run, regardless of cron.catch_up_missed"),
  "no-catch-up": switchOption("Never catch up on missed runs"),
  grace: textOption("seconds", "How late a run may start before it counts as missed"),
  overlap: {
    type: "enum" as const,
    options: ["skip", "allow"],
    description: "Skip or allow a run while the previous one is still running",
  },
  jitter: textOption("seconds", "Delay each run by a random time up to this, to spread the load"),
  "token-budget": textOption("number", "Token limit of a run"),
  inactivity: textOption("seconds", "Stop a run after this time without activity; 0 disables it"),
  json: jsonOption,
} satisfies ArgsDef;

/** Returns the last value of an option, "" if it is empty, or undefined if it is absent. */
export function optionOf(words: readonly string[], name: string): string | undefined {
  return repeatedOption(words, name).at(-1);
}

/** Returns all values of a repeatable or comma-separated option, or undefined if it is absent. */
export function listOption(words: readonly string[], name: string): string[] | undefined {
  const values = repeatedOption(words, name);
  return values.length === 0 ? undefined : values.flatMap(commaList);
}

/** Returns whether normalized words have a switch. The parser itself would read `--no-x` as the negation of `--x`. */
export function hasSwitch(words: readonly string[], name: string): boolean {
  const end = words.indexOf("--");
  return words.slice(0, end < 0 ? words.length : end).includes(`--${name}`);
}

/** Returns true for the first switch, false for the second, undefined for neither. UsageError for both. */
export function eitherSwitch(words: readonly string[], yes: string, no: string): boolean | undefined {
  const [isYes, isNo] = [hasSwitch(words, yes), hasSwitch(words, no)];
  if (isYes && isNo) throw new UsageError(`--${yes} and --${no} cannot be combined.`);
  return isYes ? true : isNo ? false : undefined;
}

/** Returns the number, null if the option is empty, or undefined if it is absent. UsageError for other values. */
export function numberOption(words: readonly string[], name: string): number | null | undefined {
  const given = optionOf(words, name)?.trim();
  if (given === undefined) return undefined;
  if (given === "") return null;
  if (/^-?\d{1,15}$/.test(given)) return Number(given);
  throw new UsageError(`--${name} must be a whole number, not ${JSON.stringify(given)}.`);
}

/** Reads the options: absent ones are left out, empty ones null. UsageError for conflicts. */
export function inputOf(words: readonly string[]): Omit<UpdateJobBody, "schedule" | "prompt"> {
  const text = (name: string) => emptyAsNull(optionOf(words, name));
  const list = (name: string) => emptyListAsNull(listOption(words, name));
  const provider = optionOf(words, "provider");
  const model = optionOf(words, "model");
  if (provider && !model) throw new UsageError("--provider requires --model.");
  return withoutAbsent({
    name: text("name"),
    deliver: joined(list("deliver")),
    failure_deliver: joined(list("failure-deliver")),
    repeat: repeatOf(optionOf(words, "repeat")),
    skills: list("skill"),
    script: text("script"),
    no_agent: hasSwitch(words, "no-agent") ? true : undefined,
    context_from: list("context-from"),
    workdir: text("workdir"),
    model: provider ? `${provider}:${model}` : text("model"),
    reasoning_effort: text("reasoning-effort"),
    toolsets: list("toolsets"),
    token_budget: numberOption(words, "token-budget"),
    inactivity_seconds: numberOption(words, "inactivity"),
    time_zone: text("tz"),
    catch_up: eitherSwitch(words, "catch-up", "no-catch-up"),
    misfire_grace_seconds: numberOption(words, "grace"),
    overlap: text("overlap"),
    jitter_seconds: numberOption(words, "jitter"),
  });
}

/** Returns the fields that have a value, or null. */
export function withoutAbsent<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const there = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(there) as { [K in keyof T]: Exclude<T[K], undefined> };
}

const FOREVER = /^(|forever|infinite|infinity|inf|none|always|∞|0|-\d+)$/;

/** Returns a number of runs; null: no limit. */
function repeatOf(given: string | undefined): number | null | undefined {
  if (given === undefined) return undefined;
  const text = given.trim().toLowerCase();
  if (FOREVER.test(text)) return null;
  if (text === "once") return 1;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`--repeat must be a number, once or forever, not ${JSON.stringify(given)}.`);
}

function joined(list: readonly string[] | null | undefined): string | null | undefined {
  return list ? list.join(", ") : list;
}

/** Returns the prompt. Reads standard input for `-`. */
export async function readPromptOption(text: string | undefined): Promise<string | undefined> {
  if (text !== "-") return text;
  const piped = await readStandardInput();
  if (piped.trim() === "") throw new UsageError("Standard input is empty.");
  return piped;
}

function emptyAsNull(text: string | undefined): string | null | undefined {
  return text?.trim() === "" ? null : text;
}

function emptyListAsNull(list: string[] | undefined): string[] | null | undefined {
  return list?.length === 0 ? null : list;
}
