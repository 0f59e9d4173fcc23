/** Starts and stops a service: its modules, its listeners and its scheduler. */
import { waitAtMost, systemClock } from "../base/time.ts";
import type { WiredAgent } from "./wire-agent.ts";
import type { Agent } from "../agent/agent.ts";
import type { Ticker } from "../cron/tick/ticker.ts";
import type { Listener } from "../gateway/listen.ts";
import type { WebhookReceiver } from "../gateway/webhook-receiver.ts";
import { ServiceApi, startListener } from "./wire-http.ts";
import { createHub, wireService, type WiredService, type CoreOptions, type ServiceOptions } from "./wire.ts";
import type { KeyRing } from "../http/edge/access.ts";
import type { RpcHub } from "../rpc/events/hub.ts";
import type { Log } from "../base/observe.ts";
import type { Store } from "../store/store.ts";

/** A running service. */
export interface Service {
  readonly url: string;
  /** The address of the webhook receiver at the start. Absent when it is disabled or could not listen. */
  readonly webhookUrl?: string;
  /** The webhook routes at the start. Absent when the receiver is disabled. */
  readonly webhookRoutes?: readonly string[];
  readonly store: Store;
  /** The agent with its commands, skills and processes. */
  readonly deps: WiredAgent;
  readonly agent: Agent;
  readonly runs: Agent["runs"];
  readonly questions: Agent["deps"]["questions"];
  /** The connections of the gateway. */
  readonly hub: RpcHub;
  /**
   * Rejects new work, waits up to `graceMs` (default: `api_server.drain_seconds`) for active runs, cancels the rest and
   * closes. Further calls wait for the same stop.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>;
}

/** A service without a listener. Its only client is the process that started it. */
export type RpcService = Omit<Service, "url">;

/**
 * Builds every module and starts listening. Recovery of the runs of dead processes continues meanwhile: see
 * `agent.recovered`. A failure closes what is already open. ServiceError `invalid_config` (address in use, unknown
 * toolset) or `state_store_unavailable`.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const wired = await wireService({ ...options, limitedKeys: options.keys.holders ?? [] });
  try {
    const scheduler = options.config.cron.enabled ? await loadScheduler(options, wired) : undefined;
    const receiver = await createReceiver(options, wired);
    const api = new ServiceApi(options, { ...wired, receiver });
    const hub = createHub(options, wired.wiredAgent, api);
    const listener = await startListener(options, { api, hub });
    await receiver?.listen();
    // Clients can connect before this: the scheduler waits until recovery has settled interrupted runs.
    const { agent } = wired.wiredAgent;
    const { store, log } = agent.deps;
    await recordService(store, { type: "service.started", version: options.version }, log);
    void agent.recovered.then(() => (agent.runs.draining ? undefined : scheduler?.start()));
    const webhooks = receiver && { webhookRoutes: receiver.routes };
    const webhookUrl = receiver?.url === undefined ? {} : { webhookUrl: receiver.url };
    return {
      ...toService({ ...wired, hub }, options, { listener, receiver, scheduler }),
      url: listener.url,
      ...webhookUrl,
      ...webhooks,
    };
  } catch (error) {
    for (const close of wired.closers) await close();
    throw error;
  }
}

/** Records for the feed that a service with a listener starts or stops. A failure is only logged. */
function recordService(
  store: Store,
  { type, version }: { readonly type: "service.started" | "service.stopped"; readonly version?: string },
  log: Log,
): Promise<void> {
  const data = { instance: store.owner, ...(version === undefined ? {} : { version }) };
  return store
    .write((tx) => tx.record({ type, ref: "service", owner: "default", data, actor: null }), {
      durable: false,
    })
    .catch((error: unknown) => log.warn("the feed misses a start or a stop of the service", { error }));
}

/** Starts a service without a listener. The caller opens connections on `hub`. */
export async function startRpcService(options: CoreOptions): Promise<RpcService> {
  const wired = await wireService(options);
  return toService({ ...wired, hub: createLocalHub(options, wired) }, options);
}

/** A service that runs due jobs and has no clients. */
export interface TickService extends RpcService {
  /** Not started: the caller triggers each tick. */
  readonly scheduler: Ticker;
  /** Rejects new runs, waits up to `api_server.drain_seconds` for active ones, then cancels the rest. */
  drain(): Promise<void>;
}

/** Starts a service for scheduled jobs, whether or not gateways run them. */
export async function startTickService(options: CoreOptions): Promise<TickService> {
  const wired = await wireService(options);
  const scheduler = await loadScheduler(options, wired);
  const { runs, recovered } = wired.wiredAgent.agent;
  // The service ends after the due jobs: recovery must settle interrupted runs before that.
  await recovered;
  const graceMs = options.config.api_server.drain_seconds * 1000;
  const drain = async () => void (await Promise.all([runs.drain(graceMs), scheduler.drain(graceMs)]));
  // The scheduler is not stopped: its heartbeat stays and shows when jobs were last checked.
  return { ...toService({ ...wired, hub: createLocalHub(options, wired) }, options), scheduler, drain };
}

/** Returns the connections of a service whose only client is the process that started it, and needs no key. */
function createLocalHub(options: CoreOptions, wired: WiredService): RpcHub {
  const keys: KeyRing = { required: false, find: () => undefined };
  return createHub(
    options,
    wired.wiredAgent,
    new ServiceApi({ ...options, keys }, { ...wired, receiver: undefined }),
  );
}

async function loadScheduler(options: CoreOptions, wired: WiredService): Promise<Ticker> {
  const { createCronScheduler } = await import("./wire-cron.ts");
  return createCronScheduler(options, wired);
}

/** What brings work into the service. */
interface Listeners {
  readonly listener?: Listener;
  readonly receiver?: WebhookReceiver | undefined;
  readonly scheduler?: Ticker | undefined;
}

/** The modules of a service with the connections of its clients. */
type ConnectedService = WiredService & { readonly hub: RpcHub };

function toService(wired: ConnectedService, { config }: CoreOptions, listeners: Listeners = {}): RpcService {
  const { wiredAgent, hub } = wired;
  const { agent } = wiredAgent;
  return {
    store: agent.deps.store,
    deps: wiredAgent,
    agent,
    runs: agent.runs,
    questions: agent.deps.questions,
    hub,
    stop: stopper(wired, { ...listeners, drainMs: config.api_server.drain_seconds * 1000 }),
  };
}

/** How long sockets may take to send their last responses after every run has ended. */
const CLOSE_GRACE_MS = 2_000;
/** How long to wait for hosts that do not read. */
const LAST_EVENTS_MS = 2_000;

/** Returns the function that stops runs first, then their followers, then what both depend on. */
function stopper(
  { wiredAgent, hub, closers }: ConnectedService,
  { listener, receiver, scheduler, drainMs }: Listeners & { readonly drainMs: number },
): Service["stop"] {
  let stopping: Promise<void> | undefined;
  const stop = async (graceMs: number): Promise<void> => {
    await Promise.all([
      wiredAgent.agent.runs.drain(graceMs),
      receiver?.drain(graceMs),
      scheduler?.stop().then(() => scheduler.drain(graceMs)),
    ]);
    // Followers still have to read the last events of the runs.
    await waitAtMost(systemClock, LAST_EVENTS_MS, hub.caughtUp());
    hub.close();
    await Promise.all([listener?.close(CLOSE_GRACE_MS), receiver?.close(CLOSE_GRACE_MS)]);
    const { store, log } = wiredAgent.agent.deps;
    if (listener) await recordService(store, { type: "service.stopped" }, log);
    for (const close of closers) await close();
  };
  return ({ graceMs = drainMs } = {}) => (stopping ??= stop(graceMs));
}

/**
 * Returns the webhook receiver, not yet listening, or undefined when it is disabled. ServiceError `invalid_config` for
 * unusable routes, before any listener opens.
 */
async function createReceiver(
  options: CoreOptions,
  { wiredAgent, targets, telemetry }: WiredService,
): Promise<WebhookReceiver | undefined> {
  if (!options.config.platforms.webhook.enabled) return undefined;
  const [webhook, { WebhookReceiver }] = await Promise.all([
    import("../webhook/receiver.ts"),
    import("../gateway/webhook-receiver.ts"),
  ]);
  const receiver = webhook.createReceiver(options, { ...wiredAgent, targets, metrics: telemetry.webhook });
  await receiver.deps.routes.warnOfPlatforms();
  return new WebhookReceiver(receiver);
}
