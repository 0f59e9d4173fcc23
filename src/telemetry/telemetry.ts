import type { Config } from "../../generated/config/types.gen.ts";
import type { Agent } from "../agent/agent.ts";
import { type Clock, waitAtMost } from "../base/time.ts";
import { type Log, type Tracer, offTracer } from "../base/observe.ts";
import type { Environment } from "../config/home.ts";
import type { CronDeps } from "../cron/deps.ts";
import type { DeliveryMetrics } from "../deliver/target.ts";
import type { HttpDeps } from "../http/deps.ts";
import type { Store } from "../store/store.ts";
import type { WebhookDeps } from "../webhook/deps.ts";
import { createServiceMetrics } from "./metrics.ts";
import {
  tracingSettings,
  type ExportFailure,
  type OtlpModule,
  type Tracing,
  type TracingSettings,
} from "./settings.ts";

export interface TelemetryOptions {
  readonly config: Pick<Config, "telemetry" | "api_server">;
  /** Resolves references such as `env:NAME`. */
  readonly env: Environment;
  readonly version: string;
  readonly log: Log;
}

/** What each module gets of traces and metrics; nothing for what is off. */
export interface Telemetry {
  readonly tracer: Tracer;
  readonly agent: Pick<Agent["deps"], "tracing" | "runEnded">;
  readonly http: Pick<HttpDeps, "tracer" | "metrics">;
  readonly webhook: Pick<WebhookDeps, "metrics">;
  readonly delivery: { readonly metrics?: DeliveryMetrics };
  readonly cron: Pick<CronDeps, "metrics">;
  /** Sends the last spans within a few seconds, and stops measuring. */
  close(): Promise<void>;
}

/** Opens the configured traces and metrics. ServiceError `invalid_config`. */
export async function openTelemetry(
  options: TelemetryOptions,
  { store, clock }: { readonly store: Store; readonly clock: Clock },
): Promise<Telemetry> {
  const { config, env, version, log } = options;
  const { tracer, close } = await openTracing(tracingSettings(config, { env, version }), { clock, log });
  const metrics = config.telemetry.metrics ? createServiceMetrics({ store, version, log }) : undefined;
  return {
    tracer,
    agent: {
      ...(tracer.isOn ? { tracing: { tracer, agentName: config.api_server.model_name } } : {}),
      ...(metrics ? { runEnded: metrics.runEnded } : {}),
    },
    http: { tracer, ...(metrics ? { metrics: metrics.http } : {}) },
    webhook: metrics ? { metrics: metrics.webhook } : {},
    delivery: metrics ? { metrics: metrics.delivery } : {},
    cron: metrics ? { metrics: metrics.cron } : {},
    close: async () => {
      metrics?.close();
      await close();
    },
  };
}

export interface TracingOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Loads the exporter. For tests. */
  readonly load?: () => Promise<OtlpModule>;
}

/** Longest wait for the last spans when the service stops. */
const CLOSE_MS = 3_000;
/** Least time between two log lines about an unreachable collector. */
const LOG_INTERVAL_MS = 60_000;

/**
 * Returns the tracer of a service: without settings one that does nothing, and loads nothing. A failure to load
 * the exporter does not stop the service.
 */
export async function openTracing(
  settings: TracingSettings | undefined,
  options: TracingOptions,
): Promise<Tracing> {
  if (!settings) return { tracer: offTracer, close: async () => {} };
  const { clock, log, load = () => import("./otlp.ts") } = options;
  try {
    const { createOtlpTracer } = await load();
    const { tracer, close } = createOtlpTracer(settings, logFailures(log, clock));
    return { tracer, close: () => closeInTime(close, clock) };
  } catch (error) {
    log.warn("tracing is off: the exporter could not be loaded", { error });
    return { tracer: offTracer, close: async () => {} };
  }
}

/** Logs the first failure, and later ones once a minute, with the number of spans lost since. */
function logFailures(log: Log, clock: Clock): (failure: ExportFailure) => void {
  let lost = 0;
  let nextMs = 0;
  return ({ reason, spans }) => {
    lost += spans;
    if (clock.now() < nextMs) return;
    log.warn("spans could not be sent", { reason, lost });
    lost = 0;
    nextMs = clock.now() + LOG_INTERVAL_MS;
  };
}

async function closeInTime(close: (signal: AbortSignal) => Promise<void>, clock: Clock): Promise<void> {
  const late = new AbortController();
  try {
    await waitAtMost(clock, CLOSE_MS, close(late.signal));
  } finally {
    late.abort();
  }
}
