/** `agentd gateway setup`: webhooks that come in, platforms that messages go out to. Asks, or takes all from the options. */
import process from "node:process";
import { defineCommand } from "citty";
import { registerSecret } from "../../base/observe/redact.ts";
import { loadConfig, readConfig, type LoadedConfig } from "../../config/config.ts";
import { setConfigValue } from "../../config/file/edit.ts";
import { setEnvVariable } from "../../config/file/env-file.ts";
import { configPath, envPath, prepareHome, readPrivateFile, type Environment } from "../../config/home.ts";
import { NO_PROOF } from "../../webhook/routes/route.ts";
import { webhookSettings } from "../../webhook/settings.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { carryOutPlatform, planPlatform, type PlatformAnswers, type PlatformPlan } from "./setup-platform.ts";
import type { GatewayAnswers } from "./setup-prompts.ts";
import { print, warn } from "../kit/output.ts";
import { toPair, toPlatform } from "../platforms/options.ts";
import { statuses, statusOf, type PlatformStatus } from "../platforms/status.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { repeatedOption, toPort } from "../kit/options.ts";
import { platforms as traits } from "../../deliver/platform/names.ts";
import { sendTrial, trialIsGood, trialText, untilInterrupted } from "../platforms/trial.ts";

const SECRET_VARIABLE = "WEBHOOK_SECRET";
const GOOD_SECRET_CHARACTERS = 16;

export const gatewaySetupCommand = defineCommand({
  meta: {
    name: "setup",
    description:
      "Let the gateway receive webhooks, and set up platforms for messages: asks at a terminal, or takes all from the options",
  },
  args: {
    "enable-webhooks": { type: "boolean", description: "Receive webhooks; asks nothing" },
    "webhook-port": { type: "string", valueHint: "number", description: "Port of the receiver" },
    "webhook-secret": {
      type: "string",
      valueHint: "text",
      description: "Secret of routes that have none of their own; kept in <home>/.env",
    },
    platform: {
      type: "string",
      valueHint: "name",
      description: "Set up this platform, such as telegram; asks nothing",
    },
    set: {
      type: "string",
      valueHint: "key=value",
      description: "A key of the platform; may be given again. Secrets are kept in <home>/.env",
    },
    test: { type: "boolean", description: "Send a test message through the platform at the end" },
    yes: { type: "boolean", alias: "y", description: "Ask nothing; what is not given keeps its value" },
  },
  async run({ args, rawArgs }) {
    const given = fromOptions(args, repeatedOption(rawArgs, "set"));
    const context = currentContext();
    const loaded = await loadConfig(context);
    const answers = given ?? (await askAtTerminal(loaded, context.env));
    const { webhooks, platforms = [] } = answers ?? {};
    if (!webhooks && platforms.length === 0) {
      warn("Nothing was changed.");
      process.exitCode = EXIT_FAILURE;
      return;
    }
    if (webhooks) checkSecret(loaded, webhooks);
    const plans = platforms.map((each) => planPlatform(each, loaded.config));
    if (webhooks) await carryOut(context.home, webhooks);
    for (const plan of plans) await carryOutPlatform(context.home, plan);
    if (webhooks) report(await loadConfig(context), webhooks);
    for (const plan of plans) await finishPlatform(plan, { questions: !given, tries: args.test === true });
  },
});

interface Answers {
  readonly webhooks?: GatewayAnswers | undefined;
  readonly platforms?: readonly PlatformAnswers[];
}

interface Options {
  readonly "enable-webhooks"?: boolean | undefined;
  readonly "webhook-port"?: string | undefined;
  readonly "webhook-secret"?: string | undefined;
  readonly platform?: string | undefined;
  readonly test?: boolean | undefined;
  readonly yes?: boolean | undefined;
}

/** Undefined: the person is to be asked. */
function fromOptions(args: Options, pairs: readonly string[]): Answers | undefined {
  const port = args["webhook-port"] === undefined ? undefined : portOf(args["webhook-port"]);
  const secret = args["webhook-secret"];
  if (secret === "")
    throw new UsageError("--webhook-secret is empty. Leave it out to keep the one there is.");
  const { platform } = args;
  if (platform === undefined && (pairs.length > 0 || args.test))
    throw new UsageError("--set and --test need --platform.");
  const hasWebhooks = args["enable-webhooks"] === true || port !== undefined || secret !== undefined;
  if (!hasWebhooks && platform === undefined && !args.yes) return undefined;
  return {
    webhooks: hasWebhooks || platform === undefined ? { port, secret } : undefined,
    platforms:
      platform === undefined
        ? []
        : [{ platform: toPlatform(platform), values: new Map(pairs.map((pair) => toPair(pair, "set"))) }],
  };
}

