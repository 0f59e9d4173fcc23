/** `agentd setup`: sets up a provider, its key and a model. */
import process from "node:process";
import { text } from "node:stream/consumers";
import { defineCommand } from "citty";
import { switchOption, textOption } from "../kit/options.ts";
import { formatModel } from "../../agent/model.ts";
import { registerSecret } from "../../base/observe/redact.ts";
import { loadConfig } from "../../config/config.ts";
import { setConfigValue } from "../../config/file/edit.ts";
import { setEnvVariable } from "../../config/file/env-file.ts";
import { configPath, envPath, prepareHome } from "../../config/home.ts";
import { conventionalVariables, type ProviderType } from "../../config/providers.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { loadModels, describeTrial, hasFailed, tryModel } from "../model/deps.ts";
import { print, warn } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

const PROVIDER_TYPES = ["openai", "anthropic", "google", "openrouter", "openai_compatible"] as const;
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
    test: switchOption("Test the model at the end"),
  },
  async run({ args }) {
    const answers =
      args.provider === undefined
        ? await askAtTerminal()
        : fromOptions({ ...args, provider: args.provider as SetupAnswers["provider"] }, await keyOf(args));
    if (!answers) return reportCancelled();
    const plan = planSetup(answers);
    if (plan.secret) registerSecret(plan.secret.value);
    await writePlan(plan);
    const model = await report(plan);
    if (args.test || args.provider === undefined) await testModel(model);
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
  const key = (await text(process.stdin)).trim();
  if (key === "") throw new UsageError("--api-key-stdin: standard input is empty.");
  return key;
}

async function askAtTerminal(): Promise<SetupAnswers | undefined> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    throw new UsageError(
      "Cannot ask without a terminal. Pass --provider and its options, such as --api-key-stdin and --model.",
    );
  }
  const { config, env } = await loadConfig(currentContext());
  return askSetup({
    hasKey: (provider) => conventionalVariables[provider].some((name) => env[name]),
    model: config.model.default,
    approvals: config.approvals.mode,
  });
}

function reportCancelled(): void {
  warn("Nothing was changed.");
  process.exitCode = EXIT_FAILURE;
}

/** Writes the key first: a configuration with a missing key would keep agentd from starting. */
async function writePlan({ secret, edits }: SetupPlan): Promise<void> {
  const { home } = currentContext();
  await prepareHome(home);
  if (secret) await setEnvVariable(envPath(home), secret.name, secret.value);
  for (const [key, value] of edits) await setConfigValue({ home, key, value });
}

async function report({ secret, edits }: SetupPlan): Promise<string> {
  const { home } = currentContext();
  if (secret) print(`Saved the API key as ${secret.name} in ${envPath(home)}.`);
  print(`Set ${edits.map(([key]) => key).join(", ")} in ${configPath(home)}.`);
  const { models } = await loadModels();
  const model = formatModel(models.default);
  print(`The default model is ${model}.`);
  print("Next: test it with `agentd model test`, or start the service with `agentd gateway`.");
  return model;
}

async function testModel(name: string): Promise<void> {
  const deps = await loadModels();
  const trial = await tryModel(deps, deps.models.default);
  if (!hasFailed(trial)) return print(describeTrial(trial, name));
  warn(describeTrial(trial, name));
  process.exitCode = EXIT_FAILURE;
}

interface SetupDefaults {
  readonly hasKey: (provider: SetupAnswers["provider"]) => boolean;
  readonly model: string | undefined;
  readonly approvals: NonNullable<SetupAnswers["approvals"]>;
}

const LABELS: Readonly<Record<SetupAnswers["provider"], string>> = {
  openai: "OpenAI",
  anthropic: "Anthropic",
  google: "Google",
  openrouter: "OpenRouter",
  openai_compatible: "Another OpenAI-compatible server (Ollama, vLLM, LM Studio ...)",
};

