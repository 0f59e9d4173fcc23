import type { Config } from "../../generated/config/types.gen.ts";
import { ServiceError } from "../base/errors.ts";
import type { Tracer } from "../base/observe/trace.ts";
import type { Environment } from "../config/home.ts";
import { resolveSecret } from "../config/secrets/reference.ts";

export interface TracingSettings {
  /** Where spans are posted to, complete: `http://127.0.0.1:4318/v1/traces`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  readonly version: string;
  /** 0 to 1, of the traces that begin here. */
  readonly sampleRatio: number;
  /** Longest wait for the collector, with its retries. */
  readonly timeoutMs: number;
  /** Spans that may wait; further ones are dropped. */
  readonly maxQueueSpans: number;
  /** From a span's end until it is sent, when no batch is full before; default 2 s. */
  readonly delayMs?: number;
}

/** A tracer and how it ends. */
export interface Tracing {
  readonly tracer: Tracer;
  /** Sends what waits, within so long; what is not sent by then is lost. Never rejects. */
  close(): Promise<void>;
}

export interface ExportFailure {
  /** One sentence without secrets. */
  readonly reason: string;
  /** Spans that were lost by it. */
  readonly spans: number;
}

/** What sends spans, apart from the rest because it is loaded only when it is needed. */
export interface OtlpModule {
  /** `onFailure` is told of each batch that could not be sent. Throws for a URL that is none. */
  createOtlpTracer(
    settings: TracingSettings,
    onFailure: (failure: ExportFailure) => void,
  ): Pick<Tracing, "tracer"> & {
    /** Sends what waits; once `signal` aborts the rest is lost, and no connection stays. Never rejects. */
    close(signal: AbortSignal): Promise<void>;
  };
}

/**
 * Undefined when no collector is configured. ServiceError `invalid_config` for an address that is none, or a header
 * that refers to a variable that is not set.
 */
export function tracingSettings(
  { telemetry }: Pick<Config, "telemetry">,
  from: { readonly env: Environment; readonly version: string },
): TracingSettings | undefined {
  const { endpoint, headers } = telemetry;
  if (endpoint === undefined) return undefined;
  const url = URL.parse(endpoint);
  if (!url) {
    const message = "telemetry.endpoint is no address. Write it as http://127.0.0.1:4318.";
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
