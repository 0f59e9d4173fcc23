import { H3, type H3Event, type HTTPError } from "h3";
import { FastResponse } from "srvx";
import { operations, type OperationId, type Operations } from "../../../generated/webhook/server.gen.ts";
import { toServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import type { LogFields } from "../../base/observe/log.ts";
import { readBody } from "../../base/net/read-body.ts";
import { refuse, type AnswerOf, type Refused, type WebhookAnswer } from "./answer.ts";
import { receive, ReceiverLog } from "./receive.ts";
import type { WebhookDeps } from "../deps.ts";

/** One handler for each operation of the spec: a new operation, path parameter or status is a compile error. */
type Handlers = {
  readonly [K in OperationId]: (event: H3Event, path: PathOf<K>) => AnswerOf<K> | Promise<AnswerOf<K>>;
};

type PathOf<K extends OperationId> = Operations[K]["request"] extends { readonly path: infer Path }
  ? Path
  : undefined;

type Handler = (event: H3Event, path: unknown) => Answer | Promise<Answer>;
type Answer = AnswerOf<OperationId>;

/** Returns the receiver as an h3 app that serves the operations of specs/webhook.openapi.yaml. */
export function createWebhookApp(deps: WebhookDeps): H3 {
  const log = new ReceiverLog(deps);
  const answer = (event: H3Event, given: Answer): Response => {
    if ("code" in given.body) log.refused(() => refusalFields(event, given));
    return respond(event, given);
  };
  const app = new H3({
    silent: true,
    onError: (error, event) => answer(event, outsideAnswer(deps, event, error)),
  });
  const handlers: Handlers = {
    getHealth: () => ({ status: 200, body: { status: "ok", platform: "webhook" } }),
    receiveWebhook: async (event, { route_name: name }) => {
      const startMs = performance.now();
      const given = await receiveAt(deps, { event, name, log });
      const outcome = "code" in given.body ? given.body.code : given.body.status;
      deps.metrics?.answered(outcome, (performance.now() - startMs) / 1000);
      return given;
    },
  };
  for (const [route, methods] of operationsByRoute()) {
    app.on("", route.replace(/\{([^}]+)\}/g, ":$1"), async (event) => {
      const id = methods.get(event.req.method);
      if (id === undefined) return answer(event, notAllowed([...methods.keys()]));
      return answer(event, await (handlers[id] as Handler)(event, event.context.params));
    });
  }
  app.on("", "/**", (event) => answer(event, unknownPath(event)));
  return app;
}

/** Returns the operation of each method of each route. */
function operationsByRoute(): ReadonlyMap<string, ReadonlyMap<string, OperationId>> {
  const routes = new Map<string, Map<string, OperationId>>();
  for (const id of Object.keys(operations) as OperationId[]) {
    const { route, method } = operations[id];
    const methods = routes.get(route) ?? new Map<string, OperationId>();
    for (const name of method === "GET" ? ["GET", "HEAD"] : [method]) methods.set(name, id);
    routes.set(route, methods);
  }
  return routes;
}

/** Finds the route and reads the body; the pipeline does the rest. */
async function receiveAt(
  deps: WebhookDeps,
  { event, name, log }: { readonly event: H3Event; readonly name: string; readonly log: ReceiverLog },
): Promise<WebhookAnswer> {
  if (deps.runs.draining) return refuse("draining", { retryAfterSeconds: 1 });
  try {
    const route = await deps.routes.find(name);
    if (!route) return unknownRoute(name);
    if (!route.isEnabled) return refuse("route_disabled", { route: route.name });
    const body = await readBody(event, {
      maxBytes: deps.maxBodyBytes,
      timeoutMs: deps.bodyTimeoutMs,
      clock: deps.clock,
      settings: { maxBytes: "limits.max_body_bytes", timeoutMs: "limits.body_timeout_seconds" },
    });
    const request = { route, headers: event.req.headers, body, requestId: requestIdOf(event) };
    return await receive(deps, request, log);
  } catch (thrown) {
    return failure(deps, event, thrown);
  }
}

/** Refuses a path without an operation: one below `/webhooks/`, or any other. */
function unknownPath({ url }: H3Event): Refused {
  const [, name] = /^\/webhooks\/(.*)$/.exec(url.pathname) ?? [];
  return name === undefined ? refuse("not_found") : unknownRoute(name);
}

const MAX_SHOWN_NAME = 128;

function unknownRoute(name: string): Refused {
  return refuse("unknown_route", { route: name.slice(0, MAX_SHOWN_NAME) });
}

function notAllowed(methods: readonly string[]): Refused {
  return { ...refuse("method_not_allowed"), headers: { allow: methods.join(", ") } };
}

function failure(deps: WebhookDeps, event: H3Event, thrown: unknown): Refused {
  const error = toServiceError(thrown);
  switch (error.code) {
    case "body_too_large":
      return refuse("body_too_large");
    case "request_timeout":
      return refuse("body_timeout");
    case "invalid_request":
      return refuse("bad_request");
    case "server_draining":
      return refuse("draining", { retryAfterSeconds: 1 });
    case "state_store_unavailable":
    case "too_many_concurrent_runs":
    case "queue_full":
      return { ...refuse("store_unavailable", { retryAfterSeconds: 5 }), why: error.code };
    default:
      deps.log.error("cannot receive a webhook", { request: requestIdOf(event), error: thrown });
      return refuse("internal");
  }
}

/** Answers what fails before a handler is called: malformed paths, and bugs. */
function outsideAnswer(deps: WebhookDeps, event: H3Event, error: HTTPError): Refused {
  return error.status === 400 ? refuse("bad_request") : failure(deps, event, error.cause ?? error);
}

function refusalFields(event: H3Event, given: Answer): LogFields {
  return {
    request: requestIdOf(event),
    // The query may hold secrets.
    path: event.url.pathname.slice(0, MAX_SHOWN_NAME),
    ...("code" in given.body ? { code: given.body.code } : {}),
    ...("why" in given ? { why: given.why } : {}),
  };
}

function respond(event: H3Event, { status, body, headers }: Answer): Response {
  const shown = "code" in body ? { ...body, request_id: requestIdOf(event) } : body;
  return new FastResponse(JSON.stringify(shown), {
    status,
    headers: {
      "content-type": "application/json",
      "x-request-id": requestIdOf(event),
      // The rest of a body that came too late must not pass for the next request.
      ...(status === 408 ? { connection: "close" } : {}),
      ...headers,
    },
  });
}

const createdIds = new WeakMap<H3Event, string>();
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Returns the sender's request id when a header can repeat it, else one of ours. */
function requestIdOf(event: H3Event): string {
  const given = event.req.headers.get("x-request-id");
  if (given !== null && REQUEST_ID.test(given)) return given;
  const id = createdIds.get(event) ?? createId("req");
  createdIds.set(event, id);
  return id;
}
