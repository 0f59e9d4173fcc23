/** The rooms of a service put together, started and stopped. The order below is the order in which they open. */
import type { Config } from "../generated/config/types.gen.ts";
import { createAgentRoom, type AgentRoom, type AgentRoomOptions } from "./agent-room.ts";
import type { Agent } from "./agent/agent.ts";
import type { Asks } from "./agent/ask.ts";
import type { Turns } from "./agent/turn.ts";
import { systemClock, type Clock } from "./base/clock.ts";
import type { Ticker } from "./cron/ticker.ts";
import { freeBytes, processId } from "./base/machine.ts";
import type { Environment } from "./config/home.ts";
import { isLoopback } from "./config/secrets.ts";
import { Dispatcher } from "./deliver/dispatch.ts";
import { meterTargets } from "./deliver/metrics.ts";
import type { Targets } from "./deliver/target.ts";
import type { Listener } from "./gateway/listen.ts";
import type { KeyRing } from "./http/auth.ts";
import type { HttpRoom } from "./http/room.ts";
import { rpcHandlers } from "./rpc/handlers.ts";
import { RpcHub } from "./rpc/hub.ts";
import { gatewayLimits } from "./rpc/limits.ts";
import { createSubscriptions } from "./rpc/notify.ts";
import type { RpcRoom } from "./rpc/room.ts";
import type { SocketGate } from "./rpc/socket.ts";
import { openTargets } from "./open-targets.ts";
import { createReceiver } from "./open-receiver.ts";
import { httpSettings } from "./settings.ts";
import { openStore } from "./store/open.ts";
import { scheduleSweeps } from "./store/retention.ts";
import type { Store } from "./store/store.ts";
import { settleMessage } from "./settle-message.ts";
import type { WebhookReceiver } from "./gateway/webhook-receiver.ts";
import { openTelemetry, type Telemetry } from "./telemetry/telemetry.ts";

/** What every service needs, whoever its clients are. */
export interface CoreOptions extends Omit<AgentRoomOptions, "telemetry"> {
  /** Complete and valid, as `loadConfig` returns it. */
  readonly config: Config;
  readonly clock?: Clock;
  /** Flaws of the configuration that did not keep it from being used, a clause each. */
  readonly configFlaws?: readonly string[];
  /** The environment of the process alone; default: `env`, which also has the variables of the home's file. */
  readonly processEnv?: Environment;
  /** One that is open already; default: that of `places.databaseUrl`. The service closes it. */
  readonly store?: Store;
}

export interface ServiceOptions extends CoreOptions {
  readonly keys: KeyRing;
  /** The bundled OpenAPI document. */
  readonly openApi: Readonly<Record<string, unknown>>;
  /** For tests: check every answer against the spec, and tell of every answer. */
  readonly validateResponses?: boolean;
  readonly observe?: HttpRoom["observe"];
}

/** A running agent: its rooms, and how to stop it. */
export interface Service {
  readonly url: string;
  /** Where webhooks are received; absent when they are not, be it that the address is taken. */
  readonly webhookUrl?: string;
  /** Routes of webhooks at the start; without `webhookUrl` the receiver could not listen. Absent: not enabled. */
  readonly webhookRoutes?: readonly string[];
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
  const rooms = await openRooms(options);
  try {
    const receiver = await createReceiver(options, rooms);
    const listener = await openListener(options, { ...rooms, receiver });
    await receiver?.listen();
    const scheduler = await startScheduler(options, rooms);
    const webhooks = receiver && { webhookRoutes: receiver.routes };
    const webhookUrl = receiver?.url === undefined ? {} : { webhookUrl: receiver.url };
    return {
      ...toService(rooms, options, { listener, receiver, scheduler }),
      url: listener.url,
      ...webhookUrl,
      ...webhooks,
    };
  } catch (error) {
    for (const close of rooms.closers) await close();
    throw error;
  }
}

/** As {@link startService}, without a listener: connections are opened on `hub`. */
export async function startRpcService(options: CoreOptions): Promise<RpcService> {
  return toService(await openRooms(options), options);
}

/** A service that runs what is due and has no clients. */
export interface TickService extends RpcService {
  /** Not started: it looks at the jobs when it is told to. */
  readonly scheduler: Ticker;
  /** Refuses new runs, and cuts those at work that take longer than a service that stops would wait. */
  drain(): Promise<void>;
}

