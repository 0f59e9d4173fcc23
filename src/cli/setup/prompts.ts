/** The questions of `agentd setup`. Writes nothing. */
import type * as Clack from "@clack/prompts";
import type { Config } from "../../../generated/config/types.gen.ts";
import { listModels } from "../../app/model-servers.ts";
import { registerSecret } from "../../base/observe.ts";
import type { Environment } from "../../config/home.ts";
import { conventionalVariables, type ProviderType, type ResolvedProvider } from "../../config/providers.ts";
import { hasFailed } from "../../agent/engines/scripted.ts";
import { describeTrial, tryModelOf } from "../model/deps.ts";
import { describeListing, findOffers, preferredModel, type Offer } from "./offers.ts";
import { currentKey, DEFAULT_NAME, type SetupAnswers } from "./plan.ts";

type Prompts = typeof Clack;

interface Found {
  readonly config: Config;
  readonly env: Environment;
}

const LABELS: Readonly<Record<ProviderType, string>> = {
  openai: "OpenAI",
  anthropic: "Anthropic",
  google: "Google",
  openrouter: "OpenRouter",
  openai_compatible: "Another OpenAI-compatible server (Ollama, vLLM, LM Studio ...)",
};
const LIST_TIMEOUT_MS = 15_000;
const MODEL_TIMEOUT_MS = 120_000;
const MAX_KEYS = 3;
const MAX_SELECTABLE = 15;

