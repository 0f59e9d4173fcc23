/** Serves one request of an operation: admits it, reads its input, calls the handler and sends the answer. */
import type { H3Event } from "h3";
import type { OperationMeta, SseMessage } from "../../../generated/http/contract.gen.ts";
import type { OperationId } from "../../../generated/http/server.gen.ts";
import { ServiceError, toServiceError } from "../../base/errors.ts";
import { checkHost } from "../../base/net/request.ts";
import { offTracer, type Span, type Tracer } from "../../base/observe.ts";
import { createId } from "../../base/text.ts";
import type { Clock } from "../../base/time.ts";
import type { HttpContext, HttpDeps, HttpMetrics } from "../deps.ts";
import {
  actAs,
  authorize,
  type Cors,
  type Identity,
  identityOf,
  type KeyHolder,
  localCallerOf,
} from "./access.ts";
import {
  errorAnswer,
  errorEnvelope,
  errorHeaders,
  jsonAnswer,
  rawAnswer,
  rawStreamAnswer,
  streamAnswer,
  type Headers,
  type LongBodyOptions,
  sseStream,
} from "./answer.ts";
import { checkAnswer, checkEvent, readInput } from "./input.ts";

/** What every request passes. */
export interface Edge {
  readonly deps: HttpDeps;
  readonly cors: Cors;
  /** What handlers share. */
  readonly shared: unknown;
  /** Knows who makes the requests of a page. */
  readonly console: PageRequests;
}

/** The sessions of browsers. */
export interface PageRequests {
  /** Returns whether a request without a key may come from a page of the console. */
  isAsked(request: Request): boolean;
  /** Returns who makes it. ServiceError `sign_in_required`, `origin_not_allowed`, `plain_http_not_allowed`. */
  identify(request: Request): Promise<KeyHolder>;
}

export interface Bound extends Edge {
  readonly id: OperationId;
  readonly operation: OperationMeta;
  readonly handler: Handler;
}

/** A handler's answer without the types of its operation. */
export interface Result {
  readonly status: number;
  readonly headers?: Headers;
  readonly body?: unknown;
  readonly stream?: AsyncIterable<SseMessage<unknown>>;
  readonly raw?: string | AsyncIterable<string | Uint8Array>;
  readonly contentType?: string;
}

/** Answers a request whose input is checked. */
export type Handler = (request: unknown, deps: HttpDeps, shared: unknown) => Result | Promise<Result>;

/** Returns the function that answers the requests of an operation. */
export function answering(bound: Bound): (event: H3Event) => Promise<Response> {
  return (event) => serve(event, bound);
}

async function serve(event: H3Event, bound: Bound): Promise<Response> {
  const { operation, handler, deps, id } = bound;
  const requestId = requestIdOf(event);
  const watch = new RequestWatch(deps, bound, event.req);
  const own = { "x-request-id": requestId, traceparent: watch.traceparent };
  const base = { ...own, ...bound.cors.headers(event.req.headers) };
  const gone = new AbortController();
  try {
    const admitted = admit(event, bound);
    const caller = admitted instanceof Promise ? await admitted : admitted;
    // A call from inside the process was counted already.
    if (!localCallerOf(event.req)) deps.keyLimits?.countRequest(caller.name);
    const identity = actAs(caller, event.req.headers.get("x-agent-owner"), operation);
    refuseWhileDraining(id, operation, deps);
    const input = await readInput(event, operation, deps);
    if (operation.body) watchClient(event, gone);
    const ctx: HttpContext = { identity, requestId, traceparent: watch.traceparent };
    const result = await handler({ ...input, ctx, raw: event.req, signal: gone.signal }, deps, bound.shared);
    if (deps.settings.validateResponses)
      checkAnswer(id, operation, { ...result, headers: { ...own, ...result.headers } });
    deps.observe?.(id, result.status);
    watch.answered(result.status, { isStream: result.stream !== undefined });
    const headers = { ...base, ...result.headers };
    if (typeof result.raw === "object")
      return rawStreamAnswer(
        result.status,
        result.raw,
        { ...headers, "content-type": result.contentType },
        {
          ...readersOf(deps),
          ...(identity.validity ? { validity: identity.validity } : {}),
          onFailure: (error) =>
            deps.log.error("an answer failed", { operation: id, request: requestId, error }),
        },
      );
    if (result.raw !== undefined || isEmpty(result))
      return rawAnswer(result.status, result.raw ?? null, {
        ...headers,
        "content-type": result.contentType,
      });
    if (result.status === 304) return rawAnswer(304, null, headers);
    if (!result.stream) return jsonAnswer(result.status, result.body, headers, readersOf(deps));
    return streamAnswer(
      result.status,
      eventStream(result.stream, bound, { requestId, gone, watch, identity }),
      headers,
    );
  } catch (thrown) {
    const error = toServiceError(thrown);
    watch.answered(error.row.http, { error });
    return failed(error, bound, base);
  }
}

