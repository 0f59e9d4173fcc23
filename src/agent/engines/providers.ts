import type { LanguageModelV4 } from "@ai-sdk/provider";
import { Memo } from "../../base/data.ts";
import type { EngineTurn } from "../engine.ts";
import type { ModelRef } from "../model.ts";

/** A provider's endpoint. `apiKey` and `headers` are secrets. */
export interface ProviderConfig {
  readonly name: string;
  readonly type: "openai" | "anthropic" | "google" | "openrouter" | "openai_compatible";
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Longest wait for the next part of an answer. */
  readonly timeoutMs?: number;
}

/** A provider that the model SDK connects. agentd reads chat completions as OpenAI defined them itself. */
export type SdkProvider = ProviderConfig & {
  readonly type: Exclude<ProviderConfig["type"], "openrouter" | "openai_compatible">;
};

export function isSdkProvider(provider: ProviderConfig): provider is SdkProvider {
  return provider.type !== "openai_compatible" && provider.type !== "openrouter";
}

/** Explicit: otherwise the packages would read the environment, which is not the configuration. */
const OPENAI_URL = "https://api.openai.com/v1";
const ANTHROPIC_URL = "https://api.anthropic.com/v1";

/** Models that are kept for each provider. Clients may name any number of them. */
const MAX_KEPT_MODELS = 64;

const keptModels = new WeakMap<SdkProvider, Memo<LanguageModelV4>>();

/**
 * Returns a model of a provider, the same one each time: every new model makes the SDK analyze its schemas again. Each
 * provider's package is loaded with its first model.
 */
export function loadModel(provider: SdkProvider, modelId: string): Promise<LanguageModelV4> {
  let models = keptModels.get(provider);
  if (!models) keptModels.set(provider, (models = new Memo(MAX_KEPT_MODELS)));
  return models.get(modelId, "", () => createModel(provider, modelId));
}

async function createModel(provider: SdkProvider, modelId: string): Promise<LanguageModelV4> {
  const { apiKey, headers, baseUrl: baseURL } = provider;
  const options = {
    ...(baseURL === undefined ? {} : { baseURL }),
    ...(headers === undefined ? {} : { headers: { ...headers } }),
    // Without a key the packages would read the environment and fail with their own messages; see missingKey.
    apiKey: apiKey ?? "",
  };
  switch (provider.type) {
    case "openai": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      // Other OpenAI-compatible servers have chat completions, but rarely responses.
      return baseURL === undefined
        ? createOpenAI({ ...options, baseURL: OPENAI_URL })(modelId)
        : createOpenAI(options).chat(modelId);
    }
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic({ baseURL: ANTHROPIC_URL, ...options })(modelId);
    }
    case "google": {
      const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
      return createGoogleGenerativeAI(options)(modelId);
    }
  }
}

/** A model and its provider. */
export interface AnsweringModel {
  readonly ref: ModelRef;
  readonly provider: ProviderConfig;
}

/** The models of a turn: the chosen one, then its fallbacks in order, without duplicates. */
export class FallbackChain {
  readonly #providers: readonly ProviderConfig[];
  readonly #remaining: ModelRef[];

  constructor({ model, fallbacks = [] }: EngineTurn, providers: readonly ProviderConfig[]) {
    const isSame = (a: ModelRef, b: ModelRef) => a.provider === b.provider && a.id === b.id;
    const refs = [model, ...fallbacks];
    this.#remaining = refs.filter((ref, index) => refs.findIndex((other) => isSame(ref, other)) === index);
    this.#providers = providers;
  }

  /** Returns the next model whose provider is configured. */
  next(): AnsweringModel | undefined {
    for (let ref = this.#remaining.shift(); ref; ref = this.#remaining.shift()) {
      const { provider: name } = ref;
      const provider = this.#providers.find((candidate) => candidate.name === name);
      if (provider) return { ref, provider };
    }
    return undefined;
  }
}
