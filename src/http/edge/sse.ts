import type { SseMessage, SseMeta } from "../../../generated/http/contract.gen.ts";
import type { Clock } from "../../base/clock.ts";
import type { ReaderBudget, ReaderQueue } from "../../store/journal/reader-budget.ts";

export interface SseOptions {
  /** How the stream ends, according to the spec. */
  readonly meta: SseMeta | undefined;
  readonly clock: Clock;
  readonly keepaliveMs: number;
  /** How long the stream may stay full because its client does not read, before it is cut. */
  readonly slowReaderMs: number;
  /** Called when the client leaves before the end. */
  readonly onClientGone: () => void;
  /** Checks each event before it is sent. Throws to end the stream. */
  readonly inspect?: (data: unknown) => void;
  /** Called once when the stream ends, with the error that ended it. */
  readonly onEnd?: (error?: unknown) => void;
  /** The budget of bytes that wait for all readers together. */
  readonly readers: ReaderBudget;
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
  #isOver = false;

  constructor(source: AsyncIterable<SseMessage<unknown>>, options: SseOptions) {
    this.#iterator = source[Symbol.asyncIterator]();
    this.#options = options;
    this.#queue = options.readers.open(() => this.#cutSlowReader());
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
          // The first bytes flush the headers, so that the client knows at once that it is connected.
          controller.enqueue(encoder.encode(": connected\n\n"));
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
      else this.#cutSlowReader();
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

  #cutSlowReader(): void {
    if (this.#isOver) return;
    const error = new Error("The client does not read.");
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
