import { TransportError, type GatewayTransport, type TransportSink } from "./gateway-transport.ts";

export interface WebSocketTransportOptions {
  /** `http:`, `https:`, `ws:` or `wss:`. Without a path: `/api/ws`. */
  readonly url: string | URL;
  /** An API key. It goes into the query, as sockets of the web send no headers; where that is too open, use tickets. */
  readonly token?: string;
  /** Gets a ticket for each connection: your server asks for it with `POST /api/auth/ws-ticket`. */
  readonly ticket?: () => Promise<string>;
  /** Another implementation than the runtime's own. */
  readonly WebSocket?: typeof WebSocket;
}

/** Codes with which a gateway says that the key is not good enough. */
const REFUSED = [4401, 4403];

/** A gateway behind a URL. */
export function webSocketTransport(options: WebSocketTransportOptions): GatewayTransport {
  const { WebSocket: Socket = WebSocket } = options;
  return {
    async open(sink, signal) {
      const url = addressOf(options);
      const secret = await secretOf(options);
      if (signal.aborted) throw new TransportError("The connection is wanted no more.");
      const name = url.host + url.pathname;
      for (const [key, value] of Object.entries(secret)) url.searchParams.set(key, value);
      return openSocket(new Socket(url), name, { sink, signal });
    },
  };
}

interface Use {
  readonly sink: TransportSink;
  readonly signal: AbortSignal;
}

function openSocket(socket: WebSocket, name: string, { sink, signal }: Use) {
  const { promise, resolve, reject } = Promise.withResolvers<{ send(text: string): void; close(): void }>();
  const close = () => socket.close();
  let fail: (error: TransportError) => void = reject;
  signal.addEventListener("abort", close, { once: true });
  socket.addEventListener("open", () => {
    fail = (error) => sink.cut(error);
    resolve({ send: (text) => socket.send(text), close });
  });
  socket.addEventListener("message", ({ data }: MessageEvent<unknown>) => {
    if (typeof data === "string") sink.frame(data);
  });
  // What is wrong says `close`, which follows.
  socket.addEventListener("error", () => {});
  socket.addEventListener("close", ({ code, reason }) => {
    signal.removeEventListener("abort", close);
    const why = reason === "" ? `code ${code}` : `code ${code}, ${reason}`;
    fail(new TransportError(`The socket to ${name} is closed: ${why}.`, { isFinal: REFUSED.includes(code) }));
  });
  return promise;
}

function addressOf({ url: given }: WebSocketTransportOptions): URL {
  const url = new URL(given);
  url.protocol = url.protocol.replace("http", "ws");
  if (url.pathname === "/") url.pathname = "/api/ws";
  return url;
}

async function secretOf({ token, ticket }: WebSocketTransportOptions): Promise<Record<string, string>> {
  if (!ticket) return token === undefined ? {} : { token };
  try {
    return { ticket: await ticket() };
  } catch (cause) {
    const { status } = Object(cause) as { readonly status?: unknown };
    const isFinal = status === 401 || status === 403;
    throw new TransportError("There is no ticket for the connection.", { isFinal, cause });
  }
}
