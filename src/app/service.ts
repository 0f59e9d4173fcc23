/** A service: its rooms opened, its clients let in, and all of it stopped. */
import type { WiredAgent } from "./wire-agent.ts";
import type { Agent } from "../agent/agent.ts";
import type { Questions } from "../agent/question/questions.ts";
import { KeyLimits } from "../agent/run/concurrency.ts";
import type { RunScheduler } from "../agent/run/scheduler.ts";
import { systemClock } from "../base/clock.ts";
import type { Ticker } from "../cron/tick/ticker.ts";
import type { Listener } from "../gateway/listen.ts";
import type { WebhookReceiver } from "../gateway/webhook-receiver.ts";
import { openListener } from "./start-listener.ts";
import { createReceiver } from "./start-receiver.ts";
import { wireService, type WiredService } from "./wire.ts";
import type { RpcHub } from "../rpc/events/hub.ts";
import type { CoreOptions, ServiceOptions } from "./options.ts";
import type { Store } from "../store/store.ts";

/** A running agent: its rooms, and how to stop it. */
export interface Service {
  readonly url: string;
  /** Where webhooks are received at the start; absent when they are not, be it that the address is still taken. */
  readonly webhookUrl?: string;
  /** Routes of webhooks at the start; without `webhookUrl` the receiver could not listen. Absent: not enabled. */
  readonly webhookRoutes?: readonly string[];
  readonly store: Store;
  /** The agent with its commands, skills and processes. */
  readonly deps: WiredAgent;
  readonly agent: Agent;
  readonly runs: RunScheduler;
  readonly questions: Questions;
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
 * Builds every room and starts listening. What dead processes left open is closed meanwhile: see `agent.recovered`. When anything on the way fails, what was opened is closed again.
 * ServiceError `invalid_config` (address taken, unknown toolset) or `state_store_unavailable`.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const keyLimits = new KeyLimits(options.keys.holders ?? [], options.clock ?? systemClock);
  const wired = await wireService({ ...options, keyLimits });
  try {
    const scheduler = options.config.cron.enabled ? await loadScheduler(options, wired) : undefined;
    const receiver = await createReceiver(options, wired);
    const listener = await openListener(options, { ...wired, receiver });
    await receiver?.listen();
    // It looks at the jobs while people connect already, once those whose runs are gone are known to be at rest.
    const { agent } = wired.wiredAgent;
    void agent.recovered.then(() => (agent.runs.draining ? undefined : scheduler?.start()));
    const webhooks = receiver && { webhookRoutes: receiver.routes };
    const webhookUrl = receiver?.url === undefined ? {} : { webhookUrl: receiver.url };
    return {
      ...toService(wired, options, { listener, receiver, scheduler }),
      url: listener.url,
      ...webhookUrl,
      ...webhooks,
    };
  } catch (error) {
    for (const close of wired.closers) await close();
    throw error;
  }
}

/** As {@link startService}, without a listener: connections are opened on `hub`. */
export async function startRpcService(options: CoreOptions): Promise<RpcService> {
  return toService(await wireService(options), options);
}

/** A service that runs what is due and has no clients. */
export interface TickService extends RpcService {
  /** Not started: it looks at the jobs when it is told to. */
  readonly scheduler: Ticker;
  /** Refuses new runs, and waits for those at work as long as a service that stops would; then it cuts them. */
  drain(): Promise<void>;
}

/** As {@link startRpcService}, for the jobs of the clock, whether or not gateways are to run them. */
export async function startTickService(options: CoreOptions): Promise<TickService> {
  const wired = await wireService(options);
  const scheduler = await loadScheduler(options, wired);
  const { runs, recovered } = wired.wiredAgent.agent;
  // It ends when the jobs that are due have run: what is left behind by others has to be settled by then.
  await recovered;
  const graceMs = options.config.api_server.drain_seconds * 1000;
  const drain = async () => void (await Promise.all([runs.drain(graceMs), scheduler.drain(graceMs)]));
  // The service does not stop the scheduler: its sign of life stays, for those who ask when jobs were last looked at.
  return { ...toService(wired, options), scheduler, drain };
}

async function loadScheduler(options: CoreOptions, wired: WiredService): Promise<Ticker> {
  const { openScheduler } = await import("./start-scheduler.ts");
  return openScheduler(options, wired);
}

/** Where clients come in. */
interface Doors {
  readonly listener?: Listener;
  readonly receiver?: WebhookReceiver | undefined;
  readonly scheduler?: Ticker | undefined;
}

function toService(wired: WiredService, { config }: CoreOptions, doors: Doors = {}): RpcService {
  const { wiredAgent, hub } = wired;
  const { agent } = wiredAgent;
  return {
    store: agent.deps.store,
    deps: wiredAgent,
    agent,
    runs: agent.runs,
    questions: agent.deps.questions,
    hub,
    stop: stopper(wired, { ...doors, drainMs: config.api_server.drain_seconds * 1000 }),
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
  { wiredAgent, hub, closers }: WiredService,
  { listener, receiver, scheduler, drainMs }: Doors & { readonly drainMs: number },
): Service["stop"] {
  let stopping: Promise<void> | undefined;
  const stop = async (graceMs: number): Promise<void> => {
    await Promise.all([
      wiredAgent.agent.runs.drain(graceMs),
      receiver?.drain(graceMs),
      scheduler?.stop().then(() => scheduler.drain(graceMs)),
    ]);
    // What the end of the turns appended is still on its way to those who follow.
    await withinTime(hub.caughtUp(), LAST_EVENTS_MS);
    hub.close();
    await Promise.all([listener?.close(CLOSE_GRACE_MS), receiver?.close(CLOSE_GRACE_MS)]);
    for (const close of closers) await close();
  };
  return ({ graceMs = drainMs } = {}) => (stopping ??= stop(graceMs));
}
