import type { ModelRef } from "./engine.ts";

/** A provider as names see it. */
export interface ModelProvider {
  readonly name: string;
  readonly type: string;
  /** Models it is known to have; empty when nobody said. */
  readonly models: readonly string[];
}

/** Which models there are, and what a name means. */
export interface ModelCatalog {
  readonly default: ModelRef;
  readonly providers: readonly ModelProvider[];
  /** What `model` or `provider:model` means here; undefined when no provider can have it. */
  resolve(name: string): ModelRef | undefined;
}

/** The built-in model that needs neither key nor network. */
export const DEMO_MODEL: ModelRef = { provider: "demo", id: "demo" };

/** Which kind of provider makes the models that are named like this. */
const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^claude-/, "anthropic"],
  [/^(?:gpt-|chatgpt-|o\d)/, "openai"],
  [/^gemini-/, "google"],
];

/** `provider:model`, the form in which models are stored and shown. */
export function formatModel(ref: ModelRef): string {
  return `${ref.provider}:${ref.id}`;
}

/**
 * Names are resolved in the light of the providers there are, so that one name works with whatever is configured:
 * a prefix counts only if it names a provider (`qwen3:8b` is a model of Ollama's, not a provider), a bare name goes to
 * the provider that lists it, else to the maker's own, else to a router under its maker's prefix, else to the default's.
 *
 * `defaultModel` that nothing resolves throws: the configuration names a provider that does not exist.
 */
export function createModelCatalog(from: {
  readonly providers: readonly ModelProvider[];
  readonly defaultModel?: string;
}): ModelCatalog {
  const demo: ModelProvider = { name: DEMO_MODEL.provider, type: "demo", models: [DEMO_MODEL.id] };
  const providers = [...from.providers.filter((provider) => provider.name !== demo.name), demo];
  const find = (name: string, fallback: ModelRef): ModelRef | undefined =>
    explicit(name, providers) ?? bare(name, providers, fallback);
  const first = firstModel(from.providers) ?? DEMO_MODEL;
  const chosen = from.defaultModel === undefined ? first : find(from.defaultModel, first);
  if (!chosen) {
    const names = providers.map((provider) => provider.name).join(", ");
    throw new RangeError(
      `model.default ${JSON.stringify(from.defaultModel)} is of no configured provider (${names})`,
    );
  }
  const resolve = (name: string) => (NAME.test(name) ? find(name, chosen) : undefined);
  return { default: chosen, providers, resolve };
}

/** Visible ASCII: names travel in headers. */
const NAME = /^[\x21-\x7e]{1,256}$/;

function firstModel(providers: readonly ModelProvider[]): ModelRef | undefined {
  const provider = providers.find((candidate) => candidate.models.length > 0);
  const id = provider?.models[0];
  return provider && id !== undefined ? { provider: provider.name, id } : undefined;
}

/** `provider:model` with a known provider in front of the first colon. */
function explicit(name: string, providers: readonly ModelProvider[]): ModelRef | undefined {
  const colon = name.indexOf(":");
  const provider = providers.find((candidate) => candidate.name === name.slice(0, Math.max(colon, 0)));
  const id = name.slice(colon + 1);
  if (!provider || id === "") return undefined;
  if (provider.type === "demo" && !provider.models.includes(id)) return undefined;
  return { provider: provider.name, id: formatFor(provider, id) };
}

function bare(name: string, providers: readonly ModelProvider[], fallback: ModelRef): ModelRef | undefined {
  const listed = providers.find((provider) => provider.models.includes(name));
  if (listed) return { provider: listed.name, id: name };
  const family = familyOf(name);
  if (family !== undefined) {
    const maker = providers.find((provider) => provider.type === family);
    const router = maker ?? providers.find((provider) => provider.type === "openrouter");
    return router && { provider: router.name, id: formatFor(router, name) };
  }
  const current = providers.find((provider) => provider.name === fallback.provider);
  const isOpen = current !== undefined && current.type !== "demo" && current.models.length === 0;
  return isOpen ? { provider: current.name, id: formatFor(current, name) } : undefined;
}

/** Routers name a model with its maker (`anthropic/claude-x`); the makers themselves do not. */
function formatFor(provider: ModelProvider, id: string): string {
  const [maker, ...rest] = id.split("/");
  if (provider.type === "openrouter") {
    const family = familyOf(id);
    return family === undefined ? id : `${family}/${id}`;
  }
  const isMaker = FAMILIES.some(([, type]) => type === provider.type);
  return isMaker && rest.length > 0 && maker === provider.type ? rest.join("/") : id;
}

function familyOf(id: string): string | undefined {
  return FAMILIES.find(([pattern]) => pattern.test(id))?.[1];
}
