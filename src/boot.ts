/** From a home folder and an environment to a running service. Reads the user's home from the system. */
import { mkdir, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import openApi from "../generated/specs/http.openapi.json" with { type: "json" };
import packageFile from "../package.json" with { type: "json" };
import type { Config } from "../generated/config/types.gen.ts";
import type { Engine } from "./agent/engine.ts";
import { createEngine } from "./agent/engines/select.ts";
import { createModelCatalog, type ModelCatalog } from "./agent/model.ts";
import type { Tool } from "./agent/tool.ts";
import { systemClock } from "./base/clock.ts";
import { ServiceError } from "./base/errors.ts";
import { createLog, type Log } from "./base/log.ts";
import { registerSecret } from "./base/redact.ts";
import { checkToolInput } from "./check-input.ts";
import { loadConfig, requireValid, type LoadedConfig } from "./config/config.ts";
import { prepareHome, resolveHome, type Environment } from "./config/home.ts";
import { resolvePlaces } from "./config/places.ts";
import { resolveProviders, type ResolvedProvider } from "./config/providers.ts";
import { secretValues } from "./config/secret-values.ts";
import { createKeyRing, ensureApiKey } from "./config/secrets.ts";
import { Variables } from "./config/variables.ts";
import { startService, type Service } from "./service.ts";
import type { Places } from "./settings.ts";

export interface BootOptions {
  /** Default: the environment of this process. */
  readonly env: Environment;
  /** Default: AGENTD_HOME, else `~/.agentd`. */
  readonly home?: string;
  readonly profile?: string;
  readonly host?: string;
  readonly port?: number;
  /** Instead of the models of the configuration. */
  readonly engine?: Engine;
  readonly tools?: readonly Tool[];
  readonly log?: Log;
}

/** A running service and what a person wants to know of its start. */
export interface Booted {
  readonly service: Service;
  readonly version: string;
  /** Effective `provider:model` of prompts that name none. */
  readonly model: string;
  /** `<home>/.env` when the key is kept there. */
  readonly keyFile: string | undefined;
  readonly keyCreated: boolean;
  readonly log: Log;
}

/**
 * Starts the service of a home folder, which is made when there is none: no configuration, key or network is needed.
 * ServiceError `invalid_config` that lists what is wrong, or `state_store_unavailable`.
 */
export async function boot(options: BootOptions): Promise<Booted> {
  const userHome = homedir();
  const profile = options.profile === undefined ? {} : { profile: options.profile };
  const home = options.home ?? resolveHome({ env: options.env, userHome, ...profile });
  const notices = await prepareHome(home);
  const loaded = await loadConfig({ home, env: options.env });
  const keyed = await ensureApiKey({ config: withAddress(requireValid(loaded), options), home });
  const { config } = keyed;
  for (const secret of secretValues(config, loaded.env)) registerSecret(secret);
  const log = options.log ?? createLog(config.log.level);
  for (const notice of notices) log.warn(notice);
  warn(loaded, log);
  const places = await realPlaces(resolvePlaces({ config, env: loaded.env, home, userHome }));
  const providers = await findProviders(config, loaded.env, log);
  const models = catalog(config, providers);
  const engine =
    options.engine ?? createEngine({ providers, checkInput: checkToolInput, clock: systemClock, log });
  const service = await startService({
    config,
    places,
    keys: createKeyRing(config, { env: loaded.env }),
    models,
    engine,
    env: loaded.env,
    readConfig: async () => requireValid(await loadConfig({ home, env: options.env })),
    variables: await Variables.open({ env: options.env, home }),
    ...(options.tools ? { tools: options.tools } : {}),
    openApi,
    version: packageFile.version,
    log,
  });
  const model = `${models.default.provider}:${models.default.id}`;
  log.info("listening", { url: service.url, model, version: packageFile.version });
  const isKept = keyed.created || loaded.env["API_SERVER_KEY"] !== undefined;
  const keyFile = isKept && options.env["API_SERVER_KEY"] === undefined ? keyed.path : undefined;
  return { service, version: packageFile.version, model, keyFile, keyCreated: keyed.created, log };
}

/** Makes the workspace. The policy compares paths as they really are, without links, so its places must be so too. */
async function realPlaces(places: Places): Promise<Places> {
  await mkdir(places.workspace, { recursive: true, mode: 0o700 });
  const agentHome = await realpath(places.agentHome);
  const userHome = await realpath(places.userHome);
  const workspace = await realpath(places.workspace);
  return { ...places, agentHome, userHome, workspace };
}

function withAddress(config: Config, { host, port }: BootOptions): Config {
  const address = { ...(host === undefined ? {} : { host }), ...(port === undefined ? {} : { port }) };
  return { ...config, api_server: { ...config.api_server, ...address } };
}

function warn(loaded: LoadedConfig, log: Log): void {
  for (const { severity, path, message } of loaded.issues) {
    if (severity !== "error") log.warn("the configuration has a flaw", { key: path, flaw: message });
  }
}

/** What is configured; when nothing is, a model server on this machine, if one answers. */
async function findProviders(
  config: Config,
  env: Environment,
  log: Log,
): Promise<readonly ResolvedProvider[]> {
  const configured = resolveProviders(config, env);
  if (configured.length > 0 || config.model.default !== undefined || !config.model.detect_local) {
    return configured;
  }
  const { detectLocalModels } = await import("./agent/engines/detect.ts");
  const found = await detectLocalModels();
  for (const { name, baseUrl } of found) log.info("found a local model server", { name, baseUrl });
  return found
    .filter(({ models }) => models.length > 0)
    .map((server) => ({ ...server, type: "openai_compatible" as const, timeoutMs: LOCAL_TIMEOUT_MS }));
}

/** Local models load from disk with their first prompt. */
const LOCAL_TIMEOUT_MS = 600_000;

function catalog(config: Config, providers: readonly ResolvedProvider[]): ModelCatalog {
  const named = providers.map(({ name, type, models = [], apiKey, contextTokens }) => ({
    name,
    type,
    models,
    hasKey: apiKey !== undefined,
    ...(contextTokens === undefined ? {} : { contextTokens }),
  }));
  const defaultModel = config.model.default === undefined ? {} : { defaultModel: config.model.default };
  try {
    return createModelCatalog({
      providers: named,
      defaultContextTokens: config.model.context_tokens,
      ...defaultModel,
    });
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new ServiceError("invalid_config", `${cause.message}. Correct it with \`agentd config set\`.`, {
      cause,
    });
  }
}
