import { H3, type H3Event, type HTTPError } from "h3";
import { FastResponse } from "srvx";
import { toServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import type { LogFields } from "../../base/observe/log.ts";
import { readBody } from "../../base/net/read-body.ts";
import { refuse, type WebhookAnswer } from "./answer.ts";
import { outcomeOf } from "../metrics.ts";
import { receive } from "./receive.ts";
import { ReceiverLog } from "../deliveries/receiver-log.ts";
import type { WebhookDeps } from "../deps.ts";

/** The receiver as an h3 app: the operations of specs/webhook.openapi.yaml. */
export function createWebhookApp(deps: WebhookDeps): H3 {
  const log = new ReceiverLog(deps);
  const answer = (event: H3Event, given: WebhookAnswer): Response => {
    if ("code" in given.body) log.refused(() => told(event, given));
    return respond(event, given);
  };
  const app = new H3({
    silent: true,
    onError: (error, event) => answer(event, outsideAnswer(deps, event, error)),
  });
  app.on("", "/health", (event) => (isRead(event) ? healthy(event) : answer(event, notAllowed("GET, HEAD"))));
  app.on("", "/webhooks/:route", async (event) => {
    if (event.req.method !== "POST") return answer(event, notAllowed("POST"));
    const startMs = performance.now();
    const given = await take(deps, event, log);
    deps.metrics?.answered(outcomeOf(given), (performance.now() - startMs) / 1000);
    return answer(event, given);
  });
  app.on("", "/**", (event) => answer(event, elsewhere(event)));
  return app;
}

/** From the name of the route to the body; what follows is the pipeline's. */
async function take(deps: WebhookDeps, event: H3Event, log: ReceiverLog): Promise<WebhookAnswer> {
  const name = event.context.params?.["route"] ?? "";
  if (deps.runs.draining) return refuse("draining", { retryAfterSeconds: 1 });
  try {
    const route = await deps.routes.find(name);
    if (!route) return unknownRoute(name);
    if (!route.isEnabled) return refuse("route_disabled", { route: route.name });
    const body = await readBody(event, {
      maxBytes: deps.maxBodyBytes,
      timeoutMs: deps.bodyTimeoutMs,
      clock: deps.clock,
    });
    const arrived = { route, headers: event.req.headers, body, requestId: requestIdOf(event) };
    return await receive(deps, arrived, log);
  } catch (thrown) {
    return failure(deps, event, thrown);
  }
}

const isRead = ({ req }: H3Event): boolean => req.method === "GET" || req.method === "HEAD";

/** What no operation is at: below the routes, and anywhere else. */
function elsewhere({ url }: H3Event): WebhookAnswer {
  const [, name] = /^\/webhooks\/(.*)$/.exec(url.pathname) ?? [];
  return name === undefined ? refuse("not_found") : unknownRoute(name);
}

const MAX_SHOWN_NAME = 128;

function unknownRoute(name: string): WebhookAnswer {
  return refuse("unknown_route", { route: name.slice(0, MAX_SHOWN_NAME) });
}

function notAllowed(allow: string): WebhookAnswer {
  return { ...refuse("method_not_allowed"), headers: { allow } };
}

function failure(deps: WebhookDeps, event: H3Event, thrown: unknown): WebhookAnswer {
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
      deps.log.error("a webhook could not be received", { request: requestIdOf(event), error: thrown });
      return refuse("internal");
  }
}

/** What went wrong before a request reached its operation: a path that is none, and bugs. */
function outsideAnswer(deps: WebhookDeps, event: H3Event, error: HTTPError): WebhookAnswer {
  return error.status === 400 ? refuse("bad_request") : failure(deps, event, error.cause ?? error);
}

function told(event: H3Event, given: WebhookAnswer): LogFields {
  return {
    request: requestIdOf(event),
    // Without its query, which may hold what is secret.
    path: event.url.pathname.slice(0, MAX_SHOWN_NAME),
    ...("code" in given.body ? { code: given.body.code } : {}),
    ...("why" in given ? { why: given.why } : {}),
  };
}

function healthy(event: H3Event): Response {
  return send(event, 200, { status: "ok", platform: "webhook" });
}

function respond(event: H3Event, { status, body, ...given }: WebhookAnswer): Response {
  const headers = "headers" in given ? given.headers : undefined;
  const shown = "code" in body ? { ...body, request_id: requestIdOf(event) } : body;
  return send(event, status, shown, headers);
}

function send(
  event: H3Event,
  status: number,
  body: object,
  headers?: Readonly<Record<string, string>>,
): Response {
  return new FastResponse(JSON.stringify(body), {
    status,
    headers: {
      "content-type": "application/json",
      "x-request-id": requestIdOf(event),
      // What is left of a body that did not come must not be taken for the next request.
      ...(status === 408 ? { connection: "close" } : {}),
      ...headers,
    },
  });
}

const made = new WeakMap<H3Event, string>();
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** The sender's, where it can be shown in a header again. */
function requestIdOf(event: H3Event): string {
  const given = event.req.headers.get("x-request-id");
  if (given !== null && REQUEST_ID.test(given)) return given;
  const id = made.get(event) ?? createId("req");
  made.set(event, id);
  return id;
}
