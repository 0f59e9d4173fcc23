/** From a home folder and an environment to a running service. */
import packageFile from "../../package.json" with { type: "json" };
import type { Config } from "../../generated/config/types.gen.ts";
import type { Engine } from "../agent/engine.ts";
import type { Tool } from "../agent/tool/tool.ts";
import { createEngine } from "../agent/engines/scripted.ts";
import { processId } from "../base/system/machine.ts";
import { systemClock } from "../base/time.ts";
import { type Log, registerSecret } from "../base/observe.ts";
import { checkToolInput, modelStatus, openModels, type Models, type ModelStatus } from "./models.ts";
import { createKeyRing, ensureApiKey } from "../config/keys.ts";
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
  /** With the reason when the demo model answers. */
  readonly modelStatus: ModelStatus;
  /** `<home>/.env` when it holds the key. */
  readonly keyFile: string | undefined;
  readonly keyCreated: boolean;
  /** Whether the service serves the console. */
  readonly hasConsole: boolean;
  readonly log: Log;
}

/**
 * Starts the service of a home folder. Needs no configuration, key or network: it creates the folder and a key if they
 * are missing. ServiceError `invalid_config`, which lists the errors, or `state_store_unavailable`.
 */
export async function startFromHome(options: StartOptions): Promise<StartedService> {
  const { env: processEnv } = options;
  const home = await openHome({ ...options, restoresStaged: true });
  const { env, log } = home;
  const keyed = await ensureApiKey({ config: home.config, home: home.folder });
  const { config: fileConfig, created: keyCreated, path } = keyed;
  const config = withAddress(fileConfig, options);
  if (keyCreated && config.api_server.key !== undefined) registerSecret(config.api_server.key);
  const models = await modelsOf({ ...home, config }, options);
  const core = await coreOptions({ ...home, config }, models, options);
  const service = await startService({
    ...core,
    fileConfig,
    setDefaultModel: (model) => models.setDefault(model),
    keys: createKeyRing(config, { env }),
  });
  const { version } = packageFile;
  const status = modelStatus(models, env);
  const { model } = status;
  log.info("listening", { url: service.url, model, version, pid: processId });
  if (models.local?.unanswered.length || models.providers.length > 0) {
    if (status.problem !== undefined) log.warn("no model is chosen", { reason: status.problem });
  }
  const isKept = keyCreated || env["API_SERVER_KEY"] !== undefined;
  const keyFile = isKept && processEnv["API_SERVER_KEY"] === undefined ? path : undefined;
  const hasConsole = config.console.enabled;
  return { service, version, model, modelStatus: status, keyFile, keyCreated, hasConsole, log };
}

/**
 * Starts a service without a listener or key, for the process that started this one. The service owns `store`, the open
 * database of the home; a failed start closes it.
 */
export async function startRpcFromHome(home: Home, store: Store): Promise<RpcService> {
  try {
    return await startRpcService({ ...(await coreOptions(home, await modelsOf(home))), store });
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Starts a service without a listener or key that runs the due jobs. */
export async function startTickFromHome(options: HomeOptions): Promise<TickService> {
  const home = await openHome(options);
  return startTickService(await coreOptions(home, await modelsOf(home)));
}

function modelsOf({ config, env, log }: Home, own: Pick<StartOptions, "engine"> = {}): Promise<Models> {
  return openModels(config, env, log, { watches: true, needsKey: own.engine === undefined });
}

async function coreOptions(
  { config, env, folder, log, paths, processEnv, secretNames, problems, readConfig }: Home,
  models: Models,
  own: Pick<StartOptions, "engine" | "tools"> = {},
): Promise<CoreOptions> {
  const { providers, catalog } = models;
  // Asked ahead of the first turn, which needs the answer.
  void catalog.refreshContext(catalog.default);
  const { max_answer_bytes: maxAnswerBytes } = config.limits;
  const shared = { clock: systemClock, log, maxAnswerBytes, models: catalog };
  const engine = own.engine ?? createEngine({ providers, checkInput: checkToolInput, ...shared });
  return {
    config,
    paths,
    models: catalog,
    closeModels: () => models.close(),
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
