/** How frames come and go. A transport makes one connection after the other; the client asks for the next one. */
export interface GatewayTransport {
  /**
   * Opens a connection. MUST hand each frame to `sink.frame` in order, as text without a line break, and MUST call
   * `sink.cut` once when the connection ends, whoever ended it; nothing after that. MAY reject instead, when nothing was
   * opened; with a TransportError that is not `retryable`, when trying again is of no use. `signal` aborts when the connection
   * is wanted no more before this resolves.
   */
  open(sink: TransportSink, signal: AbortSignal): Promise<TransportLink>;
}

export interface TransportSink {
  frame(text: string): void;
  cut(error: TransportError): void;
}

export interface TransportLink {
  /** One JSON value. MUST NOT throw when the connection has ended. */
  send(text: string): void;
  /** Asks for the end; `sink.cut` says when it has come. */
  close(): void;
}

/** Why a connection ended or did not come about. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  /** False: trying again is of no use, as the key is wrong or the pipe is gone. */
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
  /** An API key. It goes into the query, as sockets of the web send no headers; where that is too open, use tickets. */
  readonly token?: string;
  /**
   * Gets a ticket for each connection: your server asks for it with `POST /api/auth/ws-ticket`. MAY reject with a
   * TransportError that is not `retryable`, when trying again is of no use.
   */
  readonly ticket?: () => Promise<string>;
  /** Another implementation than the runtime's own. */
  readonly WebSocket?: typeof WebSocket;
}

/** A gateway behind a URL. */
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
        // The gateway says with the first two that the key is not good enough.
        const retryable = code !== 4401 && code !== 4403;
        const error = new TransportError(`${name} closed the socket: ${code} ${reason}`, { retryable });
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
  /** The whole environment of the process; default: that of this one. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Gets what the process writes to standard error, a line each. Without it the last line tells why the process ended. */
  readonly onStderr?: (line: string) => void;
}

/** How long the process has to end by itself, once nobody writes to it. */
const END_MS = 8_000;

/** Each connection is a process of its own: one that died is started again. */
export function spawnTransport(options: SpawnTransportOptions): GatewayTransport {
  const { command, args = ["rpc"], env, cwd, onStderr } = options;
  return {
    async open(sink) {
      // Not imported, so that bundlers for browsers have nothing to resolve.
      const machine = globalThis.process?.getBuiltinModule?.("child_process");
      if (!machine) throw new TransportError("No processes here.", { retryable: false });
      const child = machine.spawn(command, [...args], { cwd, env });
      const ended = Promise.withResolvers<TransportError>();
      const link = writerOf(child.stdin);
      let last = "";
      let timer: ReturnType<typeof setTimeout>;
      child.on("error", (cause) => {
        ended.resolve(new TransportError(`${command} cannot be started.`, { retryable: false, cause }));
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
          // One that has ended needs no time to do so.
          if (child.exitCode === null && child.signalCode === null)
            timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
        },
      };
    },
  };
}

export interface StdioTransportOptions {
  /** What the gateway writes, such as a ReadableStream. */
  readonly readable: AsyncIterable<Uint8Array>;
  /** What the gateway reads: a stream of the web, or of Node. */
  readonly writable: WritableStream<Uint8Array> | NodeWritable;
}

/** As much of a writable stream of Node as is needed. */
interface NodeWritable {
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
function writerOf(writable: StdioTransportOptions["writable"]): TransportLink {
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
