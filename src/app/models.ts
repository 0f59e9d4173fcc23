/** The providers and models that the configuration names, or that this machine serves. */
import type { Config } from "../../generated/config/types.gen.ts";
import {
  DEMO_MODEL,
  formatModel,
  type ModelRef,
  createModelCatalog,
  type ContextSource,
  type ModelCatalog,
  type RefreshOptions,
} from "../agent/model.ts";
import type { ToolSpec } from "../agent/engine.ts";
import { ServiceError } from "../base/errors.ts";
import type { Log } from "../base/observe.ts";
import { formatIssue, SchemaSet } from "../base/schema.ts";
import { systemClock } from "../base/time.ts";
import type { Environment } from "../config/home.ts";
import { conventionalVariables, resolveProviders, type ResolvedProvider } from "../config/providers.ts";
import {
  askContext,
  detectLocalServers,
  isLocal,
  type LocalServer,
  type LocalServers,
  type ReportedContext,
} from "./model-servers.ts";

/** The models of a process. */
export interface Models {
  /** Follows {@link providers}. */
  readonly catalog: ModelCatalog;
  /** Grows when a model server answers late. */
  readonly providers: readonly ResolvedProvider[];
  /** What the machine serves. Absent: nothing was looked for, because the configuration decides. */
  readonly local?: LocalServers;
  /** Chooses another default model; undefined: the first one. False, and no change: its provider is not in use. */
  setDefault(model: string | undefined): boolean;
  /** Stops looking for slow servers. */
  close(): void;
}

interface OpenOptions {
  /** Looks again for model servers that did not answer in time, until {@link Models.close}. */
  readonly watches?: boolean;
  /** False: another engine makes the calls, so a provider without a key may be the default. Default true. */
  readonly needsKey?: boolean;
}

const LOOK_AGAIN_MS = 5_000;

/**
 * Finds the models. Without any configured provider, looks for the model servers of this machine. ServiceError
 * `invalid_config` when the default model is not usable.
 */
export async function openModels(
  config: Config,
  env: Environment,
  log: Log,
  { watches = false, needsKey = true }: OpenOptions = {},
): Promise<Models> {
  const { local, providers: found } = await findProviders(config, env, log);
  const providers = [...found];
  const options = { contexts: new ReportedContexts(providers), needsKey };
  let used = config;
  let current = createCatalog(used, providers, options);
  let unanswered = isDemo(current) ? (local?.unanswered ?? []) : [];
  let cancel: (() => void) | undefined;
  const lookAgain = async () => {
    const now = await detectLocalServers(config.model.local_servers);
    if (cancel === undefined) return;
    const isNew = ({ name }: ResolvedProvider) => !providers.some((each) => each.name === name);
    providers.push(...usable(now.servers, log).filter(isNew));
    current = createCatalog(used, providers, options);
    unanswered = isDemo(current) ? now.unanswered : [];
    cancel = unanswered.length > 0 ? systemClock.after(LOOK_AGAIN_MS, () => void lookAgain()) : undefined;
  };
  if (watches && unanswered.length > 0) cancel = systemClock.after(LOOK_AGAIN_MS, () => void lookAgain());
  const whyNone = () => (unanswered.length > 0 ? `${slowServers(unanswered)}. ${SLOW_HINT}` : undefined);
  const isUnchosen = () => needsKey && config.model.default === undefined && isDemo(current);
  const whyUnchosen = () => (isUnchosen() ? unchosenText(providers, env) : undefined);
  return {
    catalog: following(() => current, { whyNone, whyUnchosen }),
    providers,
    ...(local === undefined ? {} : { local }),
    setDefault: (model) => {
      const { default: _, ...others } = used.model;
      const next = { ...used, model: model === undefined ? others : { ...others, default: model } };
      try {
        current = createCatalog(next, providers, options);
      } catch (error) {
        if (error instanceof ServiceError) return false;
        throw error;
      }
      used = next;
      return true;
    },
    close: () => {
      cancel?.();
      cancel = undefined;
    },
  };
}

const SLOW_HINT =
  "agentd looks again every few seconds. To use another model, run `agentd setup`; to ignore the server, run " +
  "`agentd config set model.detect_local false`. Then restart agentd.";

function slowServers(addresses: readonly string[]): string {
  return `A server at ${addresses.join(" and at ")} did not answer in time, so no model is known`;
}

function isDemo(catalog: ModelCatalog): boolean {
  return catalog.default.provider === DEMO_MODEL.provider;
}

/** A catalog that is always the current one. */
function following(
  current: () => ModelCatalog,
  reasons: Pick<ModelCatalog, "whyNone" | "whyUnchosen">,
): ModelCatalog {
  return {
    ...reasons,
    get default() {
      return current().default;
    },
    get providers() {
      return current().providers;
    },
    resolve: (name) => current().resolve(name),
    contextTokensOf: (ref) => current().contextTokensOf(ref),
    refreshContext: (ref, options) => current().refreshContext(ref, options),
    list: () => current().list(),
  };
}

interface FoundProviders {
  readonly providers: readonly ResolvedProvider[];
  readonly local?: LocalServers;
}

