import { H3, type H3Event, type HTTPError } from "h3";
import { ServiceError, toServiceError } from "../base/errors.ts";
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
} from "./edge/answer.ts";
import {
  getCapabilities,
  getDocs,
  getHealth,
  getModel,
  getOpenApi,
  getRoot,
  listModels,
  getMetrics,
  createSocketTicket,
} from "./meta/meta.ts";
import { LogRing } from "./admin/log-ring.ts";
import { FeedStreams, followFeed, streamEvents } from "./control/feed.ts";
import { answerQuestion, getQuestion, listQuestions } from "./control/questions/questions.ts";
import {
  deleteSession,
  getSession,
  listSessionMessages,
  listSessions,
  updateSession,
} from "./control/sessions/sessions.ts";
import { onDemandHandlers } from "./on-demand.ts";
import { createChatCompletion } from "./chat.ts";
import { defineHttp, type HttpHandlers } from "./edge/contract.ts";
import { getDetailedHealth } from "./meta/health.ts";
import {
  cancelResponse,
  createResponse,
  deleteResponse,
  getResponse,
  listResponseInputItems,
} from "./responses/responses.ts";
import type { HttpContext, HttpDeps } from "./deps.ts";
import { createLocalCall, type LocalApi, localCallerOf } from "./local.ts";
import { resolveRunApproval, steerRun, stopRun } from "./runs/control.ts";
import { createRun } from "./runs/create.ts";
import { streamRunEvents } from "./runs/events.ts";
import { getRun, listRuns, RunSubscribers } from "./runs/read.ts";
import type { OperationMeta, SseMessage } from "../../generated/http/contract.gen.ts";
import { operations, type OperationId } from "../../generated/http/server.gen.ts";
import { createId } from "../base/text.ts";
import { checkHost } from "../base/net/request.ts";
import { actAs, authorize, Cors, type Identity, identityOf } from "./edge/access.ts";
import { RequestWatch } from "./edge/watch.ts";
import { checkAnswer, checkEvent, readInput } from "./edge/input.ts";

/** The HTTP API, and the same operations for callers inside the process. */
export interface HttpApi extends LocalApi {
  readonly app: H3;
}

/** Creates the HTTP API: binds each operation of specs/http.openapi.yaml to its handler. */
export function createHttpApi(deps: HttpDeps): HttpApi {
  const app = new H3({
    silent: true,
    onError: (error, event) => failOutside(error, event, deps),
  });
  const subscribers = new RunSubscribers(deps.settings.maxSubscribersPerRun);
  const streams = new FeedStreams();
  const logs = new LogRing();
  deps.log.copyTo?.(logs.write);
  const handlers = defineHttp<HttpContext>({
    createChatCompletion: (request) => createChatCompletion(request, deps),
    getRun: (request) => getRun(request, deps, subscribers),
    streamRunEvents: (request) => streamRunEvents(request, deps, subscribers),
    listModels: () => listModels(deps),
    getModel: (request) => getModel(request.path.model, deps),
    getHealth: () => getHealth(deps),
    getHealthV1: () => getHealth(deps),
    createResponse: (request) => createResponse(request, deps),
    getResponse: (request) => getResponse(request, deps, subscribers),
    deleteResponse: (request) => deleteResponse(request, deps),
    cancelResponse: (request) => cancelResponse(request, deps),
    listResponseInputItems: (request) => listResponseInputItems(request, deps),
    createRun: (request) => createRun(request, deps),
    listRuns: (request) => listRuns(request, deps),
    resolveRunApproval: (request) => resolveRunApproval(request, deps),
    steerRun: (request) => steerRun(request, deps),
    listSessions: (request) => listSessions(request, deps),
    getSession: (request) => getSession(request, deps),
    updateSession: (request) => updateSession(request, deps),
    deleteSession: (request) => deleteSession(request, deps),
    listSessionMessages: (request) => listSessionMessages(request, deps),
    listQuestions: (request) => listQuestions(request, deps),
    getQuestion: (request) => getQuestion(request, deps, subscribers),
    answerQuestion: (request) => answerQuestion(request, deps),
    ...onDemandHandlers(deps, { subscribers, logs }),
    streamEvents: (request) => streamEvents(request, deps, streams),
    stopRun: (request) => stopRun(request, deps),
    createSocketTicket: (request) => createSocketTicket(request, deps),
    getCapabilities: (request) => getCapabilities(request, deps),
    getDetailedHealth: (request) => getDetailedHealth(request, deps),
    getMetrics: () => getMetrics(deps),
    getRoot: () => getRoot(),
    getDocs: (request) => getDocs(request),
    getOpenApi,
  });
  bindHttp(app, handlers, deps);
  return {
    app,
    call: createLocalCall((request) => app.fetch(request)),
    follow: (filter, caller, signal) => followFeed({ filter, caller, signal }, deps, streams),
  };
}

