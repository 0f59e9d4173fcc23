import { FastResponse } from "srvx";
import type { ErrorCode, ErrorEnvelope } from "../../../generated/http/client/types.gen.ts";
import { toServiceError, type ServiceError } from "../../base/errors.ts";
import type { Clock } from "../../base/clock.ts";
import type { ReaderBudget } from "../../store/journal/reader-budget.ts";

export type Headers = Readonly<Record<string, string | undefined>>;

/**
 * A JSON answer; with `readers` a long one counts while its client does not read it. `FastResponse` skips the web
 * Response on Node, which would double the cost of a small answer.
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

/** An answer that is neither JSON nor a stream. */
export function rawAnswer(status: number, body: BodyInit | null, headers: Headers): Response {
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
 * Whether and when a client may try again. Clients that know no better repeat 409 and 429 by themselves, so those that
 * would only fail again say so.
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

/** Where nobody knows better. */
const BUSY_SECONDS = 1;

export function errorEnvelope(error: ServiceError): ErrorEnvelope {
  const { message, code, param = null, details } = error;
  return {
    error: {
      message,
      type: error.row.type,
      param,
      // The code generator holds the enum of the spec to the error table.
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
  /** How long the client may take nothing; then it is cut. */
  readonly slowReaderMs: number;
}

/** From here on a body counts for as long as its client has not read it. */
export const LONG_BODY_BYTES = 65_536;
const PIECE_BYTES = 65_536;

/** Returns a body that leaves piece by piece, as its client reads, and that may be cut when too much waits for all. */
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
