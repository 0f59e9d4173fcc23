/** The client of the TUI gateway. No dependencies; runs in Node, Deno and browsers. */
import { ReconnectingClient } from "./gateway-client.ts";
import type { GatewayClient, GatewayOptions } from "./gateway-types.ts";

export type * from "../../generated/gateway/types/types.gen.ts";
export type { GatewayEvent, GatewayEvents, GatewayEventType } from "../../generated/gateway/host.gen.ts";
export type { GatewayMethod } from "../../generated/gateway/rpc.gen.ts";
export { ConnectionCutError, EventsLostError, GatewayClosedError, GatewayError } from "./gateway-error.ts";
export { webSocketTransport, type WebSocketTransportOptions } from "./gateway-socket.ts";
export { spawnTransport, type SpawnTransportOptions } from "./gateway-spawn.ts";
export { stdioTransport, type StdioTransportOptions } from "./gateway-stdio.ts";
export {
  TransportError,
  type GatewayTransport,
  type TransportLink,
  type TransportSink,
} from "./gateway-transport.ts";
export type * from "./gateway-types.ts";

/**
 * Resolves when the gateway is ready. Rejects with TransportError when it cannot be reached, GatewayError when it does not
 * take the client, or the signal's reason.
 */
export async function connectGateway(options: GatewayOptions): Promise<GatewayClient> {
  const client = new ReconnectingClient(options);
  try {
    await client.opened;
  } catch (error) {
    options.signal?.throwIfAborted();
    throw error;
  }
  return client;
}
