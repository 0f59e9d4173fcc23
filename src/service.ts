import type { Config } from "../generated/config/types.gen.ts";
import { createAgentRoom, type AgentRoom, type AgentRoomOptions } from "./agent-room.ts";
import type { Agent } from "./agent/agent.ts";
import type { Asks } from "./agent/ask.ts";
import type { Turns } from "./agent/turn.ts";
import { systemClock, type Clock } from "./base/clock.ts";
import { freeBytes, processId } from "./base/machine.ts";
import { Dispatcher } from "./deliver/dispatch.ts";
import { createTargets } from "./deliver/target.ts";
import { createWebhookTarget } from "./deliver/targets/webhook.ts";
import type { Listener } from "./gateway/listen.ts";
import type { HttpRoom } from "./http/room.ts";
import type { Environment } from "./config/home.ts";
import { rpcHandlers } from "./rpc/handlers.ts";
import { RpcHub } from "./rpc/hub.ts";
import { RPC_LIMITS } from "./rpc/limits.ts";
import { createSubscriptions } from "./rpc/notify.ts";
import type { RpcRoom } from "./rpc/room.ts";
import { SocketGate } from "./rpc/socket.ts";
import { isLoopback } from "./config/secrets.ts";
import type { KeyRing } from "./http/auth.ts";
import { Tickets } from "./config/tickets.ts";
import { httpSettings } from "./settings.ts";
import { openStore } from "./store/open.ts";
import { scheduleSweeps } from "./store/retention.ts";
import { openTelemetry } from "./telemetry/telemetry.ts";

import type { Store } from "./store/store.ts";

export interface ServiceOptions extends Omit<AgentRoomOptions, "telemetry"> {
  /** Complete and valid, as `loadConfig` returns it. */
  readonly config: Config;
  readonly keys: KeyRing;
  /** The bundled OpenAPI document. */
  readonly openApi: Readonly<Record<string, unknown>>;
  readonly clock?: Clock;
  /** Flaws of the configuration that did not keep it from being used, a clause each. */
  readonly configFlaws?: readonly string[];
  /** The environment of the process alone; default: `env`, which also has the variables of the home's file. */
  readonly processEnv?: Environment;
  /** For tests: check every answer against the spec, and tell of every answer. */
  readonly validateResponses?: boolean;
  readonly observe?: HttpRoom["observe"];
}

/** A running agent: its rooms, and how to stop it. */
export interface Service {
  readonly url: string;
  readonly store: Store;
  /** The agent with its commands, skills and processes. */
  readonly room: AgentRoom;
  readonly agent: Agent;
  readonly turns: Turns;
  readonly asks: Asks;
  /** The connections of the gateway. */
  readonly hub: RpcHub;
  /**
   * Refuses new work, lets what runs end for `graceMs` (default: api_server.drain_seconds), cuts the rest, and closes.
   * Calling it again waits for the same stop.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>;
}

/** A service without a listener: its one client is the process that started it. */
export type RpcService = Omit<Service, "url">;

/**
 * Builds every room and starts listening. When anything on the way fails, what was opened is closed again.
 * ServiceError `invalid_config` (address taken, unknown toolset) or `state_store_unavailable`.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config } = options;
  const rooms = await openRooms(options);
  try {
    // Loaded here: what serves standard input and output does not wait for what it does not need.
    const [{ listen }, { createHttpApp }] = await Promise.all([
      import("./gateway/listen.ts"),
      import("./http/app.ts"),
    ]);
    const listener = await listen(createHttpApp(rooms.http), {
      host: config.api_server.host,
      port: config.api_server.port,
      maxBodyBytes: config.limits.max_body_bytes + LISTENER_SLACK_BYTES,
      clock: rooms.http.clock,
      sockets: socketGate(options, rooms),
    });
    return { ...toService(rooms, config, listener), url: listener.url };
  } catch (error) {
    for (const close of rooms.closers) await close();
    throw error;
  }
}

/** As {@link startService}, without a listener: connections are opened on `hub`. */
export async function startRpcService(options: ServiceOptions): Promise<RpcService> {
  return toService(await openRooms(options), options.config);
}

interface Rooms {
  readonly agentRoom: AgentRoom;
  readonly http: HttpRoom;
  readonly hub: RpcHub;
  readonly closers: readonly (() => Promise<void>)[];
}

async function openRooms(options: ServiceOptions): Promise<Rooms> {
  const { config, log, clock = systemClock } = options;
  const store = await openStore({
    url: options.places.databaseUrl,
    now: () => clock.now(),
    onProblem: (message, error) => log.warn(message, { error }),
  });
  const closers: (() => Promise<void>)[] = [() => store.close()];
  try {
    const telemetry = await openTelemetry(options, { store, clock });
    closers.unshift(() => telemetry.close());
    const agentRoom = createAgentRoom({ ...options, telemetry: telemetry.agent }, store, clock);
    closers.unshift(() => agentRoom.close());
    await agentRoom.agent.start();
    closers.unshift(
      scheduleSweeps(store, {
        ...retentionOptions(config),
        clock,
        onProblem: (message, error) => log.warn(message, { error }),
      }),
    );
    const http = { ...httpRoom(options, agentRoom), ...telemetry.http };
    const dispatcher = createDispatcher(http);
    closers.unshift(() => dispatcher.close());
    await dispatcher.start();
    const hub = new RpcHub(rpcParts(options, agentRoom), rpcHandlers);
    return { agentRoom, http, hub, closers };
  } catch (error) {
    for (const close of closers) await close();
    throw error;
  }
}

function toService(rooms: Rooms, config: Config, listener?: Listener): RpcService {
  const { agentRoom, hub, closers } = rooms;
  const { turns, parts } = agentRoom.agent;
  return {
    store: parts.store,
    room: agentRoom,
    agent: agentRoom.agent,
    turns,
    asks: parts.asks,
    hub,
    stop: stopper({ turns, hub, listener, closers, config }),
  };
}

/** The listener's own limit stands above ours, so that an oversize body is refused by us, with our envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;
/** What answers get to leave the sockets once every run has ended. */
const CLOSE_GRACE_MS = 2_000;
const LAST_EVENTS_MS = 20;
const LOOPBACK_NAMES = ["127.0.0.1", "localhost", "[::1]"];

function httpRoom(options: ServiceOptions, { agent, mcp }: AgentRoom): HttpRoom {
  const { config, keys, openApi, version, observe, places, configFlaws = [] } = options;
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
    tickets: new Tickets(parts.clock),
    openApi,
    version,
    vitals: {
      pid: processId,
      startedAtMs: parts.clock.now(),
      configFlaws,
      liveSessions: () => live.size,
      mcp: () => mcp.status(),
      freeBytes: () => freeBytes(places.agentHome),
    },
    settings: httpSettings(config, {
      toolsets,
      validateResponses: options.validateResponses === true,
      env: options.env,
    }),
    ...(observe ? { observe } : {}),
  };
}

