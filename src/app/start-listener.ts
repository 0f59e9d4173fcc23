/** The listener of the HTTP API and of hosts, built from the configuration. */
import { freeBytes, processId } from "../base/system/machine.ts";
import { isLoopback } from "../config/secrets/secrets.ts";
import type { Listener } from "../gateway/listen.ts";
import type { WebhookReceiver } from "../gateway/webhook-receiver.ts";
import type { HttpRoom, ReceiverVitals } from "../http/deps.ts";
import type { Rooms } from "./wire.ts";
import type { RpcHub } from "../rpc/events/hub.ts";
import type { SocketGate } from "../rpc/connection/socket.ts";
import type { ServiceOptions } from "./options.ts";
import { httpSettings } from "./settings.ts";

type ListenerRooms = Pick<Rooms, "agentRoom" | "telemetry" | "hub"> & {
  readonly receiver: WebhookReceiver | undefined;
};

/** Loaded here: what serves standard input and output does not wait for what it does not need. */
export async function openListener(options: ServiceOptions, rooms: ListenerRooms): Promise<Listener> {
  const { config } = options;
  const [{ listen }, { createHttpApp }, { Tickets }, { SocketGate }] = await Promise.all([
    import("../gateway/listen.ts"),
    import("../http/app.ts"),
    import("../config/tickets.ts"),
    import("../rpc/connection/socket.ts"),
  ]);
  const { clock } = rooms.agentRoom.agent.parts;
  const http = httpRoom(options, rooms, new Tickets(clock));
  return listen(createHttpApp(http), {
    host: config.api_server.host,
    port: config.api_server.port,
    maxBodyBytes: config.limits.max_body_bytes + LISTENER_SLACK_BYTES,
    clock,
    sockets: new SocketGate(gateOptions(options, { hub: rooms.hub, tickets: http.tickets })),
  });
}

/** The listener's own limit stands above ours, so that an oversize body is refused by us, with our envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;

function httpRoom(options: ServiceOptions, rooms: ListenerRooms, tickets: HttpRoom["tickets"]): HttpRoom {
  const { config, keys, openApi, version, observe, places, configFlaws = [] } = options;
  const { agent, mcp } = rooms.agentRoom;
  const { receiver } = rooms;
  const { parts, turns, live } = agent;
  const toolsets = [...new Set(parts.tools().map((tool) => tool.toolset))];
  return {
    store: parts.store,
    turns,
    asks: parts.asks,
    models: parts.models,
    clock: parts.clock,
    log: parts.log,
    keys,
    ...(parts.keyLimits ? { keyLimits: parts.keyLimits } : {}),
    tickets,
    openApi,
    version,
    vitals: {
      pid: processId,
      startedAtMs: parts.clock.now(),
      configFlaws,
      liveSessions: () => live.size,
      isRecovering: () => !agent.isRecovered,
      mcp: () => mcp.status(),
      freeBytes: () => freeBytes(places.agentHome),
      ...(receiver ? { receiver: () => receiverVitals(receiver) } : {}),
      cron: async () => {
        const { readCronStatus } = await import("../cron/tick/status.ts");
        const status = await readCronStatus(parts.store, { nowMs: parts.clock.now() });
        return { ...status, isEnabled: config.cron.enabled };
      },
    },
    settings: httpSettings(config, {
      toolsets,
      validateResponses: options.validateResponses === true,
      env: options.env,
    }),
    ...(observe ? { observe } : {}),
    ...rooms.telemetry.http,
  };
}

function receiverVitals({ url, problem, routes }: WebhookReceiver): ReceiverVitals {
  return { url, problem, routes: routes.length };
}

/** Addresses that mean every address of the machine, by whatever name. */
const OPEN_HOSTS = ["0.0.0.0", "::", "[::]"];
const LOOPBACK_NAMES = ["127.0.0.1", "localhost", "[::1]"];

function gateOptions(
  { config, keys }: ServiceOptions,
  { hub, tickets }: { readonly hub: RpcHub; readonly tickets: HttpRoom["tickets"] },
): ConstructorParameters<typeof SocketGate>[0] {
  const { host, allowed_hosts: allowed, cors_origins: origins } = config.api_server;
  const hosts = [...LOOPBACK_NAMES, host, ...allowed].map((name) => name.toLowerCase());
  return {
    hub,
    isLocal: isLoopback(host),
    rules: { keys, tickets, hosts: OPEN_HOSTS.includes(host) ? undefined : hosts, origins },
  };
}
