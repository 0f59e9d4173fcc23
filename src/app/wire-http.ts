/** The listener of the HTTP API and the gateway sockets, built from the configuration. */
import { hostname } from "node:os";
import { join } from "node:path";
import type { Config } from "../../generated/config/types.gen.ts";
import type { Environment } from "../config/home.ts";
import { systemClock } from "../base/time.ts";
import { freeBytes, processId } from "../base/system/machine.ts";
import { isLoopback } from "../config/keys.ts";
import type { Listener } from "../gateway/listen.ts";
import type { WebhookReceiver } from "../gateway/webhook-receiver.ts";
import type { HttpApi } from "../http/app.ts";
import type { HttpDeps, HttpSettings, ReceiverStats } from "../http/deps.ts";
import type { KeyRing } from "../http/edge/access.ts";
import type { CreatedKeys } from "../store/keys/ring.ts";
import type { Store } from "../store/store.ts";
import type { WiredService, ServiceOptions } from "./wire.ts";
import type { RpcHub } from "../rpc/events/hub.ts";
import type { SocketGate } from "../rpc/connection/socket.ts";
import { webhookSecret } from "./settings.ts";
import { onMessageSettled } from "./wire-delivery.ts";
import { createJobService, createSkills } from "./wire-agent.ts";

/** What the API works with. */
export interface ApiParts extends Pick<WiredService, "wiredAgent" | "targets"> {
  readonly sandbox: Pick<WiredService["sandbox"], "status">;
  readonly telemetry: Pick<WiredService["telemetry"], "http">;
  readonly dispatcher: Pick<WiredService["dispatcher"], "wake">;
  readonly receiver: WebhookReceiver | undefined;
}

/** The API of a service, made when it is needed first: a stdio service starts without its modules. */
export class ServiceApi {
  readonly #options: ServiceOptions;
  readonly #parts: ApiParts;
  #opened: Promise<OpenedApi> | undefined;

  constructor(options: ServiceOptions, parts: ApiParts) {
    this.#options = options;
    this.#parts = parts;
  }

  /** See LocalApi. */
  readonly call: HttpApi["call"] = async (...given) => (await this.open()).call(...given);
  /** See LocalApi. */
  readonly perform: HttpApi["perform"] = async (...given) => (await this.open()).perform(...given);
  /** See LocalApi. */
  readonly fetch: HttpApi["fetch"] = async (...given) => (await this.open()).fetch(...given);
  /** See LocalApi. */
  readonly follow: HttpApi["follow"] = async (...given) => (await this.open()).follow(...given);

