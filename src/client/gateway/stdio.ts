import {
  TransportError,
  type GatewayTransport,
  type TransportLink,
  type TransportSink,
} from "./transport.ts";

export interface StdioTransportOptions {
  /** What the gateway writes, such as a ReadableStream. */
  readonly readable: AsyncIterable<Uint8Array>;
  /** What the gateway reads: a stream of the web, or of Node. */
  readonly writable: WritableStream<Uint8Array> | NodeWritable;
}

/** As much of a writable stream of Node as is needed. */
export interface NodeWritable {
  write(text: string): unknown;
  end(): unknown;
  on?(event: "error", listener: () => void): unknown;
}

/** Most characters of one frame: beyond it something else than a gateway must be speaking. */
const MAX_FRAME = 64_000_000;

/** A gateway at the other end of two pipes. They are good for one connection. */
export function stdioTransport({ readable, writable }: StdioTransportOptions): GatewayTransport {
  let isUsed = false;
  return {
    async open(sink) {
      if (isUsed) throw new TransportError("The pipes have ended.", { retryable: false });
      isUsed = true;
      void readFrames(readable, sink).then((cause) => {
        sink.cut(new TransportError("The pipe has ended.", { cause }));
      });
      return writerOf(writable);
    },
  };
}

/** Hands the frames on, a line each. Resolves when there are no more, to what went wrong, if anything did. Never rejects. */
export async function readFrames(
  readable: AsyncIterable<Uint8Array>,
  { frame }: Pick<TransportSink, "frame">,
): Promise<unknown> {
  const decoder = new TextDecoder();
  let line = "";
  try {
    for await (const bytes of readable) {
      for (const [at, text] of decoder.decode(bytes, { stream: true }).split("\n").entries()) {
        if (at > 0) {
          if (line.trim()) frame(line);
          line = "";
        }
        line += text;
      }
      if (line.length > MAX_FRAME) throw new Error("The line is too long.");
    }
  } catch (error) {
    return error;
  }
}

/** Writes a line for each frame. That nobody reads any more shows where it is read. */
export function writerOf(writable: StdioTransportOptions["writable"]): TransportLink {
  const ignore = () => {};
  if (!("getWriter" in writable)) {
    // Else its error would be one that nobody handles.
    writable.on?.("error", ignore);
    return { send: (text) => void writable.write(`${text}\n`), close: () => void writable.end() };
  }
  const writer = writable.getWriter();
  const encoder = new TextEncoder();
  return {
    send: (text) => void writer.write(encoder.encode(`${text}\n`)).catch(ignore),
    close: () => void writer.close().catch(ignore),
  };
}