/** As {@link startRpcService}, for the jobs of the clock, whether or not gateways are to run them. */
export async function startTickService(options: CoreOptions): Promise<TickService> {
  const rooms = await openRooms(options);
  const scheduler = await openScheduler(options, rooms);
  const { turns } = rooms.agentRoom.agent;
  const drain = () => turns.drain(options.config.api_server.drain_seconds * 1000);
  return { ...toService(rooms, options, { scheduler }), scheduler, drain };
}

interface Rooms {
  readonly agentRoom: AgentRoom;
  readonly telemetry: Telemetry;
  readonly hub: RpcHub;
  readonly targets: Targets;
  /** What to close, in this order. */
  readonly closers: readonly (() => Promise<void>)[];
}

async function openRooms(options: CoreOptions): Promise<Rooms> {
  const { config, log, clock = systemClock } = options;
  const onProblem = (message: string, error: unknown) => log.warn(message, { error });
  const store =
    options.store ??
    (await openStore({ url: options.places.databaseUrl, now: () => clock.now(), onProblem }));
  const closers: (() => Promise<void>)[] = [() => store.close()];
  try {
    const telemetry = await openTelemetry(options, { store, clock });
    closers.unshift(() => telemetry.close());
    const agentRoom = createAgentRoom({ ...options, telemetry: telemetry.agent }, store, clock);
    closers.unshift(() => agentRoom.close());
    await agentRoom.agent.start();
    const onCronJobsGone = (ids: readonly string[]) => removeCronOutputs(options.places, ids);
    closers.unshift(scheduleSweeps(store, { ...retentionOptions(config), clock, onProblem, onCronJobsGone }));
    const opened = await openTargets(options, { store, clock });
    const { metrics } = telemetry.delivery;
    const targets = metrics ? meterTargets(opened, { metrics, now: () => clock.now() }) : opened;
    const dispatcher = new Dispatcher({
      store,
      clock,
      log,
      targets,
      tracer: telemetry.tracer,
      retryDelaysMs: config.delivery.retry_seconds.map((seconds) => seconds * 1000),
      sendTimeoutMs: config.delivery.timeout_seconds * 1000,
      settled: settleMessage,
    });
    closers.unshift(() => dispatcher.close());
    await dispatcher.start();
    const hub = new RpcHub(rpcParts(options, agentRoom), rpcHandlers);
    return { agentRoom, telemetry, hub, targets, closers };
  } catch (error) {
    for (const close of closers) await close();
    throw error;
  }
}

function rpcParts(options: CoreOptions, room: AgentRoom): Omit<RpcRoom, "peers"> {
  const { config, env, places, version, log, processEnv = env } = options;
  const { store, clock } = room.agent.parts;
  return {
    ...room,
    store,
    clock,
    log,
    version,
    settings: { limits: gatewayLimits(config.sessions.max_queue), cliExec: config.gateway.cli_exec },
    config: { atStart: config, home: places.agentHome, userHome: places.userHome, env: processEnv },
    subscribe: createSubscriptions,
  };
}

