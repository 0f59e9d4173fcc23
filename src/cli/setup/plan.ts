/** What `agentd setup` writes, and in which order. */
import type { Config } from "../../../generated/config/types.gen.ts";
import { setConfigValue } from "../../config/file.ts";
import { envPath, prepareHome, setEnvVariable, type Environment } from "../../config/home.ts";
import { conventionalVariables, resolveProviders, type ProviderType } from "../../config/providers.ts";
import { ServiceError } from "../../base/errors.ts";
import { UsageError } from "../kit/arguments.ts";

export interface SetupAnswers {
  /** The type of provider. */
  readonly provider: ProviderType;
  readonly name?: string;
  readonly baseUrl?: string;
  /** Undefined keeps the current key. */
  readonly apiKey?: string;
  readonly model?: string;
  readonly approvals?: "ask" | "always_ask" | "yolo";
}

export interface SetupPlan {
  /** Name of the provider. */
  readonly name: string;
  /** A variable of `.env` and its value. */
  readonly secret: { readonly name: string; readonly value: string } | undefined;
  /** Configuration keys with their values as typed. */
  readonly edits: readonly (readonly [key: string, value: string])[];
}

export const DEFAULT_NAME = "local";

const NAME = /^[a-z][a-z0-9_-]{0,63}$/;

/** Returns what to write for the answers. UsageError for invalid ones. */
export function planSetup(answers: SetupAnswers, { model: { providers } }: Config): SetupPlan {
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
  if (model !== undefined && model.trim() === "") throw new UsageError("--model must not be empty.");
  const variable = conventionalVariables[provider][0] ?? `${name.toUpperCase().replaceAll("-", "_")}_API_KEY`;
  const written = Object.hasOwn(providers, name) ? providers[name] : undefined;
  // A provider under its own name finds its conventional variable. Others need a reference.
  const needsReference = isCompatible || written?.api_key !== undefined;
  const reference = needsReference && apiKey !== undefined ? { api_key: `env:${variable}` } : {};
  const section = { type: provider, ...(baseUrl === undefined ? {} : { base_url: baseUrl }), ...reference };
  return {
    name,
    secret: apiKey === undefined ? undefined : { name: variable, value: apiKey },
    edits: [
      ...sectionEdits(`model.providers.${name}`, section, written !== undefined),
      ...(model === undefined ? [] : [["model.default", qualified(model.trim(), name)] as const]),
      ...(approvals === undefined ? [] : [["approvals.mode", approvals] as const]),
    ],
  };
}

/** An existing section keeps its other settings. Its type comes last: it may require the others. */
function sectionEdits(
  path: string,
  section: Readonly<Record<string, string | undefined>>,
  exists: boolean,
): SetupPlan["edits"] {
  if (!exists) return [[path, JSON.stringify(section)]];
  return Object.entries(section)
    .toReversed()
    .map(([key, value]) => [`${path}.${key}`, JSON.stringify(value)] as const);
}

/** Returns the full name of a model of this provider. */
function qualified(model: string, provider: string): string {
  return model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
}

/** Writes the key first: a configuration with a missing key would keep agentd from starting. */
export async function writePlan(home: string, { secret, edits }: SetupPlan): Promise<void> {
  await prepareHome(home);
  if (secret) await setEnvVariable(envPath(home), secret.name, secret.value);
  for (const [key, value] of edits) await setConfigValue({ home, key, value });
}

/** Returns the key that a provider has now, from its section or its conventional variable. */
export function currentKey(
  config: Config,
  env: Environment,
  { name, type }: { readonly name: string; readonly type: ProviderType },
): string | undefined {
  const own = conventionalVariables[type].map((variable) => env[variable]).find((value) => value);
  if (!Object.hasOwn(config.model.providers, name)) return own;
  try {
    return resolveProviders(config, env).find((provider) => provider.name === name)?.apiKey ?? own;
  } catch (error) {
    // A reference to a variable that is not set: this setup may be about to set it.
    if (error instanceof ServiceError) return own;
    throw error;
  }
}