/** Asks for the settings and writes nothing. Returns undefined if the user cancels. */
async function askSetup(defaults: SetupDefaults): Promise<SetupAnswers | undefined> {
  const ask = await import("@clack/prompts");
  ask.intro("agentd setup");
  const options = PROVIDER_TYPES.map((value) => ({ value, label: LABELS[value] }));
  const provider = await ask.select({ message: "Which model provider?", options });
  if (ask.isCancel(provider)) return undefined;
  const isCompatible = provider === "openai_compatible";
  const name = isCompatible
    ? await ask.text({ message: "Name of the provider", initialValue: DEFAULT_NAME })
    : undefined;
  if (ask.isCancel(name)) return undefined;
  const baseUrl = isCompatible
    ? await ask.text({ message: "Base URL", placeholder: "http://127.0.0.1:11434/v1" })
    : undefined;
  if (ask.isCancel(baseUrl)) return undefined;
  const variable = conventionalVariables[provider][0] ?? "API key";
  const keep =
    isCompatible || defaults.hasKey(provider) ? " (leave empty for none, or to keep the current one)" : "";
  const apiKey = await ask.password({ message: `${variable}${keep}` });
  if (ask.isCancel(apiKey)) return undefined;
  const model = await ask.text({
    message: "Which model?",
    ...(defaults.model === undefined ? {} : { initialValue: defaults.model }),
  });
  if (ask.isCancel(model)) return undefined;
  const approvals = await ask.select({
    message: "What may the agent do without asking?",
    initialValue: defaults.approvals,
    options: [
      { value: "ask" as const, label: "Ordinary work. Asks before risky actions" },
      { value: "always_ask" as const, label: "Only read. Asks before every change" },
      { value: "yolo" as const, label: "Everything, except for actions that are never allowed" },
    ],
  });
  if (ask.isCancel(approvals)) return undefined;
  return {
    provider,
    approvals,
    ...(name ? { name } : {}),
    ...(baseUrl ? { baseUrl } : {}),
    ...(apiKey ? { apiKey } : {}),
    ...(model ? { model } : {}),
  };
}

interface SetupAnswers {
  /** The type of provider. */
  readonly provider: ProviderType;
  readonly name?: string;
  readonly baseUrl?: string;
  /** Undefined keeps the current key. */
  readonly apiKey?: string;
  readonly model?: string;
  readonly approvals?: "ask" | "always_ask" | "yolo";
}

interface SetupPlan {
  /** A variable of `.env` and its value. */
  readonly secret: { readonly name: string; readonly value: string } | undefined;
  /** Configuration keys with their values as typed. */
  readonly edits: readonly (readonly [key: string, value: string])[];
}

const DEFAULT_NAME = "local";

const NAME = /^[a-z][a-z0-9_-]{0,63}$/;

/** Returns what to write for the answers. UsageError for invalid ones. */
function planSetup(answers: SetupAnswers): SetupPlan {
  const { provider, baseUrl, apiKey, model, approvals } = answers;
  const isCompatible = provider === "openai_compatible";
  const name = answers.name ?? (isCompatible ? DEFAULT_NAME : provider);
  if (!NAME.test(name))
    throw new UsageError("--name must start with a letter and contain only a-z, 0-9, _ and -.");
  if (isCompatible && baseUrl === undefined)
    throw new UsageError("--base-url is required for openai_compatible.");
  if (baseUrl !== undefined && !/^https?:\/\//.test(baseUrl)) {
    throw new UsageError("--base-url must start with http:// or https://.");
  }
  const variable = conventionalVariables[provider][0] ?? `${name.toUpperCase().replaceAll("-", "_")}_API_KEY`;
  // A provider under its own name finds its conventional variable. Others need a reference.
  const reference = isCompatible && apiKey !== undefined ? { api_key: `env:${variable}` } : {};
  const section = { type: provider, ...(baseUrl === undefined ? {} : { base_url: baseUrl }), ...reference };
  return {
    secret: apiKey === undefined ? undefined : { name: variable, value: apiKey },
    edits: [
      [`model.providers.${name}`, JSON.stringify(section)],
      ...(model === undefined ? [] : [["model.default", qualified(model, name)] as const]),
      ...(approvals === undefined ? [] : [["approvals.mode", approvals] as const]),
    ],
  };
}

/** Returns the full name of a model of this provider. */
function qualified(model: string, provider: string): string {
  return model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
}
