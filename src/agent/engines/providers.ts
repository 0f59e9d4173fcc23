import type { LanguageModelV4 } from "@ai-sdk/provider";

/** Where models are asked. `apiKey` and `headers` are secrets. */
export interface ProviderConfig {
  readonly name: string;
  readonly type: "openai" | "anthropic" | "google" | "openrouter" | "openai_compatible";
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Longest wait for the next piece of an answer. */
  readonly timeoutMs?: number;
}

/** Told in so many words: without them the packages would look into the environment, which is not the configuration. */
const OPENAI_URL = "https://api.openai.com/v1";
const ANTHROPIC_URL = "https://api.anthropic.com/v1";
const OPENROUTER_URL = "https://openrouter.ai/api/v1";

/** A model of a provider. Only that provider's package is loaded, with its first model. */
export async function loadModel(provider: ProviderConfig, modelId: string): Promise<LanguageModelV4> {
  const { apiKey, headers, baseUrl: baseURL } = provider;
  const options = {
    ...(baseURL === undefined ? {} : { baseURL }),
    ...(headers === undefined ? {} : { headers: { ...headers } }),
    // Without a key the packages would look into the environment and fail with their own words; see missingKey.
    apiKey: apiKey ?? "",
  };
  switch (provider.type) {
    case "openai": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      // Other servers that call themselves OpenAI have chat completions, seldom responses.
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
    case "openrouter":
    case "openai_compatible":
      return loadCompatible(provider, modelId);
  }
}

async function loadCompatible(provider: ProviderConfig, modelId: string): Promise<LanguageModelV4> {
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
  const { name, apiKey, headers, baseUrl = OPENROUTER_URL } = provider;
  return createOpenAICompatible({
    name,
    baseURL: baseUrl,
    includeUsage: true,
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(headers === undefined ? {} : { headers: { ...headers } }),
  })(modelId);
}
