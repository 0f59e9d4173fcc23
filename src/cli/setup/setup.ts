/** `agentd setup`: sets up a provider, its key and a model. */
import process from "node:process";
import { defineCommand } from "citty";
import { switchOption, textOption } from "../kit/options.ts";
import { listModels } from "../../app/model-servers.ts";
import { lacksKey } from "../../app/models.ts";
import { registerSecret } from "../../base/observe.ts";
import { loadConfig, type LoadedConfig } from "../../config/config.ts";
import { setConfigValue } from "../../config/file.ts";
import { configPath, envPath } from "../../config/home.ts";
import { conventionalVariables } from "../../config/providers.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { print, warn } from "../kit/output.ts";
import { readSecret } from "../kit/streams.ts";
import { hasFailed } from "../../agent/engines/scripted.ts";
import { describeTrial, loadModels, tryModelOf } from "../model/deps.ts";
import { describeListing, preferredModel, PROVIDER_TYPES } from "./offers.ts";
import { currentKey, planSetup, writePlan, type SetupAnswers, type SetupPlan } from "./plan.ts";
import { askSetup } from "./prompts.ts";

const APPROVALS = ["ask", "always_ask", "yolo"] as const;

export const setupCommand = defineCommand({
  meta: {
    name: "setup",
    description: "Set up a provider and a model, interactively or with options",
  },
  args: {
    provider: { type: "enum", options: [...PROVIDER_TYPES], description: "Type of the provider" },
    name: textOption("name", "Name of the provider, for openai_compatible (default local)"),
    "base-url": textOption("url", "Base URL of its API"),
    "api-key-stdin": switchOption("Read the API key from standard input"),
    "api-key-env": textOption("NAME", "Read the API key from this environment variable"),
    model: textOption("model", "The default model"),
    approvals: {
      type: "enum",
      options: [...APPROVALS],
      description: "Actions that the agent may take without asking",
    },
    test: switchOption("Test the model at the end. At a terminal, it is always tested"),
  },
  async run({ args }) {
    const context = currentContext();
    const loaded = await loadConfig(context);
    const given =
      args.provider === undefined
        ? undefined
        : fromOptions({ ...args, provider: args.provider as SetupAnswers["provider"] }, await keyOf(args));
    const answers = given ?? (await askAtTerminal(loaded));
    if (!answers) return reportCancelled();
    const plan = planSetup(answers, loaded.config);
    if (given) requireKey(given, plan, loaded);
    if (plan.secret) registerSecret(plan.secret.value);
    await writePlan(context.home, plan);
    report(plan);
    if (given && given.model === undefined && !(await chooseModel(plan.name))) return;
    const { status } = await loadModels();
    print(`The default model is ${status.model}, with a context of ${status.contextTokens} tokens.`);
    print("Next: test it with `agentd model test`, or start the service with `agentd gateway`.");
    if (args.test) await testModel(status.model);
  },
});

interface Options {
  readonly provider: SetupAnswers["provider"];
  readonly name?: string | undefined;
  readonly "base-url"?: string | undefined;
  readonly model?: string | undefined;
  readonly approvals?: string | undefined;
}

function fromOptions(options: Options, apiKey: string | undefined): SetupAnswers {
  const { provider, name, "base-url": baseUrl, model, approvals } = options;
  return {
    provider,
    ...(name === undefined ? {} : { name }),
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(model === undefined ? {} : { model }),
    ...(approvals === undefined ? {} : { approvals: approvals as NonNullable<SetupAnswers["approvals"]> }),
  };
}

async function keyOf(args: {
  readonly "api-key-stdin"?: boolean | undefined;
  readonly "api-key-env"?: string | undefined;
}): Promise<string | undefined> {
  const variable = args["api-key-env"];
  if (variable !== undefined) {
    const value = currentContext().env[variable];
    if (!value) throw new UsageError(`--api-key-env: ${variable} is not set.`);
    return value;
  }
  if (args["api-key-stdin"] !== true) return undefined;
  return readSecret("--api-key-stdin");
}

async function askAtTerminal(loaded: LoadedConfig): Promise<SetupAnswers | undefined> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    throw new UsageError(
      "Cannot ask without a terminal. Pass --provider and its options, such as --api-key-stdin and --model.",
    );
  }
  return askSetup(loaded);
}

/** UsageError that names the variable, when calls of the provider could only fail. */
function requireKey(answers: SetupAnswers, { name }: SetupPlan, { config, env }: LoadedConfig): void {
  const { provider: type, apiKey = currentKey(config, env, { name, type }) } = answers;
  const baseUrl = answers.baseUrl ?? config.model.providers[name]?.base_url;
  const address = { name, type, ...(baseUrl === undefined ? {} : { baseUrl }) };
  if (!lacksKey({ ...address, ...(apiKey === undefined ? {} : { apiKey }) })) return;
  const [variable = "its key"] = conventionalVariables[type];
  throw new UsageError(
    `The provider ${type} needs a key, and ${variable} is not set. Pass --api-key-stdin or --api-key-env, or set ${variable}.`,
  );
}

/**
 * Chooses the model of a provider that lists one, unless the configuration already has a default. False, with the exit
 * code of a failure, when a person must choose.
 */
async function chooseModel(name: string): Promise<boolean> {
  const { status, providers } = await loadModels();
  if (status.problem === undefined) return true;
  const provider = providers.find((each) => each.name === name);
  const listing = provider && (await listModels(provider, { timeoutMs: LIST_TIMEOUT_MS }));
  const models = listing?.status === "listed" ? listing.models : [];
  const [only] = models;
  if (only !== undefined && models.length === 1) {
    await setConfigValue({ home: currentContext().home, key: "model.default", value: `${name}:${only}` });
    return true;
  }
  const why = listing && listing.status !== "listed" ? ` ${describeListing(listing, name)}` : "";
  const shown = [preferredModel(provider?.type ?? "openai_compatible", models), ...models]
    .filter((id, index, all) => id !== undefined && all.indexOf(id) === index)
    .slice(0, MAX_SHOWN);
  const listed =
    shown.length === 0 ? "" : ` It lists ${shown.join(", ")}${models.length > MAX_SHOWN ? " and more" : ""}.`;
  warn(
    `No model is chosen, so the built-in demo model would answer.${why} Choose one with ` +
      `\`agentd model set ${name}:${shown[0] ?? "<model>"}\`, or pass --model.${listed}`,
  );
  process.exitCode = EXIT_FAILURE;
  return false;
}

const LIST_TIMEOUT_MS = 5_000;
const MAX_SHOWN = 10;

function reportCancelled(): void {
  warn("Nothing was changed.");
  process.exitCode = EXIT_FAILURE;
}

function report({ secret, edits }: SetupPlan): void {
  const { home } = currentContext();
  if (secret) print(`Saved the API key as ${secret.name} in ${envPath(home)}.`);
  print(`Set ${edits.map(([key]) => key).join(", ")} in ${configPath(home)}.`);
}

async function testModel(name: string): Promise<void> {
  const deps = await loadModels();
  const trial = await tryModelOf(deps, deps.models.default);
  if (!hasFailed(trial)) return print(describeTrial(trial, name));
  warn(describeTrial(trial, name));
  process.exitCode = EXIT_FAILURE;
}