async function findProviders(config: Config, env: Environment, log: Log): Promise<FoundProviders> {
  const providers = configuredProviders(config, env);
  const { default: chosen, detect_local: detects, local_servers: servers } = config.model;
  if (chosen !== undefined || providers.length > 0 || !detects) return { providers };
  const local = await detectLocalServers(servers);
  for (const address of local.unanswered) log.warn("a server did not answer in time", { address });
  return { providers: usable(local.servers, log), local };
}

/**
 * Returns the providers that need no search. The default model may name a model server of this machine, which is then
 * used whether it answers or not. ServiceError `invalid_config` for a reference to a variable that is not set.
 */
export function configuredProviders(config: Config, env: Environment): readonly ResolvedProvider[] {
  const configured = resolveProviders(config, env);
  const { default: chosen = "", local_servers: servers } = config.model;
  const [name = ""] = chosen.split(":");
  const baseUrl = Object.hasOwn(servers, name) ? servers[name] : undefined;
  if (baseUrl === undefined || configured.some((provider) => provider.name === name)) return configured;
  return [...configured, localProvider({ name, baseUrl })];
}

function usable(servers: readonly LocalServer[], log: Log): readonly ResolvedProvider[] {
  for (const { name, baseUrl } of servers) log.info("found a local model server", { name, baseUrl });
  return servers.filter(({ models }) => models.length > 0).map(localProvider);
}

function localProvider(server: { readonly name: string; readonly baseUrl: string }): ResolvedProvider {
  return { ...server, type: "openai_compatible", timeoutMs: LOCAL_TIMEOUT_MS };
}

/** Local models load from disk at their first prompt. */
const LOCAL_TIMEOUT_MS = 600_000;

/** Returns the catalog of models. ServiceError `invalid_config` when the default model is not usable, which says why. */
export function createCatalog(
  config: Config,
  providers: readonly ResolvedProvider[],
  { contexts, needsKey = true }: { readonly contexts?: ContextSource; readonly needsKey?: boolean } = {},
): ModelCatalog {
  const named = providers.map(({ name, type, baseUrl, models = [], apiKey, contextTokens, prices }) => ({
    name,
    type,
    models,
    hasKey: apiKey !== undefined,
    isLocal: isLocal(baseUrl ?? ""),
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(prices === undefined ? {} : { prices }),
    ...(contextTokens === undefined ? {} : { contextTokens }),
  }));
  const { default: chosen } = config.model;
  try {
    const catalog = createModelCatalog({
      providers: named,
      defaultContextTokens: config.model.context_tokens,
      ...(chosen === undefined ? {} : { defaultModel: chosen }),
      ...(contexts ? { contexts } : {}),
    });
    const provider = providers.find(({ name }) => name === catalog.default.provider);
    if (needsKey && provider && lacksKey(provider)) throw missingKey(formatModel(catalog.default), provider);
    return catalog;
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    const maker = chosen === undefined ? undefined : makerOf(chosen, providers);
    if (maker) throw missingKey(chosen ?? "", maker);
    throw new ServiceError("invalid_config", `${cause.message}. Run \`agentd setup\`, or correct it.`, {
      cause,
      param: "model.default",
    });
  }
}

/** Returns whether calls of this provider can only fail. Another address, or own headers, may need no key. */
export function lacksKey({ type, apiKey, baseUrl, headers }: Omit<ResolvedProvider, "timeoutMs">): boolean {
  return (
    type !== "openai_compatible" && apiKey === undefined && baseUrl === undefined && headers === undefined
  );
}

/** Returns the provider that a model's name means, if it does not exist because its key is missing. */
export function makerOf(
  chosen: string,
  providers: readonly ResolvedProvider[],
): Pick<ResolvedProvider, "name" | "type"> | undefined {
  const types = Object.keys(conventionalVariables) as ResolvedProvider["type"][];
  const possible = types.filter((type) => type !== "openai_compatible");
  const catalog = createModelCatalog({
    providers: possible.map((type) => ({ name: type, type, models: [] })),
  });
  const ref = catalog.resolve(chosen);
  const type = possible.find((each) => each === ref?.provider);
  const exists = providers.some(({ name }) => name === type);
  return type === undefined || exists ? undefined : { name: type, type };
}

/** ServiceError `invalid_config`, which names the variable of the key. */
export function missingKey(
  model: string,
  { name, type }: Pick<ResolvedProvider, "name" | "type">,
): ServiceError {
  const [variable = "its key"] = conventionalVariables[type];
  return new ServiceError(
    "invalid_config",
    `${model} cannot answer: the provider ${name} has no API key, and ${variable} is not set. ` +
      `Add it with \`agentd setup --provider ${type}\`, or write ${variable}=... into the .env file of the home.`,
    { param: "model.default" },
  );
}

/** What answers, in words for people. */
export interface ModelStatus {
  /** `provider:model`. */
  readonly model: string;
  /** Context of the model, in tokens; absent for the demo model. */
  readonly contextTokens?: number;
  /** Why the demo model answers, or no model. A clause. */
  readonly problem?: string;
  /** What to do. */
  readonly fix?: string;
}

