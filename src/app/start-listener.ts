/** The listener of the HTTP API and of hosts, built from the configuration. */
import { freeBytes, processId } from "../base/system/machine.ts";
import { isLoopback } from "../config/secrets/secrets.ts";
import type { Listener } from "../gateway/listen.ts";
import type { WebhookReceiver } from "../gateway/webhook-receiver.ts";
import type { HttpDeps, ReceiverStats } from "../http/deps.ts";
import type { WiredService } from "./wire.ts";
import type { RpcHub } from "../rpc/events/hub.ts";
import type { SocketGate } from "../rpc/connection/socket.ts";
import type { ServiceOptions } from "./options.ts";
import { httpSettings } from "./settings.ts";

type ListenerDeps = Pick<WiredService, "wiredAgent" | "telemetry" | "hub"> & {
  readonly receiver: WebhookReceiver | undefined;
};

/** Loaded here: what serves standard input and output does not wait for what it does not need. */
export async function openListener(options: ServiceOptions, wired: ListenerDeps): Promise<Listener> {
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

/** The listener's own limit stands above ours, so that an oversize body is refused by us, with our envelope. */
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

function receiverStats({ url, problem, routes }: WebhookReceiver): ReceiverStats {
  return { url, problem, routes: routes.length };
}

/** Addresses that mean every address of the machine, by whatever name. */
const OPEN_HOSTS = ["0.0.0.0", "::", "[::]"];
const LOOPBACK_NAMES = ["127.0.0.1", "localhost", "[::1]"];

function gateOptions(
  { config, keys }: ServiceOptions,
  { hub, tickets }: { readonly hub: RpcHub; readonly tickets: HttpDeps["tickets"] },
): ConstructorParameters<typeof SocketGate>[0] {
  const { host, allowed_hosts: allowed, cors_origins: origins } = config.api_server;
  const hosts = [...LOOPBACK_NAMES, host, ...allowed].map((name) => name.toLowerCase());
  return {
    hub,
    isLocal: isLoopback(host),
    rules: { keys, tickets, hosts: OPEN_HOSTS.includes(host) ? undefined : hosts, origins },
  };
}
