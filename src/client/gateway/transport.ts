/** Opens connections to a gateway, one after the other. */
export interface GatewayTransport {
  /**
   * Opens a connection. MUST pass each frame to `sink.frame` in order, as text without a line break, and MUST call
   * `sink.cut` once when the connection ends, regardless of which side ended it, and nothing after that. MAY reject instead when nothing
   * was opened, with a TransportError that is not `retryable` when a retry cannot succeed. `signal` aborts when the
   * connection is no longer wanted before this resolves.
   */
  open(sink: TransportSink, signal: AbortSignal): Promise<TransportLink>;
}

export interface TransportSink {
  frame(text: string): void;
  cut(error: TransportError): void;
}

export interface TransportLink {
  /** Sends one JSON value. MUST NOT throw when the connection has ended. */
  send(text: string): void;
  /** Closes the connection; `sink.cut` is called when it has ended. */
  close(): void;
}

/** Why a connection ended or could not be opened. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  /** False when a retry cannot succeed, because the key is wrong or the pipe is gone. */
  readonly retryable: boolean;

  constructor(
    message: string,
    { retryable = true, cause }: { readonly retryable?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.retryable = retryable;
  }
}

export interface WebSocketTransportOptions {
  /** `http:`, `https:`, `ws:` or `wss:`. Without a path: `/api/ws`. */
  readonly url: string | URL;
  /** An API key, sent in the query because web sockets cannot send headers. Use tickets where that is too exposed. */
  readonly token?: string;
  /**
   * Returns a ticket for each connection, which your server requests with `POST /api/auth/ws-ticket`. MAY reject with a
   * TransportError that is not `retryable` when a retry cannot succeed.
   */
  readonly ticket?: () => Promise<string>;
  /** Replaces the runtime's WebSocket. */
  readonly WebSocket?: typeof WebSocket;
}

/** Creates a transport to a gateway at a URL. */
export function webSocketTransport(options: WebSocketTransportOptions): GatewayTransport {
  const { token, ticket, WebSocket: Socket = WebSocket } = options;
  return {
    async open(sink, signal) {
      const url = new URL(options.url);
      url.protocol = url.protocol.replace("http", "ws");
      if (url.pathname === "/") url.pathname = "/api/ws";
      const name = url.host + url.pathname;
      const secret = ticket ? await ticket() : token;
      if (secret) url.searchParams.set(ticket ? "ticket" : "token", secret);
      const socket = new Socket(url);
      const opened = Promise.withResolvers<TransportLink>();
      const close = () => socket.close();
      signal.addEventListener("abort", close);
      socket.onopen = () => opened.resolve({ send: (text) => socket.send(text), close });
      socket.onmessage = ({ data }) => sink.frame(data as string);
      socket.onclose = ({ code, reason }) => {
        // The gateway uses these codes for an invalid key.
        const retryable = code !== 4401 && code !== 4403;
        // 1006 is any end without a closing handshake, also a refusal: RFC 6455, section 7.4.1.
        const why = code === 1006 ? "is unreachable." : `closed: ${code} ${reason}`;
        const error = new TransportError(`${name} ${why}`, { retryable });
        opened.reject(error);
        sink.cut(error);
      };
      return opened.promise;
    },
  };
}

export interface SpawnTransportOptions {
  /** The program, such as `agentd`. */
  readonly command: string;
  /** Default: `["rpc"]`. */
  readonly args?: readonly string[];
  /** The whole environment of the child process; default: that of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /**
   * Receives each line of the process's standard error. The last line is also part of the error when the process ends.
   */
  readonly onStderr?: (line: string) => void;
}

/** Time for the process to exit after its input is closed. */
const END_MS = 8_000;

/** Creates a transport that starts a child process per connection and restarts one that died. */
export function spawnTransport(options: SpawnTransportOptions): GatewayTransport {
  const { command, args = ["rpc"], env, cwd, onStderr } = options;
  return {
    async open(sink) {
      // Not imported, so that browser bundlers have nothing to resolve.
      const machine = globalThis.process?.getBuiltinModule?.("child_process");
      if (!machine) throw new TransportError("No processes here.", { retryable: false });
      const child = machine.spawn(command, [...args], { cwd, env });
      const ended = Promise.withResolvers<TransportError>();
      const link = writerOf(child.stdin);
      let last = "";
      let timer: ReturnType<typeof setTimeout>;
      child.on("error", (cause) => {
        ended.resolve(new TransportError(`Cannot start ${command}.`, { retryable: false, cause }));
      });
      child.on("close", (code, signal) => {
        clearTimeout(timer);
        ended.resolve(new TransportError(`${command} ended with ${signal ?? code}. ${last}`));
      });
      const frame = (line: string) => {
        last = line.slice(0, 500);
        onStderr?.(line);
      };
      void readFrames(child.stderr, { frame });
      void readFrames(child.stdout, sink).then(async (error) => {
        if (error) child.kill();
        sink.cut(await ended.promise);
      });
      return {
        ...link,
        close() {
          link.close();
          clearTimeout(timer);
          // A process that has exited needs no timer.
          if (child.exitCode === null && child.signalCode === null)
            timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
        },
      };
    },
  };
}

export interface StdioTransportOptions {
  /** The gateway's output, such as a ReadableStream. */
  readonly readable: AsyncIterable<Uint8Array>;
  /** The gateway's input: a web stream or a Node stream. */
  readonly writable: WritableStream<Uint8Array> | NodeWritable;
}

/** The used part of a writable Node stream. */
interface NodeWritable {
  write(text: string): unknown;
  end(): unknown;
  on?(event: "error", listener: () => void): unknown;
}

/** Most characters of one frame; a longer one does not come from a gateway. */
const MAX_FRAME = 64_000_000;

/** Creates a transport over two pipes, which last for one connection. */
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

/** Passes on one frame per line. Resolves at the end of the stream, to the error if there was one. Never rejects. */
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

/** Creates a link that writes one line per frame. Write errors are ignored: the reading side reports the cut. */
function writerOf(writable: StdioTransportOptions["writable"]): TransportLink {
  const ignore = () => {};
  if (!("getWriter" in writable)) {
    // Otherwise its error would be unhandled.
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
