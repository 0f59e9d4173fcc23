/** The models: their names, their catalog and their prices. */
import type { calcPrice } from "@pydantic/genai-prices";
import { ServiceError } from "../base/errors.ts";
import type { Clock } from "../base/time.ts";
import { NANO, type Usage } from "./usage/usage.ts";

/** `id` is the provider's own model name. */
export interface ModelRef {
  readonly provider: string;
  readonly id: string;
}

/** Returns `provider:model`, the form in which models are stored and shown. */
export function formatModel(ref: ModelRef): string {
  return `${ref.provider}:${ref.id}`;
}

/** Parses a stored `provider:model`. */
export function parseModel(name: string): ModelRef {
  const [provider = "", ...id] = name.split(":");
  return { provider, id: id.join(":") };
}

/** The built-in model that needs neither key nor network. */
export const DEMO_MODEL: ModelRef = { provider: "demo", id: "demo" };

/** A provider as pickers show it. */
export interface ListedProvider {
  readonly name: string;
  readonly type: string;
  /** In the form in which models are stored and shown. */
  readonly models: readonly string[];
  readonly hasKey: boolean;
  readonly isDefault: boolean;
}

/** Whether a provider is usable: it has a key or needs none. */
export function isReady({ type, hasKey }: ListedProvider): boolean {
  return hasKey || type === "openai_compatible";
}

/** A provider as far as model names depend on it. */
export interface ModelProvider {
  readonly name: string;
  readonly type: string;
  /** Its known models; empty when unknown. */
  readonly models: readonly string[];
  /** Context of its models, if configured. */
  readonly contextTokens?: number;
  /** Whether it has a key; undefined when unknown. */
  readonly hasKey?: boolean;
  /** Runs on this machine, where it may answer one request at a time, and calls cost nothing. Default false. */
  readonly isLocal?: boolean;
  /** Absent: the provider's own address. */
  readonly baseUrl?: string;
  /** Configured prices; the first that matches a model counts. */
  readonly prices?: readonly ConfiguredPrice[];
}

/** Prices of models of a provider, in US dollars per million tokens. */
export interface ConfiguredPrice {
  /** Name of the model, where `*` stands for any text. */
  readonly match: string;
  readonly input: number;
  readonly output: number;
  /** Default: the price of other input. */
  readonly cache_read?: number;
  readonly cache_write?: number;
}

/** The available models, and the resolution of their names. */
export interface ModelCatalog {
  readonly default: ModelRef;
  readonly providers: readonly ModelProvider[];
  /** Resolves `model` or `provider:model`; undefined when no provider can have it. */
  resolve(name: string): ModelRef | undefined;
  /** Returns the context size of the model: configured, reported by its server, published, or the default. */
  contextTokensOf(ref: ModelRef): number;
  /**
   * Asks the server of the model for its context. Bounded in time; never rejects. Undefined when nothing is asked: the
   * context is configured, the server reports none, or it has answered.
   */
  refreshContext(ref: ModelRef, options?: RefreshOptions): Promise<void> | undefined;
  /** Returns why no model answers, although a server of one is there; undefined when the default model answers. */
  whyNone?(): string | undefined;
  /** Returns why nothing unattended may use the default model: a provider is configured, but no model is chosen. */
  whyUnchosen?(): string | undefined;
  /** Returns the providers in their order, each with its known models; the demo model needs no key. */
  list(): readonly ListedProvider[];
}

/** The contexts that model servers report. */
export interface ContextSource {
  /** Returns the last reported context; undefined when none is known. */
  known(ref: ModelRef): number | undefined;
  /** Undefined when there is nothing to wait for. */
  refresh(ref: ModelRef, options: RefreshOptions): Promise<void> | undefined;
}

export interface RefreshOptions {
  readonly signal?: AbortSignal;
  /** The next call uses the model: the server may load it to know its context. */
  readonly loads?: boolean;
}

/** Context of models without a known size. */
const DEFAULT_CONTEXT_TOKENS = 128_000;

/** The type of provider that makes models of these names. OpenAI's open models run only elsewhere. */
const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^claude-/, "anthropic"],
  [/^(?:gpt-(?!oss)|chatgpt-|o\d)/, "openai"],
  [/^gemini-/, "google"],
];

/**
 * Creates a catalog that resolves names by the configured providers. A prefix counts only if it names a provider
 * (`qwen3:8b` is a model of Ollama, not a provider). A bare name goes to the provider that lists it. Else, if the name
 * shows its maker, it goes to the maker's provider or a router, and is unknown without either. Else it goes to the
 * default's provider, unless that lists its models.
 *
 * `defaultModel` that nothing resolves throws: the configuration names a provider that does not exist.
 */
