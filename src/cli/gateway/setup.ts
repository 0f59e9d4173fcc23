/** `agentd gateway setup`: sets up webhooks and message platforms, interactively or with options. */
import process from "node:process";
import { defineCommand } from "citty";
import { registerSecret } from "../../base/observe.ts";
import { loadConfig, readConfig, type LoadedConfig } from "../../config/config.ts";
import { setConfigValue } from "../../config/file.ts";
import {
  setEnvVariable,
  configPath,
  envPath,
  prepareHome,
  readPrivateFile,
  type Environment,
} from "../../config/home.ts";
import { NO_AUTH, webhookSettings } from "../../webhook/routes/route.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { writePlatform, planPlatform, type PlatformAnswers, type PlatformPlan } from "./setup-platform.ts";
import type { GatewayAnswers } from "./setup-prompts.ts";
import { print, warn } from "../kit/output.ts";
import { platformKeys } from "../../config/platform-settings.ts";
import { readSecret, warnOfArgument } from "../kit/streams.ts";
import { toPair, toPlatform } from "../platforms/test.ts";
import { statuses, statusOf, type PlatformStatus } from "../../deliver/platform/status.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { repeatedOption, switchOption, textOption, toPort } from "../kit/options.ts";
import { platforms as traits } from "../../deliver/target.ts";
import { testPlatform, trialIsGood, trialText } from "../platforms/trial.ts";

const SECRET_VARIABLE = "WEBHOOK_SECRET";
const GOOD_SECRET_CHARACTERS = 16;

export const gatewaySetupCommand = defineCommand({
  meta: {
    name: "setup",
    description: "Set up webhooks and message platforms, interactively or with options",
  },
  args: {
    "enable-webhooks": switchOption("Enable webhooks without asking"),
    "webhook-port": textOption("number", "Port of the webhook receiver"),
    "webhook-secret": textOption(
      "text",
      "Secret of routes without their own. Saved in <home>/.env. Other users of this machine see it in the process list: prefer --webhook-secret-stdin",
    ),
    "webhook-secret-stdin": switchOption("Read that secret from standard input"),
    platform: textOption("name", "Set up this platform, such as telegram, without asking"),
    set: textOption(
      "key=value",
      "Set a key of the platform. Repeatable. Secrets are saved in <home>/.env; prefer --set-stdin for them",
    ),
    "set-stdin": textOption("key", "Read the value of this key, such as token, from standard input"),
    test: switchOption("Send a test message at the end"),
    yes: { type: "boolean", alias: "y", description: "Ask nothing. Omitted options keep their values" },
  },
  async run({ args, rawArgs }) {
    const given = await fromOptions(args, repeatedOption(rawArgs, "set"));
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
    if (webhooks) await writeWebhooks(context.home, webhooks);
    for (const plan of plans) await writePlatform(context.home, plan);
    if (webhooks) report(await loadConfig(context), webhooks);
    for (const plan of plans)
      await finishPlatform(plan, { questions: !given, sendsTest: args.test === true });
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
  readonly "webhook-secret-stdin"?: boolean | undefined;
  readonly "set-stdin"?: string | undefined;
  readonly platform?: string | undefined;
  readonly test?: boolean | undefined;
  readonly yes?: boolean | undefined;
}

/** Returns the answers of the options, or undefined to ask interactively. */
async function fromOptions(args: Options, pairs: readonly string[]): Promise<Answers | undefined> {
  const port = args["webhook-port"] === undefined ? undefined : portOf(args["webhook-port"]);
  const { platform } = args;
  const readKey = args["set-stdin"];
  checkStdin(args, pairs);
  if (args["webhook-secret"] === "")
    throw new UsageError("--webhook-secret is empty. Omit it to keep the current one.");
  if (platform === undefined && (pairs.length > 0 || readKey !== undefined || args.test))
    throw new UsageError("--set, --set-stdin and --test require --platform.");
  warnOfArgument("--webhook-secret", args["webhook-secret"], "Pass --webhook-secret-stdin.");
  const secret = args["webhook-secret-stdin"]
    ? await readSecret("--webhook-secret-stdin")
    : args["webhook-secret"];
  const hasWebhooks = args["enable-webhooks"] === true || port !== undefined || secret !== undefined;
  if (!hasWebhooks && platform === undefined && !args.yes) return undefined;
  const webhooks = hasWebhooks || platform === undefined ? { port, secret } : undefined;
  if (platform === undefined) return { webhooks, platforms: [] };
  const name = toPlatform(platform);
  const values = new Map(pairs.map((pair) => toPair(pair, "set")));
  for (const { key, isSecret } of platformKeys(name))
    if (isSecret) warnOfArgument(`--set ${key}=...`, values.get(key), `Pass --set-stdin ${key}.`);
  if (readKey !== undefined) values.set(readKey, await readSecret("--set-stdin"));
  return { webhooks, platforms: [{ platform: name, values }] };
}

/** Standard input holds one value, and each value is given once. */
function checkStdin(args: Options, pairs: readonly string[]): void {
  const { "webhook-secret": secret, "webhook-secret-stdin": readsSecret, "set-stdin": key } = args;
  if (readsSecret && key !== undefined)
    throw new UsageError("Give either --webhook-secret-stdin or --set-stdin: both read standard input.");
  if (readsSecret && secret !== undefined)
    throw new UsageError("Give either --webhook-secret or --webhook-secret-stdin.");
  if (key !== undefined && pairs.some((pair) => pair.startsWith(`${key}=`)))
    throw new UsageError(`Give ${key} either with --set or with --set-stdin.`);
}

async function askAtTerminal(
  { config, env }: LoadedConfig,
  processEnv: Environment,
): Promise<Answers | undefined> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    throw new UsageError(
      "Cannot ask without a terminal. Pass --enable-webhooks, with --webhook-port or --webhook-secret if needed, or --platform with --set.",
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
      platforms.length === 0 ? "Set up a message platform?" : "Set up another platform?",
    );
    if (wanted === undefined) return undefined;
    if (!wanted) return { webhooks: webhooks === "no" ? undefined : webhooks, platforms };
    const answers = await askPlatform(await statuses(config, env), processEnv);
    if (answers === undefined) return undefined;
    platforms.push(answers);
  }
}

