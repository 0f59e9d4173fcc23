import type { GatewayTransport } from "./gateway-transport.ts";

export interface WebSocketTransportOptions {
  /** `http:`, `https:`, `ws:` or `wss:`. Without a path: `/api/ws`. */
  readonly url: string | URL;
  /** An API key. Browsers and Node cannot send it in a header, so it goes into the query; prefer tickets on foreign networks. */
  readonly token?: string;
  /** Gets a ticket for each connection: your server asks for it with `POST /api/auth/ws-ticket`. */
  readonly ticket?: () => Promise<string>;
  /** Another implementation than the runtime's own. */
  readonly WebSocket?: typeof WebSocket;
}

/** A gateway behind a URL. */
export declare function webSocketTransport(options: WebSocketTransportOptions): GatewayTransport;
