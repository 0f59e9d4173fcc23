/** The rooms that every service has, built from the configuration. The order below is the order in which they open. */
import type { Config } from "../../generated/config/types.gen.ts";
import { wireAgent, type WiredAgent } from "./wire-agent.ts";
import { systemClock } from "../base/clock.ts";
import { protectHome } from "../base/system/own-files.ts";
import { Dispatcher } from "../deliver/outbox/dispatch.ts";
import { meterTargets } from "../deliver/outbox/metrics.ts";
import type { Targets } from "../deliver/target.ts";
import { openTargets } from "./wire-delivery.ts";
import { rpcHandlers } from "../rpc/methods/handlers.ts";
import { RpcHub } from "../rpc/events/hub.ts";
import { gatewayLimits } from "../rpc/connection/ready.ts";
import { createSubscriptions } from "../rpc/events/notify.ts";
import type { RpcDeps } from "../rpc/deps.ts";
import type { CoreOptions } from "./options.ts";
import { settleMessage } from "./settle-message.ts";
import { openStore } from "../store/open.ts";
import { scheduleSweeps } from "../store/retention/retention.ts";
import { openTelemetry, type Telemetry } from "../telemetry/telemetry.ts";

export interface WiredService {
  readonly wiredAgent: WiredAgent;
  readonly telemetry: Telemetry;
  readonly hub: RpcHub;
  readonly targets: Targets;
  /** What to close, in this order. */
  readonly closers: readonly (() => Promise<void>)[];
}

/** When anything on the way fails, what was opened is closed again. ServiceError `invalid_config`, `state_store_unavailable`. */
export async function wireService(options: CoreOptions): Promise<WiredService> {
  const { config, log, clock = systemClock } = options;
  const onProblem = (message: string, error: unknown) => log.warn(message, { error });
  const opening = { url: options.paths.databaseUrl, maxReaderBytes: config.limits.max_reader_bytes };
  const store = options.store ?? (await openStore({ ...opening, ...timeOf(options), onProblem }));
  const closers: (() => Promise<void>)[] = [() => store.close(), async () => options.variables.close()];
  const unprotect = protectHome(options.paths.agentHome);
  closers.push(async () => unprotect());
  try {
    const telemetry = await openTelemetry(options, { store, clock });
    closers.unshift(() => telemetry.close());
    const wiredAgent = wireAgent({ ...options, telemetry: telemetry.agent }, store, clock);
    closers.unshift(() => wiredAgent.close());
    wiredAgent.agent.start();
    const onCronJobsGone = (ids: readonly string[]) => removeCronOutputs(options.paths, ids);
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
    const hub = new RpcHub(rpcParts(options, wiredAgent), rpcHandlers);
    return { wiredAgent, telemetry, hub, targets, closers };
  } catch (error) {
    for (const close of closers) await close();
    throw error;
  }
}

/** Time that was injected is the store's, too; else replicas on one server go by its clock, however theirs differ. */
function timeOf({ clock }: CoreOptions): { readonly now?: () => number } {
  return clock ? { now: () => clock.now() } : {};
}

function rpcParts(options: CoreOptions, deps: WiredAgent): Omit<RpcDeps, "peers"> {
  const { config, env, paths, version, log, processEnv = env } = options;
  const { store, clock, keyLimits } = deps.agent.deps;
  return {
    ...deps,
    ...(keyLimits ? { keyLimits } : {}),
    store,
    clock,
    log,
    version,
    settings: { limits: gatewayLimits(config.sessions.max_queue), cliExec: config.gateway.cli_exec },
    config: { atStart: config, home: paths.agentHome, userHome: paths.userHome, env: processEnv },
    subscribe: createSubscriptions,
  };
}

/** Of webhooks: what people look at when an event seems to be lost. */
const DELIVERIES_MS = 30 * 24 * 3_600_000;
const MAX_DELIVERIES = 10_000;
const MAX_OCCURRENCES = 200_000;
const DAY_MS = 86_400_000;

/** Loaded here: few services sweep a job in their life. */
async function removeCronOutputs(paths: CoreOptions["paths"], ids: readonly string[]): Promise<void> {
  const [{ cronOutputFolder }, { removeOutputs }] = await Promise.all([
    import("./wire-cron.ts"),
    import("../cron/output/outputs.ts"),
  ]);
  for (const id of ids) await removeOutputs(cronOutputFolder(paths), id);
}

function retentionOptions(config: Config) {
  const { runs_hours: runsHours, events_hours: eventsHours, sweep_minutes: sweepMinutes } = config.retention;
  const keepMs = runsHours * 3_600_000;
  return {
    retention: {
      runsMs: keepMs,
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
