import {
  TransportError,
  type GatewayTransport,
  type TransportLink,
  type TransportSink,
} from "./gateway-transport.ts";

export interface StdioTransportOptions {
  /** What the gateway writes. */
  readonly readable: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>;
  /** What the gateway reads: a stream of the web, or of Node. */
  readonly writable: WritableStream<Uint8Array> | NodeWritable;
}

/** As much of a writable stream of Node as is needed. */
export interface NodeWritable {
  write(text: string): unknown;
  end(): unknown;
}

/** Most characters of one frame: beyond it something else than a gateway must be speaking. */
const MAX_FRAME = 64_000_000;

/** A gateway at the other end of two pipes. They are good for one connection. */
export function stdioTransport(options: StdioTransportOptions): GatewayTransport {
  let isUsed = false;
  return {
    async open(sink) {
      if (isUsed) throw new TransportError("The pipes to the gateway have ended.", { isFinal: true });
      isUsed = true;
      const link = writerOf(options.writable);
      const ended = readFrames(options.readable, sink);
      void ended.then((cause) =>
        sink.cut(new TransportError("The pipe from the gateway has ended.", { cause })),
      );
      return link;
    },
  };
}

/** Hands the frames on, a line each. Resolves when there are no more, to what went wrong, if anything did. Never rejects. */
export async function readFrames(
  readable: StdioTransportOptions["readable"],
  sink: Pick<TransportSink, "frame">,
): Promise<unknown> {
  const decoder = new TextDecoder();
  let parts: string[] = [];
  let size = 0;
  try {
    for await (const bytes of chunksOf(readable)) {
      const [head = "", ...lines] = decoder.decode(bytes, { stream: true }).split("\n");
      const tail = lines.pop();
      parts.push(head);
      size += head.length;
      if (size > MAX_FRAME) throw new Error("A line is too long for a frame.");
      if (tail === undefined) continue;
      for (const line of [parts.join(""), ...lines]) if (line.trim() !== "") sink.frame(line);
      parts = [tail];
      size = tail.length;
    }
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Streams of the web cannot be iterated everywhere. */
async function* chunksOf(readable: StdioTransportOptions["readable"]): AsyncGenerator<Uint8Array> {
  if (!("getReader" in readable)) return yield* readable;
  const reader = readable.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

/** Writes a line for each frame. That nobody reads any more shows where it is read. */
export function writerOf(writable: StdioTransportOptions["writable"]): TransportLink {
  if (!("getWriter" in writable)) {
    return { send: (text) => void writable.write(`${text}\n`), close: () => void writable.end() };
  }
  const writer = writable.getWriter();
  const encoder = new TextEncoder();
  const ignore = () => {};
  return {
    send: (text) => void writer.write(encoder.encode(`${text}\n`)).catch(ignore),
    close: () => void writer.close().catch(ignore),
  };
}
