/** The end of setting a platform up: what is set, what still lacks, and a message to see it work. */
import process from "node:process";
import { loadConfig } from "../../config/config.ts";
import { envPath } from "../../config/home.ts";
import { platforms as traits } from "../../deliver/message.ts";
import { currentContext } from "../kit/context.ts";
import type { PlatformPlan } from "./setup-platform.ts";
import { print, warn } from "../kit/output.ts";
import { statusOf, type PlatformStatus } from "../platforms/status.ts";
import { sendTrial, trialIsGood, trialText, untilInterrupted } from "../platforms/trial.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

const TRIAL_TIMEOUT_MS = 60_000;

export interface FinishOptions {
  /** Somebody is at the terminal. */
  readonly questions: boolean;
  /** A test message is wanted, whoever is there. */
  readonly tries: boolean;
}

/** Sets the exit code to 1 when the platform is not ready, or did not take the test message. */
export async function finishPlatform(
  { platform, variables, edits }: PlatformPlan,
  options: FinishOptions,
): Promise<void> {
  const { config, env, path, home } = await loadConfig(currentContext());
  const standing = await statusOf(platform, config, env);
  if (edits.length > 0) print(`${path} has ${edits.map(([key]) => key).join(", ")}.`);
  if (variables.length > 0) print(`${envPath(home)} has ${variables.map(([name]) => name).join(", ")}.`);
  for (const [name, value] of variables) {
    if (env[name] !== value) warn(`${name} in the environment counts instead.`);
  }
  if (standing.status !== "ready") {
    warn(`${standing.title} is not ready: it lacks ${standing.missing.join(" and ")}.`);
    process.exitCode = EXIT_FAILURE;
    return;
  }
  print(`${standing.title} is ready. Restart \`agentd gateway\` where it runs.`);
  const wish = await wishFor(standing, options);
  if (wish) await tryOut(standing, wish);
  else print(`\`agentd platforms test ${platform}\` sends a test message.`);
}

interface Wish {
  /** Undefined: the home channel. */
  readonly chat?: string;
}

/** Undefined: nothing is to be sent. */
async function wishFor(
  { title, home, name }: PlatformStatus,
  { questions, tries }: FinishOptions,
): Promise<Wish | undefined> {
  if (!questions) return tries ? {} : undefined;
  const { askChat, askYesNo } = await import("./setup-prompts.ts");
  // What a comment is written on is not known here.
  if (traits[name].address === "none") return undefined;
  if (!(await askYesNo(`Send a test message through ${title} now?`))) return undefined;
  if (home !== undefined) return {};
  const chat = await askChat(title);
  return chat === undefined ? undefined : { chat };
}

async function tryOut({ name }: PlatformStatus, { chat }: Wish): Promise<void> {
  const message = { platform: name, chat, thread: undefined, text: undefined, extra: {} };
  const options = { timeoutMs: TRIAL_TIMEOUT_MS, signal: untilInterrupted(), onSend: () => {} };
  const trial = await sendTrial(message, options);
  if (trialIsGood(trial)) return print(trialText(trial));
  warn(trialText(trial));
  process.exitCode = EXIT_FAILURE;
}
