import { FastResponse } from "srvx";
import type { ErrorCode, ErrorEnvelope } from "../../../generated/http/client/types.gen.ts";
import { toServiceError, type ServiceError } from "../../base/errors.ts";
import type { KeyValidity } from "../../base/net/request.ts";
import type { Clock } from "../../base/time.ts";
import type { ReaderBudget, ReaderQueue } from "../../store/journal/reader-budget.ts";
import type { SseMessage, SseMeta } from "../../../generated/http/contract.gen.ts";

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
export function rawAnswer(status: number, body: string | null, headers: Headers): Response {
  return new FastResponse(body, { status, headers: present(headers) });
}

/**
 * Returns an answer whose body is made while the client reads it: the next piece only when the last one is sent. It is
 * cut when the client does not read, when its key ends, and when the source fails.
 */
export function rawStreamAnswer(
  status: number,
  source: AsyncIterable<string | Uint8Array>,
  headers: Headers,
  options: RawStreamOptions,
): Response {
  return new FastResponse(rawStream(source, options), { status, headers: present(headers) });
}

export interface RawStreamOptions extends LongBodyOptions {
  readonly validity?: KeyValidity;
  readonly onFailure: (error: unknown) => void;
}

function rawStream(
  source: AsyncIterable<string | Uint8Array>,
  options: RawStreamOptions,
): ReadableStream<Uint8Array> {
  const pieces = source[Symbol.asyncIterator]();
  let cancelStalled = () => {};
  let fail = (_reason: string) => {};
  const queue = options.readers.open(() => fail("The client does not read."));
  const forgetKey = options.validity?.onEnd(() => fail("The API key is no longer valid."));
  const end = () => {
    cancelStalled();
    queue.close();
    forgetKey?.();
  };
  const stop = () => {
    end();
    void Promise.resolve(pieces.return?.()).catch(options.onFailure);
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        fail = (reason) => {
          stop();
          controller.error(new Error(reason));
        };
      },
      async pull(controller) {
        cancelStalled();
        try {
          const { done, value } = await pieces.next();
          if (done) {
            end();
            return controller.close();
          }
          const bytes = typeof value === "string" ? encoder.encode(value) : value;
          queue.set(bytes.length);
          controller.enqueue(bytes);
          cancelStalled = options.clock.after(options.slowReaderMs, () => fail("The client does not read."));
        } catch (error) {
          end();
          options.onFailure(error);
          controller.error(error);
        }
      },
      cancel: stop,
    },
    { highWaterMark: 0 },
  );
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

/**
 * Returns the answer for any error: the envelope, and the headers about retries. `noParam` is the `param` of an error
 * about no field.
 */
export function errorAnswer(
  thrown: unknown,
  headers: Headers,
  { noParam = null }: { readonly noParam?: "" | null } = {},
): Response {
  const error = toServiceError(thrown);
  return jsonAnswer(error.row.http, errorEnvelope(error, noParam), {
    ...headers,
    ...errorHeaders(error),
    // The rest of a body that came too late must not be read as the next request.
    connection: error.row.http === 408 ? "close" : undefined,
  });
}

/** Returns the headers that an error adds to its answer. */
export function errorHeaders(error: ServiceError): Headers {
  return {
    ...retryHeaders(error),
    ...(error.row.http === 401 ? { "www-authenticate": "Bearer" } : {}),
    // RFC 9110, 15.5.16: distinguishes an unsupported content encoding from an unsupported media type.
    ...(error.param === CONTENT_ENCODING ? { "accept-encoding": "identity" } : {}),
  };
}

/** `param` of errors about the encoding of a body. */
export const CONTENT_ENCODING = "Content-Encoding";

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