/** Returns the caller of a request. A caller inside the process had its key checked when it connected, if one is required. */
function admit(event: H3Event, bound: Bound): Identity | Promise<Identity> {
  const local = localCallerOf(event.req);
  if (local) return { ...identityOf(local, bound.operation), authenticated: bound.deps.keys.required };
  checkSource(event, bound);
  const { operation, console, deps } = bound;
  const authorization = event.req.headers.get("authorization");
  const isPage = authorization === null && needsKey(operation, deps) && console.isAsked(event.req);
  if (isPage) return console.identify(event.req).then((holder) => identityOf(holder, operation));
  return authorize(deps.keys, operation, authorization);
}

function needsKey({ security }: OperationMeta, { keys }: HttpDeps): boolean {
  return keys.required && security.length > 0;
}

/** Answers help active runs to their end, also those of people who have to sign in first; a test changes nothing. */
const WHILE_DRAINING: ReadonlySet<string> = new Set([
  "answerQuestion",
  "drainService",
  "createBackup",
  "testRoute",
  "createConsoleCode",
  "deleteConsoleSession",
  "deleteConsoleSessions",
]);

/** ServiceError `server_draining` for a change of the control API: what it changes belongs to the next process. */
function refuseWhileDraining(
  id: string,
  { strict, method, responses }: OperationMeta,
  { runs }: HttpDeps,
): void {
  if (!runs.draining || !strict || method === "GET" || !responses["503"] || WHILE_DRAINING.has(id)) return;
  throw new ServiceError("server_draining", "The server is shutting down. Try again later.");
}

function isEmpty({ body, stream }: Result): boolean {
  return body === undefined && stream === undefined;
}

function failed(error: ServiceError, { id, operation, deps }: Bound, base: Headers): Response {
  if (error.row.http >= 500 && error.code !== "server_draining") {
    deps.log.error("a request failed", {
      operation: id,
      request: base["x-request-id"],
      error: error.cause ?? error,
    });
  }
  deps.observe?.(id, error.row.http);
  if (deps.settings.validateResponses) checkFailure(error, { id, operation, deps });
  // Clients of the responses format require text.
  const noParam = operation.tags.includes("Responses") ? "" : null;
  return errorAnswer(error.code === "internal_error" ? unknown(error, base) : error, base, { noParam });
}

/**
 * Compares an error answer with the spec. A mismatch must not hide the error, so it is logged and counted as status 0.
 */
function checkFailure(
  error: ServiceError,
  { id, operation, deps }: Pick<Bound, "id" | "operation" | "deps">,
): void {
  try {
    const headers = errorHeaders(error);
    checkAnswer(id, operation, { status: error.row.http, headers, body: errorEnvelope(error) });
  } catch (difference) {
    deps.log.error("an error answer is not in the spec", { operation: id, error, difference });
    deps.observe?.(id, 0);
  }
}

/** Points the client to the log, and says nothing about the bug itself. */
function unknown(cause: ServiceError, base: Headers): ServiceError {
  const what = `Internal error. The server log has the details of request ${base["x-request-id"]}.`;
  return new ServiceError("internal_error", what, { cause });
}

function readersOf({ clock, settings: { slowReaderMs }, store: { readers } }: HttpDeps): LongBodyOptions {
  return { clock, slowReaderMs, readers };
}

function eventStream(
  source: AsyncIterable<SseMessage<unknown>>,
  { operation, id, deps }: Bound,
  {
    requestId,
    gone,
    watch,
    identity,
  }: {
    readonly requestId: string;
    readonly gone: AbortController;
    readonly watch: RequestWatch;
    readonly identity: Identity;
  },
): ReadableStream<Uint8Array> {
  return sseStream(source, {
    meta: operation.sse,
    ...readersOf(deps),
    keepaliveMs: deps.settings.keepaliveMs,
    // An answer to a POST starts with data.
    greets: operation.method === "GET",
    onClientGone: () => gone.abort(),
    ...(identity.validity ? { validity: identity.validity } : {}),
    onEnd: (error) => watch.streamed(error),
    onFailure: (error) => {
      gone.abort();
      deps.log.error("a stream failed", { operation: id, request: requestId, error });
    },
    ...(deps.settings.validateResponses
      ? { inspect: (data: unknown) => checkEvent(id, operation, data) }
      : {}),
  });
}

/**
 * Aborts `gone` when the client leaves while it waits for a JSON answer. Deno also aborts this signal after every
 * normal end, when nothing listens to it anymore.
 */
function watchClient(event: H3Event, gone: AbortController): void {
  event.req.signal.addEventListener("abort", () => gone.abort(), { once: true });
}

/** Checks the host name and the origin of a request. ServiceError `host_not_allowed`, `origin_not_allowed`. */
export function checkSource(event: H3Event, { deps, cors }: Edge): void {
  if (!deps.keys.required) checkHost(deps.settings.allowedHosts, event.req.headers.get("host"));
  cors.check(event.req.headers);
}

export function requestIdOf(event: H3Event): string {
  const given = event.req.headers.get("x-request-id");
  return given !== null && /^[\x21-\x7e]{1,128}$/.test(given) ? given : createId("req");
}

// Traces and metrics

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
