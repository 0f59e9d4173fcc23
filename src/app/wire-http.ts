/** The listener of the HTTP API and the gateway sockets, built from the configuration. */
import type { Config } from "../../generated/config/types.gen.ts";
import type { Environment } from "../config/home.ts";
import { freeBytes, processId } from "../base/system/machine.ts";
import { isLoopback } from "../config/secrets/secrets.ts";
import type { Listener } from "../gateway/listen.ts";
import type { WebhookReceiver } from "../gateway/webhook-receiver.ts";
import type { HttpDeps, HttpSettings, ReceiverStats } from "../http/deps.ts";
import type { WiredService, ServiceOptions } from "./wire.ts";
import type { RpcHub } from "../rpc/events/hub.ts";
import type { SocketGate } from "../rpc/connection/socket.ts";
import { webhookSecret } from "./settings.ts";

type ListenerDeps = Pick<WiredService, "wiredAgent" | "telemetry" | "hub"> & {
  readonly receiver: WebhookReceiver | undefined;
};

/** Binds the address and starts listening. Its modules load here, so that stdio services start without them. */
export async function startListener(options: ServiceOptions, wired: ListenerDeps): Promise<Listener> {
  const { config } = options;
  const [{ listen }, { createHttpApp }, { Tickets }, { SocketGate }] = await Promise.all([
    import("../gateway/listen.ts"),
    import("../http/app.ts"),
    import("../config/tickets.ts"),
    import("../rpc/connection/socket.ts"),
  ]);
  const { clock } = wired.wiredAgent.agent.deps;
  const http = httpDeps(options, wired, new Tickets(clock));
  return listen(createHttpApp(http), {
    host: config.api_server.host,
    port: config.api_server.port,
    maxBodyBytes: config.limits.max_body_bytes + LISTENER_SLACK_BYTES,
    clock,
    sockets: new SocketGate(gateOptions(options, { hub: wired.hub, tickets: http.tickets })),
  });
}

/** The listener's own limit exceeds ours, so that ours rejects an oversize body, with our error envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;

function httpDeps(options: ServiceOptions, wired: ListenerDeps, tickets: HttpDeps["tickets"]): HttpDeps {
  const { config, keys, openApi, version, observe, paths, configProblems = [] } = options;
  const { agent, mcp } = wired.wiredAgent;
  const { receiver } = wired;
  const { deps, runs, live } = agent;
  const toolsets = [...new Set(deps.tools().map((tool) => tool.toolset))];
  return {
    store: deps.store,
    runs,
    agent,
    questions: deps.questions,
    models: deps.models,
    clock: deps.clock,
    log: deps.log,
    keys,
    ...(deps.keyLimits ? { keyLimits: deps.keyLimits } : {}),
    tickets,
    openApi,
    version,
    serviceStats: {
      pid: processId,
      startedAtMs: deps.clock.now(),
      configProblems,
      liveSessions: () => live.size,
      isRecovering: () => !agent.isRecovered,
      mcp: () => mcp.status(),
      freeBytes: () => freeBytes(paths.agentHome),
      ...(receiver ? { receiver: () => receiverStats(receiver) } : {}),
      cron: async () => {
        const { readCronStatus } = await import("../cron/tick/status.ts");
        const status = await readCronStatus(deps.store, { nowMs: deps.clock.now() });
        return { ...status, isEnabled: config.cron.enabled };
      },
    },
    settings: httpSettings(config, {
      toolsets,
      validateResponses: options.validateResponses === true,
      env: options.env,
    }),
    ...(observe ? { observe } : {}),
    ...wired.telemetry.http,
  };
}

/** Returns the settings of the HTTP surface, with limits in bytes and times in milliseconds. */
export function httpSettings(
  config: Config,
  more: {
    readonly toolsets: readonly string[];
    readonly validateResponses: boolean;
    readonly env: Environment;
  },
): HttpSettings {
  const { api_server: server, limits, retention } = config;
  return {
    modelName: server.model_name,
    unknownModel: server.unknown_model,
    allowedHosts: allowedHosts(server),
    toolsets: more.toolsets,
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
