/** Resolves the available model providers with their keys. Pure. */
import type { Config, ProviderConfig } from "../../generated/config/types.gen.ts";
import { type Environment, resolveSecret } from "./home.ts";

export type ProviderType = ProviderConfig["type"];

export interface ResolvedProvider {
  readonly name: string;
  readonly type: ProviderType;
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly models?: readonly string[];
  readonly timeoutMs: number;
  /** Context of its models, when configured. */
  readonly contextTokens?: number;
  /** Configured prices of its models. */
  readonly prices?: ProviderConfig["prices"];
}

/** Conventional variables of a provider's key; the first that is set is used. */
export const conventionalVariables = {
  openai: ["OPENAI_API_KEY"],
  anthropic: ["ANTHROPIC_API_KEY"],
  google: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"],
  openrouter: ["OPENROUTER_API_KEY"],
  openai_compatible: [],
} as const satisfies Readonly<Record<ProviderType, readonly string[]>>;

const DEFAULT_TIMEOUT_MS = 120_000;

/**
 * Returns the configured providers in the order of the file, then those with only a conventional variable, under the
 * names `openai`, `anthropic`, `google` and `openrouter`. ServiceError `invalid_config` for a reference to a variable
 * that is not set.
 */
export function resolveProviders(config: Config, env: Environment): readonly ResolvedProvider[] {
  const { providers } = config.model;
  const configured = Object.entries(providers).map(([name, provider]) => resolve(name, provider, env));
  const types = Object.keys(conventionalVariables) as ProviderType[];
  const found = types.flatMap((type) => {
    const apiKey = Object.hasOwn(providers, type) ? undefined : conventionalKey(type, env);
    return apiKey === undefined ? [] : [{ name: type, type, apiKey, timeoutMs: DEFAULT_TIMEOUT_MS }];
  });
  return [...configured, ...found];
}

function resolve(name: string, provider: ProviderConfig, env: Environment): ResolvedProvider {
  const path = `model.providers.${name}`;
  const { type, base_url: baseUrl, models, headers, context_tokens: contextTokens, prices } = provider;
  const apiKey =
    provider.api_key === undefined
      ? conventionalKey(type, env)
      : resolveSecret(provider.api_key, env, `${path}.api_key`);
  return {
    name,
    type,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(headers === undefined ? {} : { headers: resolveHeaders(headers, env, path) }),
    ...(models === undefined ? {} : { models }),
    timeoutMs: provider.timeout_seconds * 1000,
    ...(contextTokens === undefined ? {} : { contextTokens }),
    ...(prices === undefined ? {} : { prices }),
  };
}

function resolveHeaders(headers: Readonly<Record<string, string>>, env: Environment, path: string) {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      resolveSecret(value, env, `${path}.headers.${name}`),
    ]),
  );
}

function conventionalKey(type: ProviderType, env: Environment): string | undefined {
  return conventionalVariables[type].map((name) => env[name]).find((value) => value);
}
