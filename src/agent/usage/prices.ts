/** The prices of models: configured ones, those of a bundled list, and nothing for models of this machine. */
import type { calcPrice } from "@pydantic/genai-prices";
import type { Clock } from "../../base/time.ts";
import { DEMO_MODEL, type ModelRef, type Usage } from "../engine.ts";
import type { ModelProvider } from "../model.ts";
import { NANO } from "./money.ts";

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