function rpcParts(options: ServiceOptions, room: AgentRoom): Omit<RpcRoom, "peers"> {
  const { config, env, places, version, log, processEnv = env } = options;
  const { store, clock } = room.agent.parts;
  return {
    ...room,
    store,
    clock,
    log,
    version,
    settings: {
      limits: { ...RPC_LIMITS, max_queue_per_session: config.sessions.max_queue },
      cliExec: "local",
    },
    config: { atStart: config, home: places.agentHome, userHome: places.userHome, env: processEnv },
    subscribe: createSubscriptions,
  };
}

function socketGate({ config }: ServiceOptions, { hub, http }: Rooms): SocketGate {
  const { host, allowed_hosts: allowed, cors_origins: origins } = config.api_server;
  const isOpen = ["0.0.0.0", "::", "[::]"].includes(host);
  const hosts = [...LOOPBACK_NAMES, host, ...allowed].map((name) => name.toLowerCase());
  return new SocketGate({
    hub,
    isLocal: isLoopback(host),
    rules: { keys: http.keys, tickets: http.tickets, hosts: isOpen ? undefined : hosts, origins },
  });
}

function createDispatcher({ store, clock, log, version, settings, tracer }: HttpRoom): Dispatcher {
  const { webhookSecret, webhookAllowedHosts } = settings;
  const webhook = createWebhookTarget({
    clock,
    version,
    allowedPrivateHosts: webhookAllowedHosts,
    ...(webhookSecret === undefined ? {} : { secret: webhookSecret }),
  });
  const targets = createTargets([webhook]);
  return new Dispatcher({ store, clock, log, targets, ...(tracer ? { tracer } : {}) });
}

function retentionOptions(config: Config) {
  const { runs_hours: runsHours, events_hours: eventsHours, sweep_minutes: sweepMinutes } = config.retention;
  const keepMs = runsHours * 3_600_000;
  return {
    retention: {
      runsMs: keepMs,
      jobsMs: keepMs,
      outboxMs: keepMs,
      maxRunEvents: config.limits.max_run_events,
      ...(eventsHours === undefined ? {} : { eventsMs: eventsHours * 3_600_000 }),
    },
    everyMs: sweepMinutes * 60_000,
  };
}

function stopper(from: {
  readonly turns: Turns;
  readonly hub: RpcHub;
  readonly listener: Listener | undefined;
  readonly closers: readonly (() => Promise<void>)[];
  readonly config: Config;
}): Service["stop"] {
  let stopping: Promise<void> | undefined;
  const stop = async (graceMs: number): Promise<void> => {
    await from.turns.drain(graceMs);
    // What the end of the turns appended is still on its way to those who follow.
    if (from.hub.size > 0) await systemClock.sleep(LAST_EVENTS_MS);
    from.hub.close();
    await from.listener?.close(CLOSE_GRACE_MS);
    for (const close of from.closers) await close();
  };
  return ({ graceMs = from.config.api_server.drain_seconds * 1000 } = {}) => (stopping ??= stop(graceMs));
}