/** Asks for the settings until a model answers. Returns undefined if the user cancels. */
export async function askSetup(found: Found): Promise<SetupAnswers | undefined> {
  const ask = await import("@clack/prompts");
  ask.intro("agentd setup");
  const endpoint = await askEndpoint(ask, found);
  const known = endpoint && (await askListed(ask, endpoint, found));
  const model = known && (await askWorkingModel(ask, known));
  const approvals = model === undefined ? undefined : await askApprovals(ask, found.config);
  if (!known || model === undefined || approvals === undefined) return undefined;
  const { type: provider, name, baseUrl, typedKey: apiKey } = known.endpoint;
  return {
    provider,
    approvals,
    model,
    name,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
}

interface Endpoint {
  readonly type: ProviderType;
  readonly name: string;
  readonly baseUrl?: string;
  /** A key that is not saved yet. */
  readonly typedKey?: string;
}

async function askEndpoint(ask: Prompts, { config, env }: Found): Promise<Endpoint | undefined> {
  const { offers, unanswered } = await findOffers(config, env);
  for (const address of unanswered) ask.log.warn(`A server at ${address} did not answer in time.`);
  const options = offers.map((offer, value) => ({ value, ...described(offer) }));
  const chosen = await ask.select({ message: "Which model provider?", options });
  const offer = ask.isCancel(chosen) ? undefined : offers[chosen];
  if (!offer) return undefined;
  if (offer.kind === "server") {
    const { name, baseUrl } = offer.server;
    return { type: "openai_compatible", name, baseUrl };
  }
  const { type } = offer;
  if (type !== "openai_compatible") return { type, name: type };
  const name = await ask.text({ message: "Name of the provider", initialValue: DEFAULT_NAME });
  if (ask.isCancel(name)) return undefined;
  const baseUrl = await ask.text({
    message: "Base URL",
    placeholder: "http://127.0.0.1:11434/v1",
    validate: (text = "") =>
      URL.canParse(text) && /^https?:/.test(text)
        ? undefined
        : "Write a URL such as http://127.0.0.1:11434/v1",
  });
  return ask.isCancel(baseUrl) ? undefined : { type, name, baseUrl };
}

function described(offer: Offer): { readonly label: string; readonly hint?: string } {
  if (offer.kind === "server") {
    const { name, baseUrl, models } = offer.server;
    return {
      label: `${name} at ${baseUrl}`,
      hint: `found, ${models.length} model${models.length === 1 ? "" : "s"}`,
    };
  }
  const { type, variable } = offer;
  return { label: LABELS[type], ...(variable === undefined ? {} : { hint: `${variable} is set` }) };
}

interface Known {
  readonly endpoint: Endpoint;
  readonly provider: ResolvedProvider;
  /** Empty when the provider lists none. */
  readonly models: readonly string[];
}

/** Asks for the key, where one is needed, and lists the models with it. */
async function askListed(ask: Prompts, endpoint: Endpoint, found: Found): Promise<Known | undefined> {
  const { type, name, baseUrl } = endpoint;
  let apiKey = currentKey(found.config, found.env, endpoint);
  let typedKey: string | undefined;
  for (let keys = 0; keys < MAX_KEYS; keys++) {
    const isNeeded = keys > 0 || (type !== "openai_compatible" && apiKey === undefined);
    if (isNeeded) {
      const typed = await askKey(ask, type);
      if (typed === undefined) return undefined;
      apiKey = typedKey = typed;
      registerSecret(typed);
    }
    const address = { type, name, ...(baseUrl === undefined ? {} : { baseUrl }) };
    const provider = {
      ...address,
      timeoutMs: MODEL_TIMEOUT_MS,
      ...(apiKey === undefined ? {} : { apiKey }),
    };
    ask.log.step(`Listing the models of ${name}`);
    const listing = await listModels(provider, { timeoutMs: LIST_TIMEOUT_MS });
    const known = { endpoint: { ...address, ...(typedKey === undefined ? {} : { typedKey }) }, provider };
    if (listing.status === "listed") return { ...known, models: listing.models };
    ask.log.warn(describeListing(listing, name));
    if (listing.status !== "refused") return { ...known, models: [] };
  }
  return undefined;
}

async function askKey(ask: Prompts, type: ProviderType): Promise<string | undefined> {
  const key = await ask.password({
    message: conventionalVariables[type][0] ?? "API key",
    validate: (text = "") => (text.trim() === "" ? "Enter the key, or press Ctrl-C to cancel." : undefined),
  });
  return ask.isCancel(key) ? undefined : key.trim();
}

/** Asks for a model until one answers, or the user takes one that does not. */
async function askWorkingModel(ask: Prompts, known: Known): Promise<string | undefined> {
  const { provider } = known;
  for (;;) {
    const id = await askModel(ask, known);
    if (id === undefined) return undefined;
    const name = `${provider.name}:${id}`;
    ask.log.step(`Testing ${name} with one tool call`);
    const trial = await tryModelOf({ providers: [provider] }, { provider: provider.name, id });
    if (!hasFailed(trial)) {
      ask.log.success(describeTrial(trial, name));
      return id;
    }
    ask.log.error(describeTrial(trial, name));
    const next = await ask.select({
      message: "What now?",
      options: [
        { value: "again" as const, label: "Choose another model" },
        { value: "use" as const, label: "Use this model all the same" },
      ],
    });
    if (ask.isCancel(next)) return undefined;
    if (next === "use") return id;
  }
}

const OTHER = "\u0000other";

async function askModel(ask: Prompts, { provider, models }: Known): Promise<string | undefined> {
  const message = "Which model?";
  if (models.length > 0) {
    const proposed = preferredModel(provider.type, models);
    const listed = models.map((value) => ({ value, label: value }));
    const options = [...listed, { value: OTHER, label: "Another model" }];
    const shared = { message, options, ...(proposed === undefined ? {} : { initialValue: proposed }) };
    const isLong = models.length > MAX_SELECTABLE;
    const chosen = await (isLong
      ? ask.autocomplete({ ...shared, maxItems: MAX_SELECTABLE, placeholder: "Type to search" })
      : ask.select(shared));
    if (ask.isCancel(chosen)) return undefined;
    if (chosen !== undefined && chosen !== OTHER) return chosen;
  }
  const typed = await ask.text({
    message,
    validate: (text = "") => (text.trim() === "" ? "Enter the name of a model of the provider." : undefined),
  });
  return ask.isCancel(typed) ? undefined : typed.trim();
}

async function askApprovals(ask: Prompts, config: Config): Promise<SetupAnswers["approvals"]> {
  const approvals = await ask.select({
    message: "What may the agent do without asking?",
    initialValue: config.approvals.mode,
    options: [
      { value: "ask" as const, label: "Ordinary work. Asks before risky actions" },
      { value: "always_ask" as const, label: "Only read. Asks before every change" },
      { value: "yolo" as const, label: "Everything, except for actions that are never allowed" },
    ],
  });
  return ask.isCancel(approvals) ? undefined : approvals;
}
