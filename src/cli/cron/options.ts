/** Options of `agentd cron create` and `edit`: what they are called, and what was said with them. Pure. */
import type { ArgsDef } from "citty";
import { UsageError } from "../kit/arguments.ts";
import { commaList, repeatedOption } from "../webhook/options.ts";

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
  json: flag("Print JSON"),
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