/** Writes the secret first: an enabled receiver without it might have unprotected routes. */
async function writeWebhooks(home: string, { port, secret }: GatewayAnswers): Promise<void> {
  await prepareHome(home);
  if (secret !== undefined) {
    registerSecret(secret);
    await setEnvVariable(envPath(home), SECRET_VARIABLE, secret);
  }
  if (port !== undefined) await setConfigValue({ home, key: await portKey(home), value: String(port) });
  await setConfigValue({ home, key: "platforms.webhook.enabled", value: "true" });
}

/** Returns the key of the port in the file. A key in `extra` overrides the same key beside it. */
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

/** Rejects a secret that would keep the gateway from starting. */
function checkSecret({ config }: LoadedConfig, { secret }: GatewayAnswers): void {
  if (secret === NO_AUTH && !webhookSettings(config).isLoopback) {
    throw new UsageError(
      `${NO_AUTH} works only on loopback addresses. Set platforms.webhook.extra.host to 127.0.0.1 first.`,
    );
  }
  if (secret !== undefined && secret !== NO_AUTH && secret.length < GOOD_SECRET_CHARACTERS) {
    warn(`The secret is short. Use at least ${GOOD_SECRET_CHARACTERS} characters.`);
  }
}

function report({ config, home, path }: LoadedConfig, answers: GatewayAnswers): void {
  const { isEnabled, port, secrets } = webhookSettings(config);
  print(`Set platforms.webhook.enabled in ${path}.`);
  if (answers.secret !== undefined) print(`Saved the secret as ${SECRET_VARIABLE} in ${envPath(home)}.`);
  if (secrets.length === 0) print("No global secret is set: each route needs its own.");
  if (!isEnabled) warn("WEBHOOK_ENABLED in the environment overrides this and keeps webhooks disabled.");
  if (answers.port !== undefined && port !== answers.port) {
    warn(`WEBHOOK_PORT in the environment overrides the port: ${port}.`);
  }
  print(
    [
      "Next:",
      "  Start or restart `agentd gateway` to receive webhooks.",
      "  Create a route with `agentd webhook subscribe <name>`, which prints its URL and secret.",
      `  Let services reach http://your-server:${port}/webhooks/<route-name> through the firewall, preferably over TLS.`,
    ].join("\n"),
  );
}

const TRIAL_SECONDS = 50;

interface FinishOptions {
  /** The setup is interactive. */
  readonly questions: boolean;
  /** Send a test message without asking. */
  readonly sendsTest: boolean;
}

/** Reports the setup of a platform. Sets exit code 1 if it is not ready or rejects the test message. */
async function finishPlatform(
  { platform, variables, edits }: PlatformPlan,
  options: FinishOptions,
): Promise<void> {
  const { config, env, path, home } = await loadConfig(currentContext());
  const platformStatus = await statusOf(platform, config, env);
  if (edits.length > 0) print(`Set ${edits.map(([key]) => key).join(", ")} in ${path}.`);
  if (variables.length > 0) print(`Saved ${variables.map(([name]) => name).join(", ")} in ${envPath(home)}.`);
  for (const [name, value] of variables) {
    if (env[name] !== value) warn(`${name} in the environment overrides the saved value.`);
  }
  if (platformStatus.status !== "ready") {
    warn(`${platformStatus.title} is not ready; missing: ${platformStatus.missing.join(" and ")}.`);
    process.exitCode = EXIT_FAILURE;
    return;
  }
  print(`${platformStatus.title} is ready. Restart \`agentd gateway\` if it is running.`);
  const target = await chooseTestTarget(platformStatus, options);
  if (target) await sendTestMessage(platformStatus, target);
  else print(`Send a test message with \`agentd platforms test ${platform}\`.`);
}

interface TestTarget {
  /** Default: the home channel. */
  readonly chat?: string;
}

/** Returns where to send a test message, or undefined to send none. */
async function chooseTestTarget(
  { title, home, name }: PlatformStatus,
  { questions, sendsTest }: FinishOptions,
): Promise<TestTarget | undefined> {
  if (!questions) return sendsTest ? {} : undefined;
  const { askChat, askYesNo } = await import("./setup-prompts.ts");
  // The target of a comment is unknown here.
  if (traits[name].address === "none") return undefined;
  if (!(await askYesNo(`Send a test message through ${title} now?`))) return undefined;
  if (home !== undefined) return {};
  const chat = await askChat(title);
  return chat === undefined ? undefined : { chat };
}

async function sendTestMessage({ name }: PlatformStatus, { chat }: TestTarget): Promise<void> {
  const body = { timeout_seconds: TRIAL_SECONDS, ...(chat === undefined ? {} : { chat_id: chat }) };
  const trial = await testPlatform(name, body);
  if (trialIsGood(trial)) return print(trialText(trial));
  warn(trialText(trial));
  process.exitCode = EXIT_FAILURE;
}