  open(): Promise<OpenedApi> {
    return (this.#opened ??= this.#open());
  }

  async #open(): Promise<OpenedApi> {
    const [{ createHttpApi, joinKeys }, { Tickets }, { CreatedKeys }] = await Promise.all([
      import("../http/app.ts"),
      import("../config/keys.ts"),
      import("../store/keys/ring.ts"),
    ]);
    const { clock, store, keyLimits } = this.#parts.wiredAgent.agent.deps;
    const onFound = (key: Parameters<NonNullable<typeof keyLimits>["set"]>[0]) => keyLimits?.set(key);
    const created = new CreatedKeys({ store, clock, onFound });
    const keys = joinKeys(this.#options.keys, created);
    const tickets: HttpDeps["tickets"] = new Tickets(clock);
    const made = { tickets, apiKeys: apiKeysOf(keys, store, created) };
    return { ...createHttpApi(httpDeps({ ...this.#options, keys }, this.#parts, made)), keys, tickets };
  }
}

/** The API with the keys and tickets that its sockets accept. */
interface OpenedApi extends HttpApi {
  readonly keys: KeyRing;
  readonly tickets: HttpDeps["tickets"];
}

/** Binds the address and starts listening. Its modules load here, so that stdio services start without them. */
export async function startListener(
  options: ServiceOptions,
  { api, hub }: { readonly api: ServiceApi; readonly hub: RpcHub },
): Promise<Listener> {
  const { config, clock = systemClock } = options;
  const [{ listen }, { SocketGate }, opened] = await Promise.all([
    import("../gateway/listen.ts"),
    import("../rpc/connection/socket.ts"),
    api.open(),
  ]);
  const { app, keys, tickets } = opened;
  return listen(app, {
    host: config.api_server.host,
    port: config.api_server.port,
    maxBodyBytes: config.limits.max_body_bytes + LISTENER_SLACK_BYTES,
    clock,
    sockets: new SocketGate(gateOptions({ ...options, keys }, { hub, tickets })),
  });
}

/** The listener's own limit exceeds ours, so that ours rejects an oversize body, with our error envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;

/** Returns the function that makes the service of keys when it is called first. */
function apiKeysOf(keys: KeyRing, store: Store, created: CreatedKeys): HttpDeps["apiKeys"] {
  const make = async () => {
    const { ApiKeys } = await import("../store/keys/keys.ts");
    return new ApiKeys({ store, configured: keys.holders ?? [], onChange: () => created.changed() });
  };
  let made: ReturnType<typeof make> | undefined;
  return () => (made ??= make());
}

function httpDeps(
  options: ServiceOptions,
  wired: ApiParts,
  made: Pick<HttpDeps, "tickets" | "apiKeys">,
): HttpDeps {
  const { config, keys, version, observe, paths, configProblems = [] } = options;
  const { agent, mcp } = wired.wiredAgent;
  const { receiver } = wired;
  const { deps, runs, live } = agent;
  const toolsets = [...new Set(deps.tools().map((tool) => tool.toolset))];
  return {
    store: deps.store,
    runs,
    agent,
    questions: deps.questions,
    grants: deps.grants,
    models: deps.models,
    clock: deps.clock,
    log: deps.log,
    keys,
    ...(deps.keyLimits ? { keyLimits: deps.keyLimits } : {}),
    ...made,
    webhooks: webhookService(options, wired),
    config: configApi(options, deps),
    service: serviceControl(options, wired),
    delivery: deliveryOf(options, wired),
    tooling: toolingOf(options, wired),
    version,
    serviceStats: {
      pid: processId,
      startedAtMs: deps.clock.now(),
      configProblems,
      liveSessions: () => live.size,
      isRecovering: () => !agent.isRecovered,
      mcp: () => mcp.status(),
      sandbox: () => wired.sandbox.status,
      freeBytes: () => freeBytes(paths.agentHome),
      ...(receiver ? { receiver: () => receiverStats(receiver) } : {}),
      cron: async () => {
        const { readCronStatus } = await import("../cron/tick/status.ts");
        const status = await readCronStatus(deps.store, { nowMs: deps.clock.now() });
        return { ...status, isEnabled: config.cron.enabled };
      },
    },
    jobs: jobApi(options, agent),
    settings: httpSettings(config, {
      toolsets,
      workspaceRoots: [deps.settings.workspace, ...deps.settings.workspaceRoots],
      validateResponses: options.validateResponses === true,
      consoleFolder: options.consoleFolder,
      env: options.env,
    }),
    ...(observe ? { observe } : {}),
    ...wired.telemetry.http,
  };
}

/** Returns the function that makes the service of webhooks when it is called first. */
function webhookService(options: ServiceOptions, wired: ApiParts): HttpDeps["webhooks"] {
  const { agent, skills } = wired.wiredAgent;
  const { receiver, targets } = wired;
  const make = async () => {
    const { WebhookService } = await import("../webhook/service.ts");
    return new WebhookService({ ...options, agent, skills, targets, receiver });
  };
  let made: ReturnType<typeof make> | undefined;
  return () => (made ??= make());
}

function serviceControl(
  { config, paths, log, env, processEnv = env }: ServiceOptions,
  { wiredAgent: { agent, reload } }: ApiParts,
): HttpDeps["service"] {
  const { agentHome: home, userHome, workspace, databaseUrl: url } = paths;
  const { runs } = agent;
  return {
    reloadVariables: reload.env,
    check: async () => {
      const { runChecks } = await import("../cli/doctor/checks.ts");
      // The port is this server's own.
      return runChecks({ env: processEnv, userHome, home }, { without: ["port"] });
    },
    stageRestore: async (archive, options) => {
      const { stageRestore } = await import("./backup/restore.ts");
      return stageRestore(home, archive, options);
    },
    drainMs: config.api_server.drain_seconds * 1000,
    drain: (graceMs) => {
      runs.drain(graceMs).catch((error: unknown) => log.error("draining failed", { error }));
    },
    backUp: async (options) => {
      const { archiveOf } = await import("./backup/backup.ts");
      return archiveOf({ home, workspace, url }, options);
    },
  };
}

/** Returns the function that makes the service of the configuration when it is called first. */
function configApi(
  options: ServiceOptions,
  { log, settings }: WiredService["wiredAgent"]["agent"]["deps"],
): HttpDeps["config"] {
  const { config, fileConfig = config, paths, variables, setDefaultModel } = options;
  const { processEnv: env = options.env } = options;
  const make = async () => {
    const { ConfigService } = await import("./config-service.ts");
    const model = setDefaultModel ? { setDefaultModel } : {};
    const { agentHome: home } = paths;
    return new ConfigService({ home, env, config, fileConfig, log, settings, variables, ...model });
  };
  let made: ReturnType<typeof make> | undefined;
  return () => (made ??= make());
}

function toolingOf(
  { config, variables }: ServiceOptions,
  { wiredAgent: { agent, skills, mcp, reload } }: ApiParts,
): HttpDeps["tooling"] {
  const { deps } = agent;
  const { providers } = config.model;
  return {
    engine: deps.engine,
    prices: deps.prices,
    tools: deps.tools,
    workspace: deps.settings.workspace,
    budget: deps.settings.budget,
    keyBudgets: () => deps.keyLimits?.dayBudgets() ?? [],
    openBudget: async ({ owner, key, model }) => {
      await deps.prices.prepare([model]);
      return agent.runs.openBudget({ owner, key });
    },
    skills,
    mcp: { ...mcp, reload: reload.mcp },
    enabledToolsets: config.agent.toolsets,
    isConfigured: (name) => Object.hasOwn(providers, name),
    hasHeaders: (name) => Object.hasOwn(providers, name) && providers[name]?.headers !== undefined,
    hasVariable: (name) => variables.get(name) !== undefined,
    detect: async () => {
      const { detectLocalServers } = await import("./model-servers.ts");
      return detectLocalServers(config.model.local_servers);
    },
  };
}

function deliveryOf(
  { config, env }: ServiceOptions,
  { targets, dispatcher }: ApiParts,
): HttpDeps["delivery"] {
  return {
    targets,
    host: hostname(),
    platforms: async () => {
      const { statuses } = await import("../deliver/platform/status.ts");
      return statuses(config, env);
    },
    changed: async (tx, row) => {
      await onMessageSettled(tx, row);
      tx.afterCommit(() => dispatcher.wake());
    },
  };
}

/** Configured toolsets count while their servers are still starting, as for the scheduler. */
function jobApi(options: ServiceOptions, { deps }: WiredService["wiredAgent"]["agent"]): HttpDeps["jobs"] {
  const { config, paths, env } = options;
  const service = createJobService({ config, paths }, { ...deps, tools: () => deps.tools() });
  return {
    ...service,
    toolsets: { ...service.toolsets, configured: config.agent.toolsets },
    fallbacks: config.model.fallbacks,
    skills: createSkills(config, paths),
    skillsFolder: join(paths.agentHome, "skills"),
    targetProblems: async (names) => {
      const { platformProblems } = await import("../deliver/platform/platforms.ts");
      return platformProblems(names, config, env);
    },
  };
}

/** Returns the settings of the HTTP surface, with limits in bytes and times in milliseconds. */
export function httpSettings(
  config: Config,
  more: {
    readonly toolsets: readonly string[];
    readonly workspaceRoots: readonly string[];
    readonly validateResponses: boolean;
    readonly consoleFolder?: URL | undefined;
    readonly env: Environment;
  },
): HttpSettings {
  const { api_server: server, limits, retention } = config;
  return {
    modelName: server.model_name,
    unknownModel: server.unknown_model,
    allowedHosts: allowedHosts(server),
    toolsets: more.toolsets,
    workspaceRoots: more.workspaceRoots,
    maxBodyBytes: limits.max_body_bytes,
    bodyTimeoutMs: limits.body_timeout_seconds * 1000,
    maxMessages: limits.max_messages,
    maxTextBytes: limits.max_text_bytes,
    keepaliveMs: limits.sse_keepalive_seconds * 1000,
    slowReaderMs: limits.slow_reader_seconds * 1000,
    maxSubscribersPerRun: limits.max_subscribers_per_run,
    maxReaderBytes: limits.max_reader_bytes,
    maxAnswerBytes: limits.max_answer_bytes,
    maxStoredResponses: limits.max_stored_responses,
    maxRunEvents: limits.max_run_events,
    maxConcurrentRuns: limits.max_concurrent_runs,
    maxQueuePerSession: config.sessions.max_queue,
    runTtlMs: retention.runs_hours * 3_600_000,
    eventTtlMs: Math.min(retention.events_hours ?? Infinity, retention.runs_hours) * 3_600_000,
    approvalTimeoutMs: config.approvals.timeout_seconds * 1000,
    runTimeoutMs: config.agent.timeout_seconds * 1000,
    toolItems: server.tool_items,
    showReasoning: server.show_reasoning,
    webhookSecret: webhookSecret(config, more.env),
    webhookAllowedHosts: server.webhook_allowed_hosts,
    webhookAttempts: limits.webhook_attempts,
    corsOrigins: server.cors_origins,
    console: {
      isEnabled: config.console.enabled,
      allowPlainHttp: config.console.allow_plain_http,
      folder: more.consoleFolder,
    },
    validateResponses: more.validateResponses,
  };
}

function receiverStats({ url, problem, routes }: WebhookReceiver): ReceiverStats {
  return { url, problem, routes: routes.length };
}

/** Addresses that bind every interface of the machine. */
const OPEN_HOSTS = ["0.0.0.0", "::", "[::]"];
const LOOPBACK_NAMES = ["127.0.0.1", "localhost", "[::1]"];

function gateOptions(
  { config, keys }: ServiceOptions,
  { hub, tickets }: { readonly hub: RpcHub; readonly tickets: HttpDeps["tickets"] },
): ConstructorParameters<typeof SocketGate>[0] {
  const { host, cors_origins: origins } = config.api_server;
  return {
    hub,
    isLocal: isLoopback(host),
    rules: {
      keys,
      tickets,
      hosts: OPEN_HOSTS.includes(host) ? undefined : allowedHosts(config.api_server),
      origins,
    },
  };
}

function allowedHosts({ host, allowed_hosts: allowed }: Config["api_server"]): readonly string[] {
  return [...LOOPBACK_NAMES, host, ...allowed].map((name) => name.toLowerCase());
}
