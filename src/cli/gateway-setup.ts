/** `agentd gateway setup`: lets the gateway receive webhooks. Asks at a terminal, or takes all from the options. */
import process from "node:process";
import { defineCommand } from "citty";
import { registerSecret } from "../base/redact.ts";
import { loadConfig, readConfig, type LoadedConfig } from "../config/config.ts";
import { setConfigValue } from "../config/edit.ts";
import { setEnvVariable } from "../config/env-file.ts";
import { configPath, envPath, prepareHome, readPrivateFile } from "../config/home.ts";
import { NO_PROOF } from "../webhook/route.ts";
import { webhookSettings } from "../webhook/settings.ts";
import { UsageError } from "./arguments.ts";
import { currentContext } from "./context.ts";
import type { GatewayAnswers } from "./gateway-setup-prompts.ts";
import { print, warn } from "./output.ts";
import { EXIT_FAILURE } from "./run.ts";
import { toPort } from "./webhook-options.ts";

const SECRET_VARIABLE = "WEBHOOK_SECRET";
const GOOD_SECRET_CHARACTERS = 16;

export const gatewaySetupCommand = defineCommand({
  meta: {
    name: "setup",
    description: "Let the gateway receive webhooks: asks at a terminal, or takes all from the options",
  },
  args: {
    "enable-webhooks": { type: "boolean", description: "Receive webhooks; asks nothing" },
    "webhook-port": { type: "string", valueHint: "number", description: "Port of the receiver" },
    "webhook-secret": {
      type: "string",
      valueHint: "text",
      description: "Secret of routes that have none of their own; kept in <home>/.env",
    },
    yes: { type: "boolean", alias: "y", description: "Ask nothing; what is not given keeps its value" },
  },
  async run({ args }) {
    const port = args["webhook-port"] === undefined ? undefined : portOf(args["webhook-port"]);
    const secret = args["webhook-secret"];
    if (secret === "")
      throw new UsageError("--webhook-secret is empty. Leave it out to keep the one there is.");
    const hasOptions = args["enable-webhooks"] === true || port !== undefined || secret !== undefined;
    const context = currentContext();
    const loaded = await loadConfig(context);
    const answers = hasOptions || args.yes ? { port, secret } : await askAtTerminal(loaded);
    if (!answers) {
      warn("Nothing was changed.");
      process.exitCode = EXIT_FAILURE;
      return;
    }
    checkSecret(loaded, answers);
    await carryOut(context.home, answers);
    report(await loadConfig(context), answers);
  },
});

async function askAtTerminal({ config }: LoadedConfig): Promise<GatewayAnswers | undefined> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    throw new UsageError(
      "There is no terminal to ask at. Give --enable-webhooks, and --webhook-port or --webhook-secret where wanted.",
    );
  }
  const { askGateway } = await import("./gateway-setup-prompts.ts");
  const { isEnabled, port, secrets } = webhookSettings(config);
  return askGateway({ isEnabled, port, hasSecret: secrets.length > 0 });
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
