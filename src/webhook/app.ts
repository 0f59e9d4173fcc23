import { H3, type H3Event } from "h3";
import { FastResponse } from "srvx";
import { toServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import { readBody } from "../base/read-body.ts";
import { refuse, type WebhookAnswer } from "./answer.ts";
import { receive } from "./receive.ts";
import type { WebhookRoom } from "./room.ts";

/** The receiver as an h3 app: the operations of specs/webhook.openapi.yaml. */
export function createWebhookApp(room: WebhookRoom): H3 {
  const app = new H3({ silent: true, onError: (error, event) => failed(room, event, error) });
  app.get("/health", (event) => answer(event, { status: 200, body: { status: "ok", platform: "webhook" } }));
  app.all("/health", (event) => answer(event, notAllowed("GET, HEAD")));
  app.post("/webhooks/:route", async (event) => answer(event, await take(room, event)));
  app.all("/webhooks/:route", (event) => answer(event, notAllowed("POST")));
  app.all("/**", (event) => answer(event, refuse("not_found")));
  return app;
}

/** From the name of the route to the body; what follows is the pipeline's. */
async function take(room: WebhookRoom, event: H3Event): Promise<WebhookAnswer> {
  const name = event.context.params?.["route"] ?? "";
  if (room.turns.draining) return refuse("draining", { retryAfterSeconds: 1 });
  const route = await room.routes.find(name);
  if (!route) return refuse("unknown_route", { route: name.slice(0, 128) });
  if (!route.isEnabled) return refuse("route_disabled");
  try {
    const body = await readBody(event, {
      maxBytes: room.maxBodyBytes,
      timeoutMs: room.bodyTimeoutMs,
      clock: room.clock,
    });
    return await receive(room, { route, headers: event.req.headers, body, requestId: requestIdOf(event) });
  } catch (thrown) {
    return fromError(room, event, thrown);
  }
}

function fromError(room: WebhookRoom, event: H3Event, thrown: unknown): WebhookAnswer {
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
      return refuse("store_unavailable", { retryAfterSeconds: 5 });
    default:
      room.log.error("a webhook could not be received", { request: requestIdOf(event), error: thrown });
      return refuse("internal");
  }
}

function failed(room: WebhookRoom, event: H3Event, error: Error & { readonly status?: number }): Response {
  if (error.status === 400) return answer(event, refuse("bad_request"));
  return answer(event, fromError(room, event, error.cause ?? error));
}

function notAllowed(allow: string): WebhookAnswer {
  return { ...refuse("method_not_allowed"), headers: { allow } };
}

type Health = {
  readonly status: 200;
  readonly body: { readonly status: "ok"; readonly platform: "webhook" };
};

function answer(event: H3Event, given: WebhookAnswer | Health): Response {
  const requestId = requestIdOf(event);
  const { status, body } = given;
  const headers = "headers" in given ? given.headers : {};
  return new FastResponse(JSON.stringify("code" in body ? { ...body, request_id: requestId } : body), {
    status,
    headers: {
      "content-type": "application/json",
      "x-request-id": requestId,
      // What is left of a body that did not come must not be taken for the next request.
      ...(status === 408 ? { connection: "close" } : {}),
      ...headers,
    },
  });
}

const ids = new WeakMap<H3Event, string>();

function requestIdOf(event: H3Event): string {
  const given = event.req.headers.get("x-request-id");
  if (given !== null && /^[\x21-\x7e]{1,128}$/.test(given)) return given;
  const made = ids.get(event) ?? createId("req");
  ids.set(event, made);
  return made;
}
