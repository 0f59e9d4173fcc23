/** The connection to the client as a stream of messages: one a line, and nothing lost at its end. */
import { ndJsonStream, type AnyMessage, type Stream } from "@agentclientprotocol/sdk/unstable";
import type { Clock } from "../base/clock.ts";

export interface WireOptions {
  readonly input: ReadableStream<Uint8Array>;
  readonly output: WritableStream<Uint8Array>;
  readonly maxLineBytes: number;
  readonly clock: Clock;
  /** The client will send no more: what runs is to end, so that open requests are answered. */
  readonly onEnd: () => void;
}

export interface Wire {
  readonly stream: Stream;
  /** Runs `after` once the answer to a request is on its way; never when the connection ends first. */
  afterAnswer(id: string | number | null, after: () => void): void;
}

/** How long answers get to leave when the client has closed its end. */
const DRAIN_MS = 2_000;

/**
 * The SDK closes at the end of the input, which loses the answers to what was just read; this one first waits for them.
 */
export function createWire({ input, output, maxLineBytes, clock, onEnd }: WireOptions): Wire {
  const inner = ndJsonStream(escaped(output), input, { maxMessageBytes: maxLineBytes });
  const open = new Set<string | number | null>();
  const hooks = new Map<string | number | null, (() => void)[]>();
  let settled: (() => void) | undefined;

  const readable = inner.readable.pipeThrough(
    new TransformStream<AnyMessage, AnyMessage>({
      transform(message, controller) {
        if ("method" in message && "id" in message) open.add(message.id);
        controller.enqueue(message);
      },
      async flush() {
        onEnd();
        if (open.size === 0) return;
        const answered = new Promise<void>((resolve) => (settled = resolve));
        const cancel = clock.after(DRAIN_MS, () => settled?.());
        await answered;
        cancel();
      },
    }),
  );
  const writer = inner.writable.getWriter();
  const writable = new WritableStream<AnyMessage>({
    async write(message) {
      await writer.write(message);
      if ("method" in message || !("id" in message)) return;
      open.delete(message.id);
      for (const run of hooks.get(message.id) ?? []) run();
      hooks.delete(message.id);
      if (open.size === 0) settled?.();
    },
    close: () => writer.close(),
    abort: (reason) => writer.abort(reason),
  });
  return {
    stream: { readable, writable },
    afterAnswer: (id, after) => void hooks.set(id, [...(hooks.get(id) ?? []), after]),
  };
}

/** JSON may hold two characters that some readers take for the end of a line. */
function escaped(output: WritableStream<Uint8Array>): WritableStream<Uint8Array> {
  const writer = output.getWriter();
  return new WritableStream<Uint8Array>({
    write: (chunk) => writer.write(escapeSeparators(chunk)),
    close: () => writer.close(),
    abort: (reason) => writer.abort(reason),
  });
}

const SEPARATOR_START = 0xe2;

function escapeSeparators(chunk: Uint8Array): Uint8Array {
  if (!chunk.includes(SEPARATOR_START)) return chunk;
  const text = new TextDecoder().decode(chunk);
  return new TextEncoder().encode(text.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029"));
}
