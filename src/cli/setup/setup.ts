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
import { conventionalVariables } from "../../config/providers.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { loadModels } from "../model/deps.ts";
import { describeTrial, hasFailed, tryModel } from "../model/trial.ts";
import { print, warn } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { planSetup, PROVIDER_TYPES, type SetupAnswers, type SetupPlan } from "./plan.ts";
import { askSetup } from "./prompts.ts";

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