async function askAtTerminal(
  { config, env }: LoadedConfig,
  processEnv: Environment,
): Promise<Answers | undefined> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    throw new UsageError(
      "There is no terminal to ask at. Give --enable-webhooks, and --webhook-port or --webhook-secret where wanted; or --platform with --set.",
    );
  }
  const { askGateway, askYesNo } = await import("./setup-prompts.ts");
  const { isEnabled, port, secrets } = webhookSettings(config);
  const webhooks = await askGateway({ isEnabled, port, hasSecret: secrets.length > 0 });
  if (webhooks === undefined) return undefined;
  const { askPlatform } = await import("./setup-prompts.ts");
  const platforms: PlatformAnswers[] = [];
  for (;;) {
    const wanted = await askYesNo(
      platforms.length === 0 ? "Set up a platform for messages?" : "Set up another one?",
    );
    if (wanted === undefined) return undefined;
    if (!wanted) return { webhooks: webhooks === "no" ? undefined : webhooks, platforms };
    const answers = await askPlatform(await statuses(config, env), processEnv);
    if (answers === undefined) return undefined;
    platforms.push(answers);
  }
}

/** The secret first: a receiver that is enabled without one might have routes that nobody proves themselves to. */
async function carryOut(home: string, { port, secret }: GatewayAnswers): Promise<void> {
  await prepareHome(home);
  if (secret !== undefined) {
    registerSecret(secret);
    await setEnvVariable(envPath(home), SECRET_VARIABLE, secret);
  }
  if (port !== undefined) await setConfigValue({ home, key: await portKey(home), value: String(port) });
  await setConfigValue({ home, key: "platforms.webhook.enabled", value: "true" });
}

/** Where the port stands in the file already; what stands in `extra` goes before what stands beside it. */
async function portKey(home: string): Promise<string> {
  const { config } = readConfig((await readPrivateFile(configPath(home))) ?? "");
  const { port, extra } = config.platforms.webhook;
  const isBeside = port !== undefined && extra.port === undefined;
  return isBeside ? "platforms.webhook.port" : "platforms.webhook.extra.port";
}

function portOf(text: string): number {
  const port = toPort(text);
  if (port !== undefined) return port;
  throw new UsageError(`--webhook-port must be a number from 1 to 65535, not ${JSON.stringify(text)}.`);
}

/** What would keep the gateway from starting is not written. */
function checkSecret({ config }: LoadedConfig, { secret }: GatewayAnswers): void {
  if (secret === NO_PROOF && !webhookSettings(config).isLoopback) {
    throw new UsageError(
      `${NO_PROOF} is for loopback addresses only: set platforms.webhook.extra.host to 127.0.0.1 first.`,
    );
  }
  if (secret !== undefined && secret !== NO_PROOF && secret.length < GOOD_SECRET_CHARACTERS) {
    warn(`The secret is short: ${GOOD_SECRET_CHARACTERS} characters or more are hard to guess.`);
  }
}

function report({ config, home, path }: LoadedConfig, answers: GatewayAnswers): void {
  const { isEnabled, port, secrets } = webhookSettings(config);
  print(`${path} has platforms.webhook.enabled.`);
  if (answers.secret !== undefined) print(`The secret is in ${envPath(home)}, as ${SECRET_VARIABLE}.`);
  if (secrets.length === 0) print("There is no secret for all routes: each route needs its own.");
  if (!isEnabled) warn("WEBHOOK_ENABLED in the environment counts instead, and keeps webhooks off.");
  if (answers.port !== undefined && port !== answers.port) {
    warn(`WEBHOOK_PORT in the environment counts instead: ${port}.`);
  }
  print(
    [
      "Next:",
      "  `agentd gateway` receives webhooks; restart it where it runs.",
      "  `agentd webhook subscribe <name>` makes a route, and tells its URL and secret.",
      `  Services send to http://your-server:${port}/webhooks/<route-name>: let them through the firewall, best over TLS.`,
    ].join("\n"),
  );
}

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
