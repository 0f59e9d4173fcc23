import type { ModelRef } from "./engine.ts";

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
}

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

/** The available models, and the resolution of their names. */
export interface ModelCatalog {
  readonly default: ModelRef;
  readonly providers: readonly ModelProvider[];
  /** Resolves `model` or `provider:model`; undefined when no provider can have it. */
  resolve(name: string): ModelRef | undefined;
  /** Returns the context size of the model. */
  contextTokensOf(ref: ModelRef): number;
  /** Returns the providers in their order, each with its known models; the demo model needs no key. */
  list(): readonly ListedProvider[];
}

/** Context of models without a known size. */
const DEFAULT_CONTEXT_TOKENS = 128_000;

/** The built-in model that needs neither key nor network. */
export const DEMO_MODEL: ModelRef = { provider: "demo", id: "demo" };

/** The type of provider that makes models of these names. OpenAI's open models run only elsewhere. */
const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^claude-/, "anthropic"],
  [/^(?:gpt-(?!oss)|chatgpt-|o\d)/, "openai"],
  [/^gemini-/, "google"],
];

/** Returns `provider:model`, the form in which models are stored and shown. */
export function formatModel(ref: ModelRef): string {
  return `${ref.provider}:${ref.id}`;
}

/** Parses a stored `provider:model`. */
export function parseModel(name: string): ModelRef {
  const [provider = "", ...id] = name.split(":");
  return { provider, id: id.join(":") };
}

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
}): ModelCatalog {
  const demo: ModelProvider = { name: DEMO_MODEL.provider, type: "demo", models: [DEMO_MODEL.id] };
  const providers = [...from.providers.filter((provider) => provider.name !== demo.name), demo];
  const first = firstModel(providers);
  const chosen = from.defaultModel === undefined ? first : find(from.defaultModel, providers, first);
  if (!chosen) {
    const names = providers.map((provider) => provider.name).join(", ");
    throw new RangeError(
      `model.default ${JSON.stringify(from.defaultModel)} is of no configured provider (${names})`,
    );
  }
  const { defaultContextTokens = DEFAULT_CONTEXT_TOKENS } = from;
  return {
    default: chosen,
    providers,
    resolve: (name) => find(name, providers, chosen),
    contextTokensOf: (ref) =>
      providers.find(({ name }) => name === ref.provider)?.contextTokens ??
      publishedContext(ref.id) ??
      defaultContextTokens,
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
 * Contexts that the makers publish, of families whose members agree; names that are not here get the default. Only names
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