export function errorEnvelope(error: ServiceError, noParam: "" | null = null): ErrorEnvelope {
  const { message, code, param = noParam, details } = error;
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
const LONG_BODY_BYTES = 65_536;
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

export interface SseOptions {
  /** How the stream ends, according to the spec. */
  readonly meta: SseMeta | undefined;
  readonly clock: Clock;
  readonly keepaliveMs: number;
  /** How long the stream may stay full because its client does not read, before it is cut. */
  readonly slowReaderMs: number;
  /** Whether a comment comes at once, because the first event may be long in coming. Some clients take it for data. */
  readonly greets: boolean;
  /** Called when the client leaves before the end. */
  readonly onClientGone: () => void;
  /** Checks each event before it is sent. Throws to end the stream. */
  readonly inspect?: (data: unknown) => void;
  /** Called once when the stream ends, with the error that ended it. */
  readonly onEnd?: (error?: unknown) => void;
  /** The budget of bytes that wait for all readers together. */
  readonly readers: ReaderBudget;
  /** Of the caller's key: the stream is cut when it ends. */
  readonly validity?: KeyValidity;
  /** Called when the source fails. The stream can then only be cut. */
  readonly onFailure: (error: unknown) => void;
}

const encoder = new TextEncoder();

/** An event for several streams, encoded once. */
export class SharedMessage<T> implements SseMessage<T> {
  readonly data: T;
  readonly event: string;
  readonly id: string;
  #bytes: Uint8Array | undefined;

  constructor(data: T, event: string, id: string) {
    this.data = data;
    this.event = event;
    this.id = id;
  }

  /** The encoded event. Do not change these bytes. */
  get bytes(): Uint8Array {
    return (this.#bytes ??= encoder.encode(encodeSse(this)));
  }
}

/**
 * Returns server-sent events (WHATWG HTML, 9.2) from a source that is pulled. It asks for the next event when the
 * client has space, so a slow reader slows only its own source, and nothing piles up here. Each event is one chunk,
 * because some clients lose an event that is split in two.
 */
export function sseStream(
  source: AsyncIterable<SseMessage<unknown>>,
  options: SseOptions,
): ReadableStream<Uint8Array> {
  return new EventStream(source, options).readable;
}

/** Bytes that may wait in the stream, ahead of the socket's own buffer. One event may exceed them. */
const HIGH_WATER_BYTES = 16_384;

class EventStream {
  readonly readable: ReadableStream<Uint8Array>;
  readonly #iterator: AsyncIterator<SseMessage<unknown>>;
  readonly #options: SseOptions;
  readonly #queue: ReaderQueue;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #cancelKeepalive = () => {};
  #cancelStalled = () => {};
  readonly #forgetKey: (() => void) | undefined;
  #isOver = false;

  constructor(source: AsyncIterable<SseMessage<unknown>>, options: SseOptions) {
    this.#iterator = source[Symbol.asyncIterator]();
    this.#options = options;
    this.#queue = options.readers.open(() => this.#cutOff("The client does not read."));
    this.#forgetKey = options.validity?.onEnd(() => this.#cutOff("The API key is no longer valid."));
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
          // The first bytes flush the headers, so that the client knows that it is connected.
          if (options.greets) controller.enqueue(encoder.encode(": connected\n\n"));
          this.#keepAlive(controller);
        },
        pull: (controller) => this.#pull(controller),
        cancel: () => {
          this.#cut();
          options.onClientGone();
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: HIGH_WATER_BYTES }),
    );
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#cancelStalled();
    this.#count(controller);
    if (this.#isOver) return;
    try {
      const { done, value } = await this.#iterator.next();
      if (this.#isOver) return;
      if (done) return this.#close(controller);
      this.#options.inspect?.(value.data);
      controller.enqueue(value instanceof SharedMessage ? value.bytes : encoder.encode(encodeSse(value)));
      this.#count(controller);
    } catch (error) {
      if (this.#isOver) return;
      this.#cut(error);
      this.#options.onFailure(error);
      controller.error(error);
    }
  }

  /** Updates the budget. A full stream is not pulled: only its client can empty it. */
  #count(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const free = controller.desiredSize ?? 0;
    this.#queue.set(HIGH_WATER_BYTES - free);
    if (free <= 0 && !this.#isOver) this.#watch(controller, free);
  }

  #watch(controller: ReadableStreamDefaultController<Uint8Array>, free: number): void {
    this.#cancelStalled = this.#options.clock.after(this.#options.slowReaderMs, () => {
      const now = controller.desiredSize ?? 0;
      // The client read some bytes, but not enough to make space.
      if (now > free) this.#watch(controller, now);
      else this.#cutOff("The client does not read.");
    });
  }

  #close(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#end();
    controller.enqueue(encoder.encode(closing(this.#options.meta)));
    controller.close();
  }

  #keepAlive(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#cancelKeepalive = this.#options.clock.after(this.#options.keepaliveMs, () => {
      // Waiting bytes keep the connection alive when they are read.
      if (controller.desiredSize === HIGH_WATER_BYTES) controller.enqueue(encoder.encode(": keepalive\n\n"));
      this.#keepAlive(controller);
    });
  }

  #cutOff(reason: string): void {
    if (this.#isOver) return;
    const error = new Error(reason);
    this.#cut(error);
    this.#options.onClientGone();
    this.#controller?.error(error);
  }

  /**
   * Ends before the source does. Otherwise a generator that is suspended at a yield would keep its resources
   * forever.
   */
  #cut(error?: unknown): void {
    this.#end(error);
    void Promise.resolve(this.#iterator.return?.()).catch(this.#options.onFailure);
  }

  #end(error?: unknown): void {
    if (!this.#isOver) this.#options.onEnd?.(error);
    this.#isOver = true;
    this.#forgetKey?.();
    this.#cancelKeepalive();
    this.#cancelStalled();
    this.#queue.close();
  }
}

/** Returns one event as text. JSON has no raw line breaks, so one data line is enough. */
export function encodeSse({ data, event, id }: SseMessage<unknown>): string {
  let text = "";
  if (event !== undefined) text += `event: ${event}\n`;
  if (id !== undefined) text += `id: ${id}\n`;
  return `${text}data: ${JSON.stringify(data)}\n\n`;
}

function closing(meta: SseMeta | undefined): string {
  return meta === undefined || meta.terminator === "close"
    ? ": stream closed\n\n"
    : `data: ${meta.terminator}\n\n`;
}

/** When a request that waits is answered at the latest. */
export interface WaitEnd {
  readonly waitMs: number;
  readonly client: AbortSignal;
}

/** Runs `work` with a signal that aborts at the timeout, or when the client disconnects. */
export async function whileWaiting(
  clock: Clock,
  { waitMs, client }: WaitEnd,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const enough = new AbortController();
  const stop = () => enough.abort();
  // Keeps the process alive: a command that serves its own request has no connection that would.
  clock.sleep(waitMs, { signal: enough.signal }).then(stop, () => {});
  client.addEventListener("abort", stop, { once: true });
  try {
    await work(enough.signal);
  } finally {
    stop();
    client.removeEventListener("abort", stop);
  }
}