export function createModelCatalog(from: {
  readonly providers: readonly ModelProvider[];
  readonly defaultModel?: string;
  /** Default 128,000. */
  readonly defaultContextTokens?: number;
  readonly contexts?: ContextSource;
}): ModelCatalog {
  const demo: ModelProvider = { name: DEMO_MODEL.provider, type: "demo", models: [DEMO_MODEL.id] };
  const providers = [...from.providers.filter((provider) => provider.name !== demo.name), demo];
  const first = firstModel(providers);
  const chosen = from.defaultModel === undefined ? first : find(from.defaultModel, providers, first);
  if (!chosen) {
    const names = providers.map((provider) => provider.name).join(", ");
    throw new RangeError(
      `model.default ${JSON.stringify(from.defaultModel)} belongs to no configured provider (${names})`,
    );
  }
  const { defaultContextTokens = DEFAULT_CONTEXT_TOKENS, contexts } = from;
  const configuredContext = (ref: ModelRef) =>
    providers.find(({ name }) => name === ref.provider)?.contextTokens;
  return {
    default: chosen,
    providers,
    resolve: (name) => find(name, providers, chosen),
    contextTokensOf: (ref) =>
      configuredContext(ref) ?? contexts?.known(ref) ?? publishedContext(ref.id) ?? defaultContextTokens,
    refreshContext: (ref, options = {}) =>
      configuredContext(ref) === undefined ? contexts?.refresh(ref, options) : undefined,
    list: () =>
      providers.map(({ name, type, models, hasKey }) => ({
        name,
        type,
        models: models.map((id) => formatModel({ provider: name, id })).filter((model) => NAME.test(model)),
        hasKey: hasKey ?? type === "demo",
        isDefault: name === chosen.provider,
      })),
  };
}

/**
 * Published context sizes of model families whose members agree; other names get the default. Only names
 * from the start count, with or without the maker: what a local server calls `my-gpt-4o` may be anything.
 */
const PUBLISHED_CONTEXTS: readonly (readonly [RegExp, number])[] = [
  [/^(?:openai\/)?gpt-4\.1(?:-|$)/, 1_047_576],
  [/^(?:openai\/)?gpt-4o(?:-|$)/, 128_000],
  [/^(?:openai\/)?gpt-4-turbo(?:-|$)/, 128_000],
  [/^(?:openai\/)?(?:o1|o3|o4-mini)(?:-20|$)/, 200_000],
  [/^(?:anthropic\/)?claude-(?:3|opus-4|sonnet-4|haiku-4)/, 200_000],
  [/^(?:google\/)?gemini-2\.(?:0|5)-(?:flash|pro)(?:-lite|-\d+)?$/, 1_048_576],
];

function publishedContext(id: string): number | undefined {
  return PUBLISHED_CONTEXTS.find(([pattern]) => pattern.test(id))?.[1];
}

/** Visible ASCII: names travel in headers. */
const NAME = /^[\x21-\x7e]{1,256}$/;

/** The first listed model that can be named; the demo model comes last. */
function firstModel(providers: readonly ModelProvider[]): ModelRef {
  const listed = providers.flatMap(({ name, models }) => models.map((id) => ({ provider: name, id })));
  return listed.find((ref) => NAME.test(formatModel(ref))) ?? DEMO_MODEL;
}

function find(name: string, providers: readonly ModelProvider[], fallback: ModelRef): ModelRef | undefined {
  if (!NAME.test(name)) return undefined;
  const [prefix = "", ...rest] = name.split(":");
  const provider = rest.length > 0 && providers.find((candidate) => candidate.name === prefix);
  const ref = provider ? explicit(provider, rest.join(":")) : bare(name, providers, fallback);
  // The stored form is read as a name again.
  return ref && NAME.test(formatModel(ref)) ? ref : undefined;
}

function explicit(provider: ModelProvider, id: string): ModelRef | undefined {
  if (id === "" || (provider.type === "demo" && !provider.models.includes(id))) return undefined;
  return { provider: provider.name, id: formatFor(provider, id) };
}

