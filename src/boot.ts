/** From a home folder and an environment to a running service. Reads the user's home from the system. */
import { mkdir, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import openApi from "../generated/specs/http.openapi.json" with { type: "json" };
import packageFile from "../package.json" with { type: "json" };
import type { Config } from "../generated/config/types.gen.ts";
import type { Engine } from "./agent/engine.ts";
import { createEngine } from "./agent/engines/select.ts";
import { formatModel } from "./agent/model.ts";
import type { Tool } from "./agent/tool.ts";
import { systemClock } from "./base/clock.ts";
import { createLog, type Log } from "./base/log.ts";
import { registerSecret } from "./base/redact.ts";
import { checkToolInput } from "./check-input.ts";
import { loadConfig, requireValid, type LoadedConfig } from "./config/config.ts";
import { prepareHome, resolveHome, type Environment } from "./config/home.ts";
import { resolvePlaces } from "./config/places.ts";
import { secretValues } from "./config/secret-values.ts";
import { createKeyRing, ensureApiKey } from "./config/secrets.ts";
import { Variables } from "./config/variables.ts";
import { createCatalog, findProviders } from "./models.ts";
import {
  startRpcService,
  startService,
  type RpcService,
  type Service,
  type ServiceOptions,
} from "./service.ts";
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
  const { service: prepared, loaded, keyed } = await prepare(options);
  const { log, models } = prepared;
  const service = await startService(prepared);
  const model = formatModel(models.default);
  log.info("listening", { url: service.url, model, version: packageFile.version });
  const isKept = keyed.created || loaded.env["API_SERVER_KEY"] !== undefined;
  const keyFile = isKept && options.env["API_SERVER_KEY"] === undefined ? keyed.path : undefined;
  return { service, version: packageFile.version, model, keyFile, keyCreated: keyed.created, log };
}

/** As {@link boot}, for a process that serves the one who started it and listens nowhere. */
export async function bootRpc(
  options: BootOptions,
): Promise<{ readonly service: RpcService; readonly log: Log }> {
  const { service } = await prepare(options);
  return { service: await startRpcService(service), log: service.log };
}

interface Prepared {
  readonly service: ServiceOptions;
  readonly loaded: LoadedConfig;
  readonly keyed: Awaited<ReturnType<typeof ensureApiKey>>;
}

async function prepare(options: BootOptions): Promise<Prepared> {
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
  const models = createCatalog(config, providers);
  const engine =
    options.engine ?? createEngine({ providers, checkInput: checkToolInput, clock: systemClock, log });
  const service: ServiceOptions = {
    config,
    places,
    keys: createKeyRing(config, { env: loaded.env }),
    models,
    engine,
    env: loaded.env,
    processEnv: options.env,
    readConfig: async () => requireValid(await loadConfig({ home, env: options.env })),
    variables: await Variables.open({ env: options.env, home }),
    ...(options.tools ? { tools: options.tools } : {}),
    openApi,
    version: packageFile.version,
    configFlaws: warningsOf(loaded).map(({ path: key, message }) => `${key} ${message}`),
    log,
  };
  return { service, loaded, keyed };
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
  for (const { path, message } of warningsOf(loaded)) {
    log.warn("the configuration has a flaw", { key: path, flaw: message });
  }
}

function warningsOf({ issues }: LoadedConfig): LoadedConfig["issues"] {
  return issues.filter(({ severity }) => severity !== "error");
}
