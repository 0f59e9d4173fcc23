import type { LanguageModelV4 } from "@ai-sdk/provider";
import { isListening } from "../../base/net/port.ts";
import type { EngineTurn, ModelRef } from "../engine.ts";

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

/** Explicit: otherwise the packages would read the environment, which is not the configuration. */
const OPENAI_URL = "https://api.openai.com/v1";
const ANTHROPIC_URL = "https://api.anthropic.com/v1";
const OPENROUTER_URL = "https://openrouter.ai/api/v1";

/** Loads a model of a provider. Each provider's package is loaded with its first model. */
export async function loadModel(provider: ProviderConfig, modelId: string): Promise<LanguageModelV4> {
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

/** A model that is ready for calls. */
export interface AnsweringModel {
  readonly ref: ModelRef;
  readonly provider: ProviderConfig;
  readonly model: Awaited<ReturnType<typeof loadModel>>;
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
  async next(): Promise<AnsweringModel | undefined> {
    for (let ref = this.#remaining.shift(); ref; ref = this.#remaining.shift()) {
      const { provider: name, id } = ref;
      const provider = this.#providers.find((candidate) => candidate.name === name);
      if (provider) return { ref, provider, model: await loadModel(provider, id) };
    }
    return undefined;
  }
}

export interface LocalServer {
  readonly name: string;
  readonly baseUrl: string;
  readonly models: readonly string[];
}

/** The usual addresses of OpenAI-compatible servers. */
const CANDIDATES: readonly (readonly [name: string, baseUrl: string])[] = [
  ["ollama", "http://127.0.0.1:11434/v1"],
  ["lmstudio", "http://127.0.0.1:1234/v1"],
  ["llamacpp", "http://127.0.0.1:8080/v1"],
  ["vllm", "http://127.0.0.1:8000/v1"],
  ["jan", "http://127.0.0.1:1337/v1"],
];
const TIMEOUT_MS = 300;
const MAX_BODY_BYTES = 1_048_576;
const MAX_MODELS = 100;

/** Probes the loopback addresses in parallel and returns the servers that list models within 300 ms. Never rejects. */
export async function detectLocalModels(
  options: { readonly candidates?: typeof CANDIDATES; readonly timeoutMs?: number } = {},
): Promise<readonly LocalServer[]> {
  const { candidates = CANDIDATES, timeoutMs = TIMEOUT_MS } = options;
  const found = await Promise.all(candidates.map(([name, baseUrl]) => probe(name, baseUrl, timeoutMs)));
  return found.filter((server) => server !== undefined);
}

async function probe(name: string, baseUrl: string, timeoutMs: number): Promise<LocalServer | undefined> {
  const address = URL.parse(baseUrl);
  if (!address) return undefined;
  // Usually no server runs, and loading the modules behind `fetch` takes longer than the rest of a start.
  const { hostname, protocol, port } = address;
  const usualPort = protocol === "https:" ? 443 : 80;
  if (!(await isListening({ hostname, port: Number(port) || usualPort }, timeoutMs))) return undefined;
  try {
    const response = await fetch(`${baseUrl}/models`, {
      signal: AbortSignal.timeout(timeoutMs),
      redirect: "error",
    });
    const models = response.ok ? modelIds(await boundedText(response)) : undefined;
    if (!response.ok) await response.body?.cancel();
    return models && { name, baseUrl, models };
  } catch {
    return undefined; // no server, or another kind of server
  }
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_BODY_BYTES) throw new RangeError("the list of models is too long");
    chunks.push(chunk);
  }
  return new Blob(chunks as BlobPart[]).text();
}

function modelIds(text: string): readonly string[] | undefined {
  const { data } = JSON.parse(text) as { data?: unknown };
  if (!Array.isArray(data)) return undefined;
  const ids = data.map((entry: { id?: unknown } | null) => entry?.id);
  return ids.filter((id): id is string => typeof id === "string" && id !== "").slice(0, MAX_MODELS);
}