function bare(name: string, providers: readonly ModelProvider[], fallback: ModelRef): ModelRef | undefined {
  const listed = providers.find((provider) => provider.models.includes(name));
  if (listed) return { provider: listed.name, id: name };
  const router = providers.find((provider) => provider.type === "openrouter");
  const family = familyOf(name);
  if (family !== undefined) {
    const taker = providers.find((provider) => provider.type === family) ?? router;
    return taker && { provider: taker.name, id: formatFor(taker, name) };
  }
  const current = providers.find((provider) => provider.name === fallback.provider);
  const isOpen = current !== undefined && current.type !== "demo" && current.models.length === 0;
  return isOpen ? { provider: current.name, id: formatFor(current, name) } : undefined;
}

/** Routers name a model with its maker (`anthropic/claude-x`); the makers themselves do not. */
function formatFor(provider: ModelProvider, id: string): string {
  if (provider.models.includes(id)) return id;
  const family = familyOf(id);
  if (family === undefined) return id;
  const bareId = id.startsWith(`${family}/`) ? id.slice(family.length + 1) : id;
  if (provider.type === "openrouter") return `${family}/${bareId}`;
  return provider.type === family ? bareId : id;
}

/** Returns the maker that a model name shows, with or without the maker as its prefix. */
function familyOf(id: string): string | undefined {
  return FAMILIES.find(([pattern, maker]) =>
    pattern.test(id.startsWith(`${maker}/`) ? id.slice(maker.length + 1) : id),
  )?.[1];
}

/**
 * Parses `<model> [--provider <name>] [--global | --session | --tui-session]`, in any order. `name` is `model` or
 * `provider:model`; `isGlobal`: it is the default of all sessions. ServiceError `invalid_request`.
 */
export function parseModelChoice(text: string): { readonly name: string; readonly isGlobal: boolean } {
  const names: string[] = [];
  const flags = new Set<string>();
  let provider: string | undefined;
  const words = text.split(/\s+/).filter((word) => word !== "");
  for (let at = 0; at < words.length; at++) {
    const [word = "", value] = words[at]?.split(/=(.*)/s) ?? [];
    if (word === "--provider") provider = value ?? words[++at];
    else if (MODEL_FLAGS.has(word) && value === undefined) flags.add(word);
    else if (word.startsWith("--")) throw badChoice(`The option ${word} is unknown.`);
    else names.push(words[at] ?? "");
    if (word === "--provider" && (provider ?? "") === "") throw badChoice("--provider needs a name.");
  }
  const [name] = names;
  if (name === undefined || names.length > 1) throw badChoice("Name exactly one model.");
  const isQualified = provider === undefined || name.startsWith(`${provider}:`);
  return { name: isQualified ? name : `${provider}:${name}`, isGlobal: flags.has("--global") };
}

const MODEL_FLAGS: ReadonlySet<string> = new Set(["--global", "--session", "--tui-session"]);

function badChoice(what: string): ServiceError {
  const form = "<model> [--provider <name>] [--global|--session]";
  return new ServiceError("invalid_request", `${what} Write: ${form}.`, { param: "model" });
}

// Prices: configured ones, those of a bundled list, and nothing for models of this machine

/** A provider, as far as prices depend on it. */
type PricedProvider = Pick<ModelProvider, "name" | "type" | "baseUrl" | "isLocal" | "prices">;

/** US dollars per million tokens. */
export interface Price {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

export type PriceSource = "config" | "bundled" | "local" | "none";

interface BundledList {
  readonly calcPrice: typeof calcPrice;
}

const MILLION = 1e6;
const FREE: Price = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

/**
 * Prices model calls. The bundled list is 0.5 MB of code: it is loaded with the first call that needs it, and never asks the
 * network.
 */
export class Prices {
  readonly #catalog: { readonly providers: readonly PricedProvider[] };
  readonly #clock: Clock;
  #list: BundledList | undefined;
  #loading: Promise<void> | undefined;

  constructor(catalog: { readonly providers: readonly PricedProvider[] }, clock: Clock) {
    this.#catalog = catalog;
    this.#clock = clock;
  }

