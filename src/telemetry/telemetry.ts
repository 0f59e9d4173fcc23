import type { Config } from "../../generated/config/types.gen.ts";
import type { AgentDeps } from "../agent/deps.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Tracer } from "../base/observe/trace.ts";
import type { Environment } from "../config/home.ts";
import type { CronDeps } from "../cron/deps.ts";
import type { DeliveryMetrics } from "../deliver/outbox/metrics.ts";
import type { HttpDeps } from "../http/deps.ts";
import type { Store } from "../store/store.ts";
import type { WebhookDeps } from "../webhook/deps.ts";
import { createServiceMetrics } from "./service-metrics.ts";
import { tracingSettings } from "./settings.ts";
import { openTracing } from "./tracing.ts";

export interface TelemetryOptions {
  readonly config: Pick<Config, "telemetry" | "api_server">;
  /** Where references such as `env:NAME` are looked up. */
  readonly env: Environment;
  readonly version: string;
  readonly log: Log;
}

/** What the rooms of a service get of traces and figures: nothing for what is off. */
export interface Telemetry {
  readonly tracer: Tracer;
  readonly agent: Pick<AgentDeps, "tracing" | "runEnded">;
  readonly http: Pick<HttpDeps, "tracer" | "metrics">;
  readonly webhook: Pick<WebhookDeps, "metrics">;
  readonly delivery: { readonly metrics?: DeliveryMetrics };
  readonly cron: Pick<CronDeps, "metrics">;
  /** Sends the last spans, within a few seconds, and stops measuring. */
  close(): Promise<void>;
}

/** Traces and figures as the configuration wants them. ServiceError `invalid_config`. */
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
