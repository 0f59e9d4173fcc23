import { FastResponse } from "srvx";
import type { ErrorEnvelope } from "../../generated/http/client/types.gen.ts";
import { toServiceError, type ServiceError } from "../base/errors.ts";

export type Headers = Readonly<Record<string, string | undefined>>;

/** A JSON answer. `FastResponse` skips the web Response on Node, which would double the cost of a small answer. */
export function jsonAnswer(status: number, body: unknown, headers: Headers): Response {
  return new FastResponse(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", ...present(headers) },
  });
}

/** An answer that is neither JSON nor a stream. */
export function rawAnswer(status: number, body: BodyInit, headers: Headers): Response {
  return new FastResponse(body, { status, headers: present(headers) });
}

/** A stream of server-sent events; proxies must neither buffer nor change it. */
export function streamAnswer(status: number, stream: ReadableStream<Uint8Array>, headers: Headers): Response {
  return new FastResponse(stream, {
    status,
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
      ...present(headers),
    },
  });
}

/** Any error as its answer: the envelope, and the headers that tell clients whether and when to try again. */
export function errorAnswer(thrown: unknown, headers: Headers): Response {
  const error = toServiceError(thrown);
  const retryAfter =
    error.retryAfterSeconds === undefined ? undefined : String(Math.ceil(error.retryAfterSeconds));
  return jsonAnswer(error.row.http, errorEnvelope(error), {
    ...headers,
    "retry-after": retryAfter,
    "x-should-retry": error.row.http === 409 ? "false" : headers["x-should-retry"],
    "www-authenticate": error.row.http === 401 ? "Bearer" : undefined,
    // What is left of an unread body must not be taken for the next request.
    connection: error.row.http === 413 || error.row.http === 408 ? "close" : undefined,
  });
}

export function errorEnvelope(error: ServiceError): ErrorEnvelope {
  const { message, code, param = null, details } = error;
  return {
    error: {
      message,
      type: error.row.type,
      param,
      code: error.row.wire ?? code,
      ...(details ? { details: { ...details } } : {}),
    },
  };
}

function present(headers: Headers): Record<string, string> {
  const set: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) set[name] = value;
  return set;
}
