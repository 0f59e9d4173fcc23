import { TransportError, type GatewayTransport, type TransportLink } from "./transport.ts";

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