/** Answers errors that occur outside an operation: requests that h3 refuses, and bugs. */
function failOutside(error: HTTPError, event: H3Event, { log }: HttpDeps): Response {
  const headers = { "x-request-id": requestIdOf(event) };
  if (error.status === 400) {
    return errorAnswer(new ServiceError("invalid_request", "The path of the request is malformed."), headers);
  }
  log.error("a request failed outside its handler", { error });
  return errorAnswer(error.cause ?? error, headers);
}

/** A handler's answer without the types of its operation. */
interface Result {
  readonly status: number;
  readonly headers?: Headers;
  readonly body?: unknown;
  readonly stream?: AsyncIterable<SseMessage<unknown>>;
  readonly raw?: string | AsyncIterable<string | Uint8Array>;
  readonly contentType?: string;
}

type Handler = (request: unknown) => Result | Promise<Result>;

/** Mounts every operation of the spec. Other methods of a known path answer 405, all other paths 404. */
export function bindHttp(app: H3, handlers: HttpHandlers<HttpContext>, deps: HttpDeps): void {
  const cors = new Cors({ origins: deps.settings.corsOrigins, requiresKey: deps.keys.required });
  const edge: Edge = { deps, cors };
  const methods = new Map<string, string[]>();
  for (const id of Object.keys(operations) as OperationId[]) {
    const operation = operations[id];
    const route = operation.route.replace(/\{([^}]+)\}/g, ":$1");
    const names = operation.method === "GET" && !operation.sse ? ["GET", "HEAD"] : [operation.method];
    methods.set(route, [...(methods.get(route) ?? []), ...names]);
    const bound = { ...edge, id, operation, handler: handlers[id] as Handler };
    for (const name of names) app.on(name as "GET", route, (event) => serve(event, bound));
  }
  for (const route of UNSUPPORTED_ROUTES) app.all(route, (event) => refuse(event, edge, wrongPath));
  for (const [route, names] of methods) app.all(route, (event) => refuse(event, edge, wrongMethod(names)));
  app.all("/**", (event) => refuse(event, edge, wrongPath));
}

/** Paths of OpenAI's API that would otherwise match a path of this one. */
const UNSUPPORTED_ROUTES = ["/v1/responses/compact", "/v1/responses/input_tokens"];

/** What every request passes. */
interface Edge {
  readonly deps: HttpDeps;
  readonly cors: Cors;
}

interface Bound extends Edge {
  readonly id: OperationId;
  readonly operation: OperationMeta;
  readonly handler: Handler;
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
    const result = await handler({ ...input, ctx, raw: event.req, signal: gone.signal });
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
  return authorize(bound.deps.keys, bound.operation, event.req.headers.get("authorization"));
}

/** Answers help active runs to their end. */
const WHILE_DRAINING: ReadonlySet<string> = new Set(["answerQuestion", "drainService", "createBackup"]);

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
function checkSource(event: H3Event, { deps, cors }: Edge): void {
  if (!deps.keys.required) checkHost(deps.settings.allowedHosts, event.req.headers.get("host"));
  cors.check(event.req.headers);
}

export function requestIdOf(event: H3Event): string {
  const given = event.req.headers.get("x-request-id");
  return given !== null && /^[\x21-\x7e]{1,128}$/.test(given) ? given : createId("req");
}

/** Answers requests that match no operation: browser preflights, and errors. */
function refuse(event: H3Event, edge: Edge, refusal: (event: H3Event) => Refusal): Response {
  const base = { "x-request-id": requestIdOf(event), ...edge.cors.headers(event.req.headers) };
  try {
    checkSource(event, edge);
  } catch (thrown) {
    return errorAnswer(thrown, base);
  }
  const preflight = edge.cors.preflight(event.req.method, event.req.headers);
  if (preflight) return rawAnswer(204, null, { ...base, ...preflight });
  const { error, headers } = refusal(event);
  return errorAnswer(error, { ...base, ...headers });
}

interface Refusal {
  readonly error: ServiceError;
  readonly headers?: Headers;
}

function wrongMethod(methods: readonly string[]): (event: H3Event) => Refusal {
  const allow = methods.join(", ");
  return (event) => ({
    error: new ServiceError("method_not_allowed", `This path supports ${allow}, not ${event.req.method}.`),
    headers: { allow },
  });
}

function wrongPath(): Refusal {
  const what = "This path does not exist. GET /openapi.json lists all paths.";
  return { error: new ServiceError("not_found", what) };
}
