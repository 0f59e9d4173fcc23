import type { Config } from "../../generated/config/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import type { Tracer } from "../base/observe.ts";
import { type Environment, resolveSecret } from "../config/home.ts";

export interface TracingSettings {
  /** The complete URL that receives spans, such as `http://127.0.0.1:4318/v1/traces`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  readonly version: string;
  /** Share of the traces that start here, 0 to 1. */
  readonly sampleRatio: number;
  /** Timeout of a request to the collector, including its retries. */
  readonly timeoutMs: number;
  /** Longest queue of spans. Further spans are dropped. */
  readonly maxQueueSpans: number;
  /** Longest delay from the end of a span until it is sent; default 2 s. */
  readonly delayMs?: number;
}

/** A tracer, and how to close it. */
export interface Tracing {
  readonly tracer: Tracer;
  /** Sends the waiting spans within a few seconds; the others are lost. Never rejects. */
  close(): Promise<void>;
}

export interface ExportFailure {
  /** One sentence without secrets. */
  readonly reason: string;
  /** Number of lost spans. */
  readonly spans: number;
}

/** The exporter. It is a module of its own because it is loaded only when needed. */
export interface OtlpModule {
  /** Calls `onFailure` for each batch that fails. Throws for an invalid URL. */
  createOtlpTracer(
    settings: TracingSettings,
    onFailure: (failure: ExportFailure) => void,
  ): Pick<Tracing, "tracer"> & {
    /** Sends the waiting spans. When `signal` aborts, drops the others and closes every connection. Never rejects. */
    close(signal: AbortSignal): Promise<void>;
  };
}

/**
 * Returns undefined when no collector is configured. ServiceError `invalid_config` for an invalid address, or a
 * header that refers to a missing variable.
 */
export function tracingSettings(
  { telemetry }: Pick<Config, "telemetry">,
  from: { readonly env: Environment; readonly version: string },
): TracingSettings | undefined {
  const { endpoint, headers } = telemetry;
  if (endpoint === undefined) return undefined;
  const url = URL.parse(endpoint);
  if (!url) {
    const message = "telemetry.endpoint is not a URL. Write it as http://127.0.0.1:4318.";
    throw new ServiceError("invalid_config", message, { param: "telemetry.endpoint" });
  }
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/traces`;
  const resolved = Object.entries(headers).map(([name, value]) => [
    name,
    resolveSecret(value, from.env, `telemetry.headers.${name}`),
  ]);
  return {
    url: url.href,
    headers: Object.fromEntries(resolved) as Readonly<Record<string, string>>,
    serviceName: telemetry.service_name,
    version: from.version,
    sampleRatio: telemetry.sample_ratio,
    timeoutMs: telemetry.timeout_seconds * 1000,
    maxQueueSpans: telemetry.max_queue_spans,
  };
}
