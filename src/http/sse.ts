import type { SseMessage, SseMeta } from "../../generated/http/contract.gen.ts";
import type { Clock } from "../base/clock.ts";

export interface SseOptions {
  /** How the spec says that the stream ends. */
  readonly meta: SseMeta | undefined;
  readonly clock: Clock;
  readonly keepaliveMs: number;
  /** How long the stream may stand still, full, because its client does not read; then it is cut. */
  readonly slowReaderMs: number;
  /** Called when the client leaves before the end. */
  readonly onClientGone: () => void;
  /** Looks at each event before it is sent; throws to end the stream. */
  readonly inspect?: (data: unknown) => void;
  /** Called once when the stream is over, with what failed it. */
  readonly onEnd?: (error?: unknown) => void;
  /** Told when the source fails: the stream can then only be cut. */
  readonly onFailure: (error: unknown) => void;
}

const encoder = new TextEncoder();

/** An event that several streams send: it is made into bytes once. */
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

  /** Nobody may change them. */
  get bytes(): Uint8Array {
    return (this.#bytes ??= encoder.encode(encodeSse(this)));
  }
}

/**
 * Server-sent events (WHATWG HTML, 9.2) from a source that is pulled: the next event is asked for when the client has
 * room, so a slow reader slows only its own source, which reads on from the journal, and nothing piles up here.
 * Each event is one chunk: some clients lose an event that is split over two.
 */
export function sseStream(
  source: AsyncIterable<SseMessage<unknown>>,
  options: SseOptions,
): ReadableStream<Uint8Array> {
  const iterator = source[Symbol.asyncIterator]();
  const { clock } = options;
  let cancelKeepalive = () => {};
  let cancelStalled = () => {};
  let over = false;
  const end = (error?: unknown) => {
    if (!over) options.onEnd?.(error);
    over = true;
    cancelKeepalive();
    cancelStalled();
  };
  const keepAlive = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    cancelKeepalive = clock.after(options.keepaliveMs, () => {
      if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(": keepalive\n\n"));
      keepAlive(controller);
    });
  };
  /** Ends before the source did: a generator that rests at a yield would keep what it holds for ever. */
  const cut = (error?: unknown) => {
    end(error);
    void Promise.resolve(iterator.return?.()).catch(options.onFailure);
  };
  const giveUp = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    const error = new Error("The client does not read.");
    cut(error);
    options.onClientGone();
    controller.error(error);
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // The headers leave with the first bytes, so that the client knows at once that it is connected.
        controller.enqueue(encoder.encode(": connected\n\n"));
        keepAlive(controller);
      },
      async pull(controller) {
        cancelStalled();
        try {
          const { done, value } = await iterator.next();
          if (over) return;
          if (!done) {
            options.inspect?.(value.data);
            controller.enqueue(
              value instanceof SharedMessage ? value.bytes : encoder.encode(encodeSse(value)),
            );
            // Nobody pulls a stream that is full: only its client can go on.
            if ((controller.desiredSize ?? 0) > 0) return;
            cancelStalled = clock.after(options.slowReaderMs, () => giveUp(controller));
            return;
          }
          end();
          controller.enqueue(encoder.encode(closing(options.meta)));
          controller.close();
        } catch (error) {
          if (over) return;
          cut(error);
          options.onFailure(error);
          controller.error(error);
        }
      },
      cancel() {
        cut();
        options.onClientGone();
      },
    },
    { highWaterMark: HIGH_WATER_FRAMES },
  );
}

/** Frames that may wait in the stream itself, ahead of the socket's own buffer. */
const HIGH_WATER_FRAMES = 16;

/** One event as text. Line breaks cannot occur in JSON text, so one data line is enough. */
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