/** Loaded here: what serves standard input and output does not wait for what it does not need. */
async function openListener(
  options: ServiceOptions,
  rooms: Rooms & Pick<Doors, "receiver">,
): Promise<Listener> {
  const { config } = options;
  const [{ listen }, { createHttpApp }, { Tickets }, { SocketGate }] = await Promise.all([
    import("./gateway/listen.ts"),
    import("./http/app.ts"),
    import("./config/tickets.ts"),
    import("./rpc/socket.ts"),
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

/** Runs the jobs of the clock. Undefined when that is switched off. */
async function startScheduler(options: ServiceOptions, rooms: Rooms): Promise<Ticker | undefined> {
  if (!options.config.cron.enabled) return undefined;
  const scheduler = await openScheduler(options, rooms);
  await scheduler.start();
  return scheduler;
}

async function openScheduler(options: CoreOptions, { agentRoom, targets }: Rooms): Promise<Ticker> {
  const [{ createCronRoom }, { createScheduler }] = await Promise.all([
    import("./cron-room.ts"),
    import("./cron/scheduler.ts"),
  ]);
  return createScheduler(createCronRoom(options, { ...agentRoom, targets }));
}

/** The listener's own limit stands above ours, so that an oversize body is refused by us, with our envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;

function httpRoom(
  options: ServiceOptions,
  rooms: Rooms & Pick<Doors, "receiver">,
  tickets: HttpRoom["tickets"],
): HttpRoom {
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
    tickets,
    openApi,
    version,
    vitals: {
      pid: processId,
      startedAtMs: parts.clock.now(),
      configFlaws,
      liveSessions: () => live.size,
      mcp: () => mcp.status(),
      freeBytes: () => freeBytes(places.agentHome),
      ...(receiver ? { receiver: () => ({ url: receiver.url, routes: receiver.routes.length }) } : {}),
      cron: async () => {
        const { readCronStatus } = await import("./cron/status.ts");
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

/** Where clients come in. */
interface Doors {
  readonly listener?: Listener;
  readonly receiver?: WebhookReceiver | undefined;
  readonly scheduler?: Ticker | undefined;
}

function toService(rooms: Rooms, { config }: CoreOptions, doors: Doors = {}): RpcService {
  const { agentRoom, hub } = rooms;
  const { agent } = agentRoom;
  return {
    store: agent.parts.store,
    room: agentRoom,
    agent,
    turns: agent.turns,
    asks: agent.parts.asks,
    hub,
    stop: stopper(rooms, { ...doors, drainMs: config.api_server.drain_seconds * 1000 }),
  };
}

async function withinTime(work: Promise<void>, ms: number): Promise<void> {
  const over = new AbortController();
  await Promise.race([work, systemClock.sleep(ms, { signal: over.signal })]).finally(() => over.abort());
}

/** What answers get to leave the sockets once every run has ended. */
const CLOSE_GRACE_MS = 2_000;
/** How long hosts that do not read are waited for. */
const LAST_EVENTS_MS = 2_000;

/** Runs first, then those who watch them, then what both stood on. */
function stopper(
  { agentRoom, hub, closers }: Rooms,
  { listener, receiver, scheduler, drainMs }: Doors & { readonly drainMs: number },
): Service["stop"] {
  let stopping: Promise<void> | undefined;
  const stop = async (graceMs: number): Promise<void> => {
    await scheduler?.stop();
    await Promise.all([
      agentRoom.agent.turns.drain(graceMs),
      receiver?.drain(graceMs),
      scheduler?.drain(graceMs),
    ]);
    // What the end of the turns appended is still on its way to those who follow.
    await withinTime(hub.caughtUp(), LAST_EVENTS_MS);
    hub.close();
    await Promise.all([listener?.close(CLOSE_GRACE_MS), receiver?.close(CLOSE_GRACE_MS)]);
    for (const close of closers) await close();
  };
  return ({ graceMs = drainMs } = {}) => (stopping ??= stop(graceMs));
}

/** Of webhooks: what people look at when an event seems to be lost. */
const DELIVERIES_MS = 30 * 24 * 3_600_000;
const MAX_DELIVERIES = 10_000;
const MAX_OCCURRENCES = 200_000;
const DAY_MS = 86_400_000;

/** Loaded here: few services sweep a job in their life. */
async function removeCronOutputs(places: CoreOptions["places"], ids: readonly string[]): Promise<void> {
  const [{ cronOutputFolder }, { removeOutputs }] = await Promise.all([
    import("./cron-room.ts"),
    import("./cron/outputs.ts"),
  ]);
  for (const id of ids) await removeOutputs(cronOutputFolder(places), id);
}

function retentionOptions(config: Config) {
  const { runs_hours: runsHours, events_hours: eventsHours, sweep_minutes: sweepMinutes } = config.retention;
  const keepMs = runsHours * 3_600_000;
  return {
    retention: {
      runsMs: keepMs,
      jobsMs: keepMs,
      outboxMs: keepMs,
      deliveriesMs: DELIVERIES_MS,
      maxDeliveries: MAX_DELIVERIES,
      occurrencesMs: config.cron.history_days * DAY_MS,
      maxOccurrences: MAX_OCCURRENCES,
      overJobsMs: config.cron.completed_days * DAY_MS,
      maxRunEvents: config.limits.max_run_events,
      ...(eventsHours === undefined ? {} : { eventsMs: eventsHours * 3_600_000 }),
    },
    everyMs: sweepMinutes * 60_000,
  };
}