/** Asks the server of the default model for its context, then describes the model, or why there is none. */
export async function describeModels(models: Models, env: Environment): Promise<ModelStatus> {
  await models.catalog.refreshContext(models.catalog.default);
  return modelStatus(models, env);
}

/** Describes the default model, or why there is none. */
export function modelStatus({ catalog, providers, local }: Models, env: Environment): ModelStatus {
  const ref = catalog.default;
  const model = formatModel(ref);
  if (!isDemo(catalog)) return { model, contextTokens: catalog.contextTokensOf(ref) };
  return { model, ...whyDemo(providers, local, env) };
}

function whyDemo(
  providers: readonly ResolvedProvider[],
  local: LocalServers | undefined,
  env: Environment,
): Pick<ModelStatus, "problem" | "fix"> {
  const [first] = providers;
  if (local && local.unanswered.length > 0) {
    return {
      problem: slowServers(local.unanswered),
      fix: "Try again, or choose a model with `agentd setup`.",
    };
  }
  if (first) {
    const problem = `${foundText(first, env)}, but no model is chosen, so the built-in demo model answers`;
    return { problem: `${problem}, and webhooks and scheduled jobs fail`, fix: chooseText(first) };
  }
  const empty = local?.servers.find(({ models }) => models.length === 0);
  if (empty) {
    const problem = `the server ${empty.name} at ${empty.baseUrl} has no models, so the built-in demo model answers`;
    return { problem, fix: "Load a model into it, such as with `ollama pull`, then restart agentd." };
  }
  return {
    problem: "no provider is configured, so the built-in demo model answers",
    fix: "Run `agentd setup`.",
  };
}

function foundText({ type, name }: ResolvedProvider, env: Environment): string {
  const variable = conventionalVariables[type].find((each) => env[each]);
  return variable === undefined ? `the provider ${name} is configured` : `${variable} is set`;
}

const chooseText = ({ name }: ResolvedProvider): string =>
  `Choose one with \`agentd setup\`, or \`agentd model set ${name}:<model>\`.`;

function unchosenText([first]: readonly ResolvedProvider[], env: Environment): string | undefined {
  if (first === undefined) return undefined;
  const found = foundText(first, env);
  return `${found.charAt(0).toUpperCase()}${found.slice(1)}, but no model is chosen. ${chooseText(first)}`;
}

const ASK_TIMEOUT_MS = 2_000;
const KEEP_MS = 60_000;
const MAX_MODELS = 256;

/** The contexts that the servers of OpenAI-compatible providers report, asked at most once a minute for each model. */
class ReportedContexts implements ContextSource {
  readonly #providers: readonly ResolvedProvider[];
  readonly #known = new Map<string, ReportedContext>();
  /** `answer` until it is there. */
  readonly #asked = new Map<string, { readonly atMs: number; answer: Promise<void> | undefined }>();

  constructor(providers: readonly ResolvedProvider[]) {
    this.#providers = providers;
  }

  known(ref: ModelRef): number | undefined {
    return this.#known.get(formatModel(ref))?.tokens;
  }

  refresh(ref: ModelRef, { signal, loads = false }: RefreshOptions): Promise<void> | undefined {
    const provider = this.#providers.find(({ name }) => name === ref.provider);
    const { type, baseUrl } = provider ?? {};
    if (!provider || type !== "openai_compatible" || baseUrl === undefined) return undefined;
    const name = `${formatModel(ref)} ${loads}`;
    const last = this.#asked.get(name);
    if (last && performance.now() - last.atMs < KEEP_MS) return last.answer;
    if (this.#asked.size >= MAX_MODELS) this.#asked.clear();
    const answer = this.#ask({ ...provider, baseUrl }, ref, { signal, loads }).finally(() => {
      asked.answer = undefined;
      if (signal?.aborted) this.#asked.delete(name);
    });
    const asked = { atMs: performance.now(), answer: answer as Promise<void> | undefined };
    this.#asked.set(name, asked);
    return answer;
  }

  async #ask(
    provider: ResolvedProvider & { readonly baseUrl: string },
    ref: ModelRef,
    { signal, loads }: RefreshOptions & { readonly signal: AbortSignal | undefined },
  ): Promise<void> {
    const name = formatModel(ref);
    const before = this.#known.get(name);
    const isCertain = before?.isAssumed === false;
    const loadMs = loads && !isCertain ? provider.timeoutMs : undefined;
    const context = await askContext(provider, ref.id, { timeoutMs: ASK_TIMEOUT_MS, signal, loadMs });
    // What the server reported earlier holds for a model that it has unloaded since.
    if (!context || (isCertain && context.isAssumed)) return;
    if (this.#known.size >= MAX_MODELS) this.#known.clear();
    this.#known.set(name, context);
  }
}

const schemas = new SchemaSet({});

/** Returns undefined when `input` matches the tool's schema, otherwise a sentence that the model can act on. */
export function checkToolInput(tool: ToolSpec, input: unknown): string | undefined {
  const issue = schemas.check(tool.parameters, input)?.[0];
  return issue && `The arguments of ${tool.name} are not valid: ${formatIssue(issue, "the whole")}.`;
}
