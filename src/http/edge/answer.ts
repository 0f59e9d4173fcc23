import { FastResponse } from "srvx";
import type { ErrorCode, ErrorEnvelope } from "../../../generated/http/client/types.gen.ts";
import { toServiceError, type ServiceError } from "../../base/errors.ts";
import type { Clock } from "../../base/clock.ts";
import type { ReaderBudget } from "../../store/journal/reader-budget.ts";

export type Headers = Readonly<Record<string, string | undefined>>;

/**
 * Returns a JSON answer. With `readers`, a long body counts until its client has read it. `FastResponse` avoids a
 * web Response on Node, which would double the cost of a small answer.
 */
export function jsonAnswer(
  status: number,
  body: unknown,
  headers: Headers,
  readers?: LongBodyOptions,
): Response {
  const text = JSON.stringify(body);
  const about = { "content-type": "application/json", ...present(headers) };
  if (!readers || text.length < LONG_BODY_BYTES) return new FastResponse(text, { status, headers: about });
  const bytes = new TextEncoder().encode(text);
  const length = { "content-length": String(bytes.length) };
  return new FastResponse(longBody(bytes, readers), { status, headers: { ...about, ...length } });
}

/** Returns an answer that is neither JSON nor a stream. */
export function rawAnswer(status: number, body: BodyInit | null, headers: Headers): Response {
  return new FastResponse(body, { status, headers: present(headers) });
}

/** Returns a stream of server-sent events. The headers stop proxies from buffering or changing it. */
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

/** Returns the answer for any error: the envelope, and the headers about retries. */
export function errorAnswer(thrown: unknown, headers: Headers): Response {
  const error = toServiceError(thrown);
  return jsonAnswer(error.row.http, errorEnvelope(error), {
    ...headers,
    ...errorHeaders(error),
    // The rest of a body that came too late must not be read as the next request.
    connection: error.row.http === 408 ? "close" : undefined,
  });
}

/** Returns the headers that an error adds to its answer. */
export function errorHeaders(error: ServiceError): Headers {
  return { ...retryHeaders(error), ...(error.row.http === 401 ? { "www-authenticate": "Bearer" } : {}) };
}

/**
 * Returns the headers that say whether and when to retry. Many clients retry 409 and 429 on their own, so an error
 * that would only repeat says `x-should-retry: false`.
 */
export function retryHeaders({ row, retryAfterSeconds }: ServiceError): Headers {
  const isBusy = row.http === 429 || row.http === 503;
  const seconds = retryAfterSeconds ?? (isBusy ? BUSY_SECONDS : undefined);
  const isFinal = row.http === 409 || (isBusy && !row.retryable);
  return {
    ...(seconds === undefined ? {} : { "retry-after": String(Math.ceil(seconds)) }),
    ...(isFinal ? { "x-should-retry": "false" } : {}),
  };
}

/** The default of `Retry-After`. */
const BUSY_SECONDS = 1;

export function errorEnvelope(error: ServiceError): ErrorEnvelope {
  const { message, code, param = null, details } = error;
  return {
    error: {
      message,
      type: error.row.type,
      param,
      // The code generator compares the enum of the spec with the error table.
      code: (error.row.wire ?? code) as ErrorCode,
      ...(details ? { details: { ...details } } : {}),
    },
  };
}

function present(headers: Headers): Record<string, string> {
  const set: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) set[name] = value;
  return set;
}

export interface LongBodyOptions {
  readonly readers: ReaderBudget;
  readonly clock: Clock;
  /** How long a client may read nothing before its connection is cut. */
  readonly slowReaderMs: number;
}

/** The size from which a body counts until its client has read it. */
export const LONG_BODY_BYTES = 65_536;
const PIECE_BYTES = 65_536;

/**
 * Returns a body that is sent piece by piece as the client reads. It is cut when too much waits for all clients
 * together.
 */
export function longBody(bytes: Uint8Array, options: LongBodyOptions): ReadableStream<Uint8Array> {
  let rest = bytes;
  let cancelStalled = () => {};
  let cut = () => {};
  const queue = options.readers.open(() => cut());
  const end = () => {
    rest = rest.subarray(rest.length);
    cancelStalled();
    queue.close();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        cut = () => {
          end();
          controller.error(new Error("The client does not read."));
        };
        queue.set(rest.length);
      },
      pull(controller) {
        cancelStalled();
        controller.enqueue(rest.subarray(0, PIECE_BYTES));
        rest = rest.subarray(PIECE_BYTES);
        queue.set(rest.length);
        if (rest.length > 0) {
          cancelStalled = options.clock.after(options.slowReaderMs, cut);
          return;
        }
        end();
        controller.close();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}
