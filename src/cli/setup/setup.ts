/** `agentd setup`: a provider, its key, a model. */
import process from "node:process";
import { text } from "node:stream/consumers";
import { defineCommand } from "citty";
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
    description: "Set up a provider and a model: asks at a terminal, or takes all from the options",
  },
  args: {
    provider: { type: "enum", options: [...PROVIDER_TYPES], description: "Kind of provider" },
    name: {
      type: "string",
      valueHint: "name",
      description: "Its name, for openai_compatible (default local)",
    },
    "base-url": { type: "string", valueHint: "url", description: "Address of its API" },
    "api-key-stdin": { type: "boolean", description: "Read the key from standard input" },
    "api-key-env": { type: "string", valueHint: "NAME", description: "Take the key from this variable" },
    model: { type: "string", valueHint: "model", description: "Model that is used from now on" },
    approvals: { type: "enum", options: [...APPROVALS], description: "What the agent may do without asking" },
    test: { type: "boolean", description: "Try the model at the end" },
  },
  async run({ args }) {
    const answers =
      args.provider === undefined
        ? await askAtTerminal()
        : fromOptions({ ...args, provider: args.provider as SetupAnswers["provider"] }, await keyOf(args));
    if (!answers) return broken();
    const plan = planSetup(answers);
    if (plan.secret) registerSecret(plan.secret.value);
    await carryOut(plan);
    const model = await report(plan);
    if (args.test || args.provider === undefined) await tryOut(model);
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
  if (key === "") throw new UsageError("--api-key-stdin: nothing came on standard input.");
  return key;
}

async function askAtTerminal(): Promise<SetupAnswers | undefined> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    throw new UsageError(
      "There is no terminal to ask at. Give --provider, and what it needs: --api-key-stdin, --model.",
    );
  }
  const { config, env } = await loadConfig(currentContext());
  return askSetup({
    hasKey: (provider) => conventionalVariables[provider].some((name) => env[name]),
    model: config.model.default,
    approvals: config.approvals.mode,
  });
}

function broken(): void {
  warn("Nothing was changed.");
  process.exitCode = EXIT_FAILURE;
}

/** The key first: a configuration that names a key which is not there would keep agentd from starting. */
async function carryOut({ secret, edits }: SetupPlan): Promise<void> {
  const { home } = currentContext();
  await prepareHome(home);
  if (secret) await setEnvVariable(envPath(home), secret.name, secret.value);
  for (const [key, value] of edits) await setConfigValue({ home, key, value });
}

async function report({ secret, edits }: SetupPlan): Promise<string> {
  const { home } = currentContext();
  if (secret) print(`The key is in ${envPath(home)}, as ${secret.name}.`);
  print(`${configPath(home)} has ${edits.map(([key]) => key).join(", ")}.`);
  const { models } = await loadModels();
  const model = formatModel(models.default);
  print(`The model is ${model}.`);
  print("Next: `agentd model test` tries it, `agentd gateway` starts the service.");
  return model;
}

async function tryOut(name: string): Promise<void> {
  const deps = await loadModels();
  const trial = await tryModel(deps, deps.models.default);
  if (!hasFailed(trial)) return print(describeTrial(trial, name));
  warn(describeTrial(trial, name));
  process.exitCode = EXIT_FAILURE;
}

export interface SetupDefaults {
  readonly hasKey: (provider: SetupAnswers["provider"]) => boolean;
  readonly model: string | undefined;
  readonly approvals: NonNullable<SetupAnswers["approvals"]>;
}

const LABELS: Readonly<Record<SetupAnswers["provider"], string>> = {
  openai: "OpenAI",
  anthropic: "Anthropic",
  google: "Google",
  openrouter: "OpenRouter",
  openai_compatible: "Another server with OpenAI's protocol (Ollama, vLLM, LM Studio ...)",
};

/** Undefined when the person broke off. Nothing is written here. */
export async function askSetup(defaults: SetupDefaults): Promise<SetupAnswers | undefined> {
  const ask = await import("@clack/prompts");
  ask.intro("agentd setup");
  const options = PROVIDER_TYPES.map((value) => ({ value, label: LABELS[value] }));
  const provider = await ask.select({ message: "Where do models come from?", options });
  if (ask.isCancel(provider)) return undefined;
  const isCompatible = provider === "openai_compatible";
  const name = isCompatible
    ? await ask.text({ message: "A short name for it", initialValue: DEFAULT_NAME })
    : undefined;
  if (ask.isCancel(name)) return undefined;
  const baseUrl = isCompatible
    ? await ask.text({ message: "Its address", placeholder: "http://127.0.0.1:11434/v1" })
    : undefined;
  if (ask.isCancel(baseUrl)) return undefined;
  const variable = conventionalVariables[provider][0] ?? "a key";
  const keep = isCompatible || defaults.hasKey(provider) ? " (empty: none, or keep the one there is)" : "";
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
      { value: "ask" as const, label: "Ordinary work; it asks before what is risky" },
      { value: "always_ask" as const, label: "Only look; it asks before every change" },
      { value: "yolo" as const, label: "Everything but what is never allowed" },
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

export interface SetupAnswers {
  /** A kind of provider, such as `openai`; for openai_compatible also the name it gets. */
  readonly provider: ProviderType;
  readonly name?: string;
  readonly baseUrl?: string;
  /** Undefined keeps the key there is. */
  readonly apiKey?: string;
  readonly model?: string;
  readonly approvals?: "ask" | "always_ask" | "yolo";
}

export interface SetupPlan {
  /** Variable of `.env` and its value. */
  readonly secret: { readonly name: string; readonly value: string } | undefined;
  /** Keys of the configuration with their values, as they would be typed. */
  readonly edits: readonly (readonly [key: string, value: string])[];
}

export const DEFAULT_NAME = "local";

const NAME = /^[a-z][a-z0-9_-]{0,63}$/;

/** Throws UsageError for answers that cannot be. */
export function planSetup(answers: SetupAnswers): SetupPlan {
  const { provider, baseUrl, apiKey, model, approvals } = answers;
  const isCompatible = provider === "openai_compatible";
  const name = answers.name ?? (isCompatible ? DEFAULT_NAME : provider);
  if (!NAME.test(name)) throw new UsageError("--name must be of a-z, 0-9, _ and -, beginning with a letter.");
  if (isCompatible && baseUrl === undefined)
    throw new UsageError("--base-url is required for openai_compatible.");
  if (baseUrl !== undefined && !/^https?:\/\//.test(baseUrl)) {
    throw new UsageError("--base-url must begin with http:// or https://.");
  }
  const variable = conventionalVariables[provider][0] ?? `${name.toUpperCase().replaceAll("-", "_")}_API_KEY`;
  // A provider under its own name finds its usual variable by itself; all others must be told.
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

/** A model of this provider, whatever else is configured. */
function qualified(model: string, provider: string): string {
  return model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
}
