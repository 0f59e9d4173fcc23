import type { H3, H3Event } from "h3";
import type { OperationMeta, SseMessage } from "../../generated/http/contract.gen.ts";
import { operations, type OperationId } from "../../generated/http/server.gen.ts";
import { ServiceError, toServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import { errorAnswer, jsonAnswer, rawAnswer, streamAnswer, type Headers } from "./answer.ts";
import { authorize, checkHost } from "./auth.ts";
import { checkAnswer, checkEvent } from "./conformance.ts";
import type { HttpHandlers } from "./contract.ts";
import { readInput } from "./input.ts";
import type { HttpContext, HttpRoom } from "./room.ts";
import { sseStream } from "./sse.ts";

/** What a handler may answer, without the types that tie it to its operation. */
interface Result {
  readonly status: number;
  readonly headers?: Headers;
  readonly body?: unknown;
  readonly stream?: AsyncIterable<SseMessage<unknown>>;
  readonly raw?: BodyInit;
  readonly contentType?: string;
}

type Handler = (request: unknown) => Result | Promise<Result>;

/** Mounts every operation of the spec, with 405 for the methods a path does not have and 404 for all other paths. */
export function bindHttp(app: H3, handlers: HttpHandlers<HttpContext>, room: HttpRoom): void {
  const methods = new Map<string, string[]>();
  for (const id of Object.keys(operations) as OperationId[]) {
    const operation = operations[id];
    const route = operation.route.replace(/\{([^}]+)\}/g, ":$1");
    const names = operation.method === "GET" && !operation.sse ? ["GET", "HEAD"] : [operation.method];
    methods.set(route, [...(methods.get(route) ?? []), ...names]);
    const bound = { id, operation, handler: handlers[id] as Handler, room };
    for (const name of names) app.on(name as "GET", route, (event) => serve(event, bound));
  }
  for (const [route, names] of methods) app.all(route, (event) => refuseMethod(event, names));
  app.all("/**", (event) => refusePath(event));
}

interface Bound {
  readonly id: OperationId;
  readonly operation: OperationMeta;
  readonly handler: Handler;
  readonly room: HttpRoom;
}

async function serve(event: H3Event, bound: Bound): Promise<Response> {
  const { operation, handler, room, id } = bound;
  const requestId = requestIdOf(event);
  const base: Headers = { "x-request-id": requestId };
  const gone = new AbortController();
  try {
    if (!room.keys.required) checkHost(room.settings.allowedHosts, event.req.headers.get("host"));
    const identity = authorize(room.keys, operation, event.req.headers.get("authorization"));
    const input = await readInput(event, operation, room);
    if (operation.body) watchClient(event, gone);
    const ctx: HttpContext = { identity, requestId };
    const result = await handler({ ...input, ctx, raw: event.req, signal: gone.signal });
    if (room.settings.validateResponses) checkAnswer(id, operation, result);
    room.observe?.(id, result.status);
    const headers = { ...base, ...result.headers };
    if (result.raw !== undefined)
      return rawAnswer(result.status, result.raw, {
        ...headers,
        "content-type": result.contentType,
      });
    if (!result.stream) return jsonAnswer(result.status, result.body, headers);
    return streamAnswer(result.status, eventStream(result.stream, bound, { requestId, gone }), headers);
  } catch (thrown) {
    return failed(thrown, bound, base);
  }
}

function failed(thrown: unknown, { id, operation, room }: Bound, base: Headers): Response {
  const error = toServiceError(thrown);
  if (error.row.http >= 500 && error.code !== "server_draining") {
    room.log.error("a request failed", {
      operation: id,
      request: base["x-request-id"],
      error: error.cause ?? error,
    });
  }
  room.observe?.(id, error.row.http);
  if (room.settings.validateResponses && !operation.responses[String(error.row.http)]) {
    room.log.error("an answer is not in the spec", { operation: id, status: error.row.http, error });
    room.observe?.(id, 0);
  }
  return errorAnswer(error, base);
}

function eventStream(
  source: AsyncIterable<SseMessage<unknown>>,
  { operation, id, room }: Bound,
  { requestId, gone }: { readonly requestId: string; readonly gone: AbortController },
): ReadableStream<Uint8Array> {
  return sseStream(source, {
    meta: operation.sse,
    keepaliveMs: room.settings.keepaliveMs,
    onClientGone: () => gone.abort(),
    onFailure: (error) => {
      gone.abort();
      room.log.error("a stream failed", { operation: id, request: requestId, error });
    },
    ...(room.settings.validateResponses
      ? { inspect: (data: unknown) => checkEvent(id, operation, data) }
      : {}),
  });
}

/**
 * Tells the handler that the client left while it waits for a JSON answer. Deno aborts this signal after every
 * normal end too; by then nobody listens any more.
 */
function watchClient(event: H3Event, gone: AbortController): void {
  event.req.signal.addEventListener("abort", () => gone.abort(), { once: true });
}

function requestIdOf(event: H3Event): string {
  const given = event.req.headers.get("x-request-id");
  return given !== null && /^[\x21-\x7e]{1,128}$/.test(given) ? given : createId("req");
}

function refuseMethod(event: H3Event, methods: readonly string[]): Response {
  const allow = methods.join(", ");
  const error = new ServiceError(
    "method_not_allowed",
    `This path answers ${allow}, not ${event.req.method}.`,
  );
  return errorAnswer(error, { "x-request-id": requestIdOf(event), allow });
}

function refusePath(event: H3Event): Response {
  const error = new ServiceError(
    "not_found",
    "There is nothing at this path. GET /openapi.json lists all paths.",
  );
  return errorAnswer(error, { "x-request-id": requestIdOf(event) });
}
