/** From a home folder and an environment to a running service. */
import packageFile from "../../package.json" with { type: "json" };
import type { Config } from "../../generated/config/types.gen.ts";
import type { Engine } from "../agent/engine.ts";
import { createEngine } from "../agent/engines/select.ts";
import { formatModel } from "../agent/model.ts";
import type { Tool } from "../agent/tool/tool.ts";
import { systemClock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import { registerSecret } from "../base/observe/redact.ts";
import { checkToolInput, createCatalog, findProviders } from "./models.ts";
import { createKeyRing, ensureApiKey } from "../config/secrets/secrets.ts";
import { Variables } from "../config/variables.ts";
import { openHome, type Home, type HomeOptions } from "./home.ts";
import {
  startRpcService,
  startService,
  startTickService,
  type RpcService,
  type Service,
  type TickService,
} from "./service.ts";
import type { CoreOptions } from "./wire.ts";
import type { Store } from "../store/store.ts";

export interface StartOptions extends HomeOptions {
  readonly host?: string;
  readonly port?: number;
  /** Replaces the configured models. */
  readonly engine?: Engine;
  readonly tools?: readonly Tool[];
}

/** A running service, and what to print when it has started. */
export interface StartedService {
  readonly service: Service;
  readonly version: string;
  /** The default model, `provider:model`. */
  readonly model: string;
  /** `<home>/.env` when it holds the key. */
  readonly keyFile: string | undefined;
  readonly keyCreated: boolean;
  readonly log: Log;
}

/**
 * Starts the service of a home folder. Needs no configuration, key or network: it creates the folder and a key if they
 * are missing. ServiceError `invalid_config`, which lists the errors, or `state_store_unavailable`.
 */
export async function startFromHome(options: StartOptions): Promise<StartedService> {
  const { env: processEnv } = options;
  const home = await openHome(options);
  const { env, log } = home;
  const keyed = await ensureApiKey({ config: withAddress(home.config, options), home: home.folder });
  const { config, created: keyCreated, path } = keyed;
  if (keyCreated && config.api_server.key !== undefined) registerSecret(config.api_server.key);
  const [core, { default: openApi }] = await Promise.all([
    coreOptions({ ...home, config }, options),
    import("../../generated/specs/http.openapi.json", { with: { type: "json" } }),
  ]);
  const service = await startService({ ...core, keys: createKeyRing(config, { env }), openApi });
  const { version } = packageFile;
  const model = formatModel(core.models.default);
  log.info("listening", { url: service.url, model, version });
  const isKept = keyCreated || env["API_SERVER_KEY"] !== undefined;
  const keyFile = isKept && processEnv["API_SERVER_KEY"] === undefined ? path : undefined;
  return { service, version, model, keyFile, keyCreated, log };
}

/**
 * Starts a service without a listener or key, for the process that started this one. The service owns `store`, the open
 * database of the home; a failed start closes it.
 */
export async function startRpcFromHome(home: Home, store: Store): Promise<RpcService> {
  try {
    return await startRpcService({ ...(await coreOptions(home)), store });
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Starts a service without a listener or key that runs the due jobs. */
export async function startTickFromHome(options: HomeOptions): Promise<TickService> {
  return startTickService(await coreOptions(await openHome(options)));
}

async function coreOptions(
  { config, env, folder, log, paths, processEnv, secretNames, problems, readConfig }: Home,
  own: Pick<StartOptions, "engine" | "tools"> = {},
): Promise<CoreOptions> {
  const providers = await findProviders(config, env, log);
  const { max_answer_bytes: maxAnswerBytes } = config.limits;
  const engineOptions = { providers, checkInput: checkToolInput, clock: systemClock, log, maxAnswerBytes };
  const engine = own.engine ?? createEngine(engineOptions);
  return {
    config,
    paths,
    models: createCatalog(config, providers),
    engine,
    env,
    processEnv,
    readConfig,
    variables: await Variables.open({ env: processEnv, home: folder, secretNames }),
    ...(own.tools ? { tools: own.tools } : {}),
    version: packageFile.version,
    configProblems: problems,
    log,
  };
}

function withAddress(config: Config, { host, port }: StartOptions): Config {
  const address = { ...(host === undefined ? {} : { host }), ...(port === undefined ? {} : { port }) };
  return { ...config, api_server: { ...config.api_server, ...address } };
}