  /** Loads the bundled list if a model of `models` needs it. Undefined: nothing to wait for. */
  prepare(models: readonly ModelRef[]): Promise<void> | undefined {
    if (this.#list || !models.some((model) => this.#needsList(model))) return undefined;
    return (this.#loading ??= import("@pydantic/genai-prices").then((list) => void (this.#list = list)));
  }

  /** Returns the usage of a call with its cost. Call {@link prepare} first. */
  priced(model: ModelRef, usage: Usage): Usage {
    if (model.provider === DEMO_MODEL.provider) return usage;
    const tokens = usage.inputTokens + usage.outputTokens;
    if (tokens === 0) return usage;
    const usd = this.#usdOf(model, clamp(usage));
    if (usd === undefined) return { ...usage, unpricedTokens: tokens };
    return usd === 0 ? usage : { ...usage, costNano: Math.round(usd * NANO) };
  }

  /** Whether calls of the model have a price. Call {@link prepare} first. */
  isKnown(model: ModelRef): boolean {
    return this.#usdOf(model, { input: 1, cacheRead: 0, cacheWrite: 0, output: 1 }) !== undefined;
  }

  /** Returns the price of the model for a short call; undefined when it is unknown. */
  async find(model: ModelRef): Promise<{ readonly source: PriceSource; readonly price: Price | undefined }> {
    await this.prepare([model]);
    const provider = this.#providerOf(model);
    const configured = configuredPrice(provider, model.id);
    if (configured) return { source: "config", price: configured };
    if (isFree(model, provider)) return { source: "local", price: FREE };
    const price = provider && this.#bundledPrice(provider, model.id);
    return { source: price ? "bundled" : "none", price };
  }

  #needsList(model: ModelRef): boolean {
    const provider = this.#providerOf(model);
    return provider !== undefined && !isFree(model, provider) && !configuredPrice(provider, model.id);
  }

  #usdOf(model: ModelRef, used: Tokens): number | undefined {
    const provider = this.#providerOf(model);
    const configured = configuredPrice(provider, model.id);
    if (configured) return multiply(configured, used);
    if (isFree(model, provider)) return 0;
    return provider && this.#calculate(provider, model.id, used)?.total_price;
  }

  #providerOf({ provider: name }: ModelRef): PricedProvider | undefined {
    return this.#catalog.providers.find((provider) => provider.name === name);
  }

  #calculate({ type, baseUrl }: PricedProvider, modelId: string, used: Tokens) {
    const usage = {
      input_tokens: used.input,
      cache_read_tokens: used.cacheRead,
      cache_write_tokens: used.cacheWrite,
      output_tokens: used.output,
    };
    // Under another address a provider's own prices need not hold.
    const where = baseUrl === undefined ? { providerId: type } : { providerApiUrl: baseUrl };
    return this.#list?.calcPrice(usage, modelId, { ...where, timestamp: new Date(this.#clock.now()) });
  }

  #bundledPrice(provider: PricedProvider, modelId: string): Price | undefined {
    const none: Tokens = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 };
    const of = (used: Partial<Tokens>) =>
      (this.#calculate(provider, modelId, { ...none, ...used })?.total_price ?? 0) * MILLION;
    if (!this.#calculate(provider, modelId, none)) return undefined;
    return {
      input: of({ input: 1 }),
      output: of({ output: 1 }),
      cacheRead: of({ input: 1, cacheRead: 1 }),
      cacheWrite: of({ input: 1, cacheWrite: 1 }),
    };
  }
}

/** Tokens of one call. `input` includes those of the cache. */
interface Tokens {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
}

/** Returns counts that a price can be calculated of: servers report some that contradict each other. */
function clamp({ inputTokens, cachedInputTokens, cacheWriteTokens, outputTokens }: Usage): Tokens {
  const input = count(inputTokens);
  const cacheRead = Math.min(count(cachedInputTokens), input);
  const cacheWrite = Math.min(count(cacheWriteTokens), input - cacheRead);
  return { input, cacheRead, cacheWrite, output: count(outputTokens) };
}

function count(tokens: number): number {
  return Number.isFinite(tokens) && tokens > 0 ? Math.floor(tokens) : 0;
}

function multiply(price: Price, { input, cacheRead, cacheWrite, output }: Tokens): number {
  const uncached = input - cacheRead - cacheWrite;
  const sum =
    uncached * price.input +
    cacheRead * price.cacheRead +
    cacheWrite * price.cacheWrite +
    output * price.output;
  return sum / MILLION;
}

function isFree(model: ModelRef, provider: PricedProvider | undefined): boolean {
  return model.provider === DEMO_MODEL.provider || provider?.isLocal === true;
}

function configuredPrice(provider: PricedProvider | undefined, modelId: string): Price | undefined {
  const found = provider?.prices?.find(({ match }) => matches(match, modelId));
  if (!found) return undefined;
  const { input, output, cache_read: cacheRead = input, cache_write: cacheWrite = input } = found;
  return { input, output, cacheRead, cacheWrite };
}

/** Whether `text` is `pattern`, where `*` stands for any text. Takes linear time. */
function matches(pattern: string, text: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
