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
import { checkToolInput } from "./check-input.ts";
import { createKeyRing, ensureApiKey } from "../config/secrets/secrets.ts";
import { Variables } from "../config/variables.ts";
import { createCatalog, findProviders } from "./models.ts";
import { openHome, type OpenedHome, type OpenHomeOptions } from "./home.ts";
import {
  startRpcService,
  startService,
  startTickService,
  type RpcService,
  type Service,
  type TickService,
} from "./service.ts";
import type { CoreOptions } from "./options.ts";
import type { Store } from "../store/store.ts";

export interface BootOptions extends OpenHomeOptions {
  readonly host?: string;
  readonly port?: number;
  /** Instead of the models of the configuration. */
  readonly engine?: Engine;
  readonly tools?: readonly Tool[];
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
  const { env: processEnv } = options;
  const opened = await openHome(options);
  const { env, log } = opened;
  const keyed = await ensureApiKey({ config: withAddress(opened.config, options), home: opened.home });
  const { config, created: keyCreated, path } = keyed;
  if (keyCreated && config.api_server.key !== undefined) registerSecret(config.api_server.key);
  const [core, { default: openApi }] = await Promise.all([
    coreOptions({ ...opened, config }, options),
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
 * As {@link boot}, for a process that serves the one who started it and listens nowhere: it needs no key. `store` is
 * that of the home; it is closed with the service, or when the start fails.
 */
export async function bootRpc(opened: OpenedHome, store: Store): Promise<RpcService> {
  try {
    return await startRpcService({ ...(await coreOptions(opened)), store });
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** As {@link boot}, for a process that runs the jobs that are due, and listens nowhere: it needs no key. */
export async function bootTick(options: OpenHomeOptions): Promise<TickService> {
  const opened = await openHome(options);
  return startTickService(await coreOptions(opened));
}

async function coreOptions(
  opened: OpenedHome,
  own: Pick<BootOptions, "engine" | "tools"> = {},
): Promise<CoreOptions> {
  const { config, env, home, log, paths, processEnv, secretNames, problems, readConfig } = opened;
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
    variables: await Variables.open({ env: processEnv, home, secretNames }),
    ...(own.tools ? { tools: own.tools } : {}),
    version: packageFile.version,
    configProblems: problems,
    log,
  };
}

function withAddress(config: Config, { host, port }: BootOptions): Config {
  const address = { ...(host === undefined ? {} : { host }), ...(port === undefined ? {} : { port }) };
  return { ...config, api_server: { ...config.api_server, ...address } };
}
