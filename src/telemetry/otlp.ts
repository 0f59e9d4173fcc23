/**
 * Sends spans to a collector, as OTLP JSON over HTTP. Loaded only when a collector is configured, and without
 * global state. Touches the machine (connections).
 */
import { Agent } from "node:http";
import { Agent as TlsAgent } from "node:https";
import {
  ROOT_CONTEXT,
  SpanKind as OtelKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes as OtelAttributes,
  type Context,
  type Span as OtelSpan,
  type Tracer as OtelTracer,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type SpanExporter,
} from "@opentelemetry/sdk-trace";
import {
  redact,
  errorType,
  formatTraceparent,
  parseTraceparent,
  type Attributes,
  type Span,
  type SpanKind,
  type SpanOptions,
  type Tracer,
} from "../base/observe.ts";
import type { ExportFailure, OtlpModule, TracingSettings } from "./settings.ts";

const DELAY_MS = 2_000;
const MAX_BATCH_SPANS = 512;
const MAX_VALUE_CHARACTERS = 1_024;
const MAX_ATTRIBUTES = 64;
const MAX_EVENTS = 64;

const kinds: Readonly<Record<SpanKind, OtelKind>> = {
  internal: OtelKind.INTERNAL,
  server: OtelKind.SERVER,
  client: OtelKind.CLIENT,
  producer: OtelKind.PRODUCER,
};

/** See {@link OtlpModule}. */
export function createOtlpTracer(
  settings: TracingSettings,
  onFailure: (failure: ExportFailure) => void,
): ReturnType<OtlpModule["createOtlpTracer"]> {
  const connections = new Connections(settings.url);
  const provider = new TracerProvider({
    resource: defaultResource().merge(
      resourceFromAttributes({ "service.name": settings.serviceName, "service.version": settings.version }),
    ),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(settings.sampleRatio) }),
    spanLimits: {
      attributeValueLengthLimit: MAX_VALUE_CHARACTERS,
      attributeCountLimit: MAX_ATTRIBUTES,
      eventCountLimit: MAX_EVENTS,
    },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: createExporter(settings, connections, onFailure),
        maxQueueSize: settings.maxQueueSpans,
        maxExportBatchSize: Math.min(MAX_BATCH_SPANS, settings.maxQueueSpans),
        scheduledDelayMillis: settings.delayMs ?? DELAY_MS,
        exportTimeoutMillis: settings.timeoutMs,
      }),
    ],
  });
  const otel = provider.getTracer("agentd", settings.version);
  const tracer: Tracer = {
    isOn: true,
    start: (name, options) => start(otel, remote(options?.parent), name, options),
  };
  const close = async (signal: AbortSignal) => {
    signal.addEventListener("abort", () => connections.cut(), { once: true });
    // The exporter has already reported a failed batch.
    await provider.shutdown().catch(() => {});
  };
  return { tracer, close };
}

/** The connections to the collector, which keep the process alive while it does not answer. */
class Connections {
  readonly agent: Agent;
  #isCut = false;

  constructor(url: string) {
    this.agent = url.startsWith("https:")
      ? new TlsAgent({ keepAlive: true })
      : new Agent({ keepAlive: true });
    const connect = this.agent.createConnection.bind(this.agent);
    this.agent.createConnection = (...wanted) => {
      // A retried batch would otherwise wait again.
      if (this.#isCut) throw new Error("The service has stopped.");
      return connect(...wanted);
    };
  }

  /** Closes every connection, and allows no new one. */
  cut(): void {
    this.#isCut = true;
    const open = [...Object.values(this.agent.sockets), ...Object.values(this.agent.freeSockets)];
    for (const socket of open.flat()) socket?.destroy(new Error("The service has stopped."));
  }
}

function createExporter(
  { url, headers, timeoutMs, maxQueueSpans }: TracingSettings,
  { agent }: Connections,
  onFailure: (failure: ExportFailure) => void,
): SpanExporter {
  const exporter = new OTLPTraceExporter({
    url,
    headers: { ...headers },
    timeoutMillis: timeoutMs,
    // On shutdown, all waiting batches are sent at once.
    concurrencyLimit: Math.ceil(maxQueueSpans / MAX_BATCH_SPANS) + 1,
    httpAgentOptions: () => agent,
  });
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.error || result.code !== 0) {
          onFailure({ reason: reasonOf(result.error), spans: spans.length });
        }
        done(result);
      }),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}

/** Omits the collector's response body, which may quote what was sent. */
function reasonOf(error: Error | undefined): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  const status = typeof code === "number" ? `The collector answered ${code}.` : undefined;
  return status ?? error?.message ?? "The collector did not accept them.";
}

function start(otel: OtelTracer, parent: Context, name: string, options: SpanOptions = {}): Span {
  const { kind = "internal", attributes = {} } = options;
  const span = otel.startSpan(name, { kind: kinds[kind], attributes: toOtel(attributes) }, parent);
  return new RecordedSpan(otel, span);
}

function remote(header: string | undefined): Context {
  const context = parseTraceparent(header);
  if (!context) return ROOT_CONTEXT;
  const { traceId, spanId, isSampled } = context;
  const traceFlags = isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

class RecordedSpan implements Span {
  readonly #otel: OtelTracer;
  readonly #span: OtelSpan;

  constructor(otel: OtelTracer, span: OtelSpan) {
    this.#otel = otel;
    this.#span = span;
  }

  get traceparent(): string {
    const { traceId, spanId, traceFlags } = this.#span.spanContext();
    const isSampled = (traceFlags & TraceFlags.SAMPLED) === TraceFlags.SAMPLED;
    return formatTraceparent({ traceId, spanId, isSampled });
  }

  get isRecording(): boolean {
    return this.#span.isRecording();
  }

  child(name: string, options?: SpanOptions): Span {
    return start(this.#otel, trace.setSpan(ROOT_CONTEXT, this.#span), name, options);
  }

  set(attributes: Attributes): void {
    if (this.isRecording) this.#span.setAttributes(toOtel(attributes));
  }

  event(name: string, attributes: Attributes = {}): void {
    if (this.isRecording) this.#span.addEvent(name, toOtel(attributes));
  }

  fail(error: unknown): void {
    if (!this.isRecording) return;
    this.#span.setAttribute("error.type", redact(errorType(error)));
    this.#span.setStatus({ code: SpanStatusCode.ERROR });
  }

  end(): void {
    if (this.isRecording) this.#span.end();
  }
}

function toOtel(attributes: Attributes): OtelAttributes {
  const set: OtelAttributes = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "string") set[name] = redact(value);
    else if (typeof value === "object") set[name] = value.map(redact);
    else if (value !== undefined) set[name] = value;
  }
  return set;
}
