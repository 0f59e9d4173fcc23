/** The models where a command works: those of the home of this machine, or those of a server. */
import { detectLocalServers } from "../../app/model-servers.ts";
import { lacksKey, makerOf, missingKey } from "../../app/models.ts";
import { hasFailed } from "../../agent/engines/scripted.ts";
import { formatModel } from "../../agent/model.ts";
import { toRunUsage } from "../../agent/usage/usage.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ModelTest, Provider } from "../../client/http.ts";
import { loadConfig } from "../../config/config.ts";
import { withApi } from "../kit/api.ts";
import { currentContext } from "../kit/context.ts";
import { readPages } from "../kit/pages.ts";
import { currentTarget } from "../kit/target.ts";
import { describeTrial, loadModels, type ModelDeps, tryModelOf } from "./deps.ts";

export interface DefaultModel {
  /** `provider:model`. */
  readonly model: string;
  /** Absent: the demo model, or not known. */
  readonly contextTokens?: number | undefined;
  /** Why no real model answers. */
  readonly problem?: string | undefined;
  readonly fix?: string | undefined;
}

export interface ListedModels extends DefaultModel {
  readonly providers: readonly {
    readonly name: string;
    readonly type: string;
    /** `provider:model`. */
    readonly models: readonly string[];
    readonly has_key: boolean;
    readonly is_default: boolean;
  }[];
}

export interface ModelTrial extends Pick<ModelTest, "model" | "ok" | "called_tool" | "text" | "usage"> {
  readonly error: string | null;
  /** For people. */
  readonly summary: string;
}

export interface DetectedServers {
  readonly servers: readonly {
    readonly name: string;
    readonly base_url: string;
    readonly models: readonly string[];
  }[];
  /** Addresses where a server did not answer in time. */
  readonly unanswered: readonly string[];
}

export interface ModelPlace {
  list(): Promise<ListedModels>;
  /** Returns the whole name of a model that can be used. ServiceError `model_not_found`, and for a missing key. */
  resolve(name: string): Promise<string>;
  /** Asks a model for one tool call and one sentence. Undefined: the default model. */
  test(name: string | undefined): Promise<ModelTrial>;
  /** Finds model servers on the machine. */
  detect(): Promise<DetectedServers>;
}

/** Returns the models of the current target. */
export async function modelPlace(): Promise<ModelPlace> {
  return (await currentTarget()) ? server : home;
}

const home: ModelPlace = {
  async list() {
    const { models, status } = await loadModels();
    const providers = models.list().map(({ name, type, models: names, hasKey, isDefault }) => {
      return { name, type, models: names, has_key: hasKey, is_default: isDefault };
    });
    return { ...status, model: formatModel(models.default), providers };
  },
  resolve: async (name) => resolveIn(await loadModels(), name),
  async test(name) {
    const deps = await loadModels();
    const model = name === undefined ? formatModel(deps.models.default) : resolveIn(deps, name);
    const trial = await tryModelOf(deps, deps.models.resolve(model) ?? deps.models.default);
    const { end, calledTool } = trial;
    const ok = !hasFailed(trial);
    const summary = describeTrial(trial, model);
    const error = ok ? null : (end.error?.message ?? summary);
    const usage = toRunUsage(end.usage, model);
    return { model, ok, called_tool: calledTool, text: end.text, usage, error, summary };
  },
  async detect() {
    const { config } = await loadConfig(currentContext());
    const { servers, unanswered } = await detectLocalServers(config.model.local_servers);
    const found = servers.map(({ name, baseUrl, models }) => ({ name, base_url: baseUrl, models }));
    return { servers: found, unanswered };
  },
};

function resolveIn({ models, providers }: ModelDeps, name: string): string {
  const ref = models.resolve(name);
  const provider = providers.find((each) => each.name === ref?.provider);
  if (ref && provider && lacksKey(provider)) throw missingKey(formatModel(ref), provider);
  if (ref) return formatModel(ref);
  const maker = makerOf(name, providers);
  if (maker) throw missingKey(name, maker);
  throw unknownModel(
    name,
    models.providers.map((each) => each.name),
  );
}

function unknownModel(name: string, providers: readonly string[]): ServiceError {
  return new ServiceError(
    "model_not_found",
    `Unknown model ${JSON.stringify(name)}. Use provider:model. Configured providers: ${providers.join(", ")}. ` +
      "Add one with `agentd setup`.",
  );
}

const server: ModelPlace = {
  async list() {
    const providers = await providersOfServer();
    const own = providers.find(({ models }) => models.some((each) => each.is_default));
    const chosen = own?.models.find((each) => each.is_default);
    return {
      model: chosen?.id ?? "none",
      contextTokens: own?.source === "demo" ? undefined : chosen?.context_tokens,
      problem: own?.issue ?? undefined,
      providers: providers.map(({ name, type, models, has_key }) => ({
        name,
        type,
        models: models.map(({ id }) => id),
        has_key,
        is_default: name === own?.name,
      })),
    };
  },
  async resolve(name) {
    const providers = await providersOfServer();
    const known = providers.flatMap(({ models }) => models.map(({ id }) => id));
    const found = known.find((id) => id === name) ?? known.find((id) => id.endsWith(`:${name}`));
    if (found !== undefined) return found;
    // A provider may have models that it does not list: the server checks the name when it is set.
    if (providers.some((each) => name.startsWith(`${each.name}:`))) return name;
    throw unknownModel(
      name,
      providers.map((each) => each.name),
    );
  },
  async test(name) {
    const body = name === undefined ? {} : { model: name };
    const { data } = await withApi(({ client }) => client.testModel({ body }));
    const { model, ok, called_tool, text, usage, error, took_ms: tookMs } = data;
    const seconds = (tookMs / 1000).toFixed(1);
    const summary = ok ? `${model} answered in ${seconds} s:\n${text}` : `${model} failed: ${error}`;
    return { model, ok, called_tool, text, usage, error, summary };
  },
  async detect() {
    const { servers, unanswered } = (await withApi(({ client }) => client.detectProviders({ body: {} })))
      .data;
    return { servers, unanswered };
  },
};

async function providersOfServer(): Promise<readonly Provider[]> {
  const { rows } = await withApi(({ client }) => readPages((query) => client.listProviders({ query })));
  return rows;
}
