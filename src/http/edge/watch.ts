/** Traces and measures requests. */
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import type { ServiceError } from "../../base/errors.ts";
import { offTracer, type Span, type Tracer } from "../../base/observe.ts";
import type { Clock } from "../../base/time.ts";
import type { HttpMetrics } from "../deps.ts";

export interface WatchDeps {
  readonly clock: Clock;
  readonly tracer?: Tracer;
  readonly metrics?: HttpMetrics;
}

interface WatchedOperation {
  readonly id: string;
  readonly operation: OperationMeta;
}

/** Operations that monitoring calls every few seconds. Their traces would bury the others. */
const untraced = new Set(["getHealth", "getHealthV1", "getDetailedHealth", "getMetrics"]);

/** Traces and measures one request. */
export class RequestWatch {
  readonly #deps: WatchDeps;
  readonly #id: string;
  readonly #span: Span;
  readonly #startedMs: number;

  constructor(deps: WatchDeps, { id, operation }: WatchedOperation, request: Request) {
    this.#deps = deps;
    this.#id = id;
    this.#startedMs = deps.metrics ? deps.clock.now() : 0;
    const tracer = untraced.has(id) ? offTracer : (deps.tracer ?? offTracer);
    this.#span = startSpan(tracer, operation, request);
  }

  /** The trace context of this request, for its answer and for the work that it starts. */
  get traceparent(): string | undefined {
    return this.#span.traceparent;
  }

  /** Records the answer. A stream continues until {@link streamed}. */
  answered(status: number, how: { readonly error?: ServiceError; readonly isStream?: boolean } = {}): void {
    const { metrics, clock } = this.#deps;
    metrics?.answered(this.#id, status, (clock.now() - this.#startedMs) / 1000);
    const span = this.#span;
    if (span.isRecording) span.set({ "http.response.status_code": status });
    // A client error is not a failure of the server's span.
    if (status >= 500) span.fail(how.error ?? String(status));
    if (how.isStream) metrics?.streamOpened(this.#id);
    else span.end();
  }

  /** Records the end of a stream, with the error that ended it. */
  streamed(error?: unknown): void {
    this.#deps.metrics?.streamClosed(this.#id);
    if (error !== undefined) this.#span.fail(error);
    this.#span.end();
  }
}

function startSpan(tracer: Tracer, { route }: OperationMeta, request: Request): Span {
  const parent = request.headers.get("traceparent") ?? undefined;
  if (!tracer.isOn) return tracer.start(route, { parent });
  const { method } = request;
  const span = tracer.start(`${method} ${route}`, { kind: "server", parent });
  if (!span.isRecording) return span;
  const { pathname, protocol } = new URL(request.url);
  span.set({
    "http.request.method": method,
    "http.route": route,
    "url.path": pathname,
    "url.scheme": protocol.slice(0, -1),
  });
  return span;
}
