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
import { listen, type Listener } from "./gateway/listen.ts";
import { createHttpApp } from "./http/app.ts";
import type { KeyRing } from "./http/auth.ts";
import type { HttpRoom } from "./http/room.ts";
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
  /**
   * Refuses new work, lets what runs end for `graceMs` (default: api_server.drain_seconds), cuts the rest, and closes.
   * Calling it again waits for the same stop.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>;
}

/**
 * Builds every room and starts listening. When anything on the way fails, what was opened is closed again.
 * ServiceError `invalid_config` (address taken, unknown toolset) or `state_store_unavailable`.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
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
    const { agent } = agentRoom;
    closers.unshift(() => agentRoom.close());
    await agent.start();
    closers.unshift(
      scheduleSweeps(store, {
        ...retentionOptions(config),
        clock,
        onProblem: (message, error) => log.warn(message, { error }),
      }),
    );
    const room = { ...httpRoom(options, agentRoom), ...telemetry.http };
    const dispatcher = createDispatcher(room);
    closers.unshift(() => dispatcher.close());
    await dispatcher.start();
    const listener = await listen(createHttpApp(room), {
      host: config.api_server.host,
      port: config.api_server.port,
      maxBodyBytes: config.limits.max_body_bytes + LISTENER_SLACK_BYTES,
      clock,
    });
    return {
      url: listener.url,
      store,
      room: agentRoom,
      agent,
      turns: agent.turns,
      asks: agent.parts.asks,
      stop: stopper({ turns: agent.turns, listener, closers, config }),
    };
  } catch (error) {
    for (const close of closers) await close();
    throw error;
  }
}

/** The listener's own limit stands above ours, so that an oversize body is refused by us, with our envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;
/** What answers get to leave the sockets once every run has ended. */
const CLOSE_GRACE_MS = 2_000;

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
  readonly listener: Listener;
  readonly closers: readonly (() => Promise<void>)[];
  readonly config: Config;
}): Service["stop"] {
  let stopping: Promise<void> | undefined;
  const stop = async (graceMs: number): Promise<void> => {
    await from.turns.drain(graceMs);
    await from.listener.close(CLOSE_GRACE_MS);
    for (const close of from.closers) await close();
  };
  return ({ graceMs = from.config.api_server.drain_seconds * 1000 } = {}) => (stopping ??= stop(graceMs));
}
