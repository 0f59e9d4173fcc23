import type { GatewayTransport } from "./gateway-transport.ts";

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

/** A gateway at the other end of two pipes. They are good for one connection. */
export declare function stdioTransport(options: StdioTransportOptions): GatewayTransport;
