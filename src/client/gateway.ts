/**
 * The client of the TUI gateway: typed calls, events that survive reconnects, questions as functions. No dependencies; runs in Node, Deno and browsers.
 *
 * ```ts
 * import { connectGateway, webSocketTransport } from "@agentd/agentd/gateway";
 *
 * const gateway = await connectGateway({
 *   transport: webSocketTransport({ url: "http://127.0.0.1:8642", token: process.env.API_SERVER_KEY }),
 *   questions: {
 *     approval: ({ payload }) => ({ choice: confirm(payload.command) ? "once" : "deny" }),
 *   },
 * });
 * const { session_id } = await gateway.call("session.create");
 * const events = gateway.events({ sessionId: session_id });
 * await gateway.call("prompt.submit", { session_id, text: "What is in this folder?" });
 * for await (const event of events) {
 *   if (event.type === "message.delta") console.log(event.payload.text);
 *   if (event.type === "message.complete") break;
 * }
 * await gateway.close();
 * ```
 *
 * With `spawnTransport({ command: "agentd" })` the gateway is a private child process instead. A
 * page of another origin than the gateway's needs a line in `api_server.cors_origins`, and should connect by tickets.
 *
 * When the connection is cut, the client reconnects and resumes each session after its last event:
 * nothing is lost or repeated. What it cannot recover it reports among the events: see GatewayNotice.
 */
import { ReconnectingClient } from "./gateway/client.ts";
import type { GatewayClient, GatewayOptions } from "./gateway/types.ts";

export type * from "../../generated/gateway/types/types.gen.ts";
export type { GatewayEvent, GatewayEvents, GatewayEventType } from "../../generated/gateway/host.gen.ts";
export type { GatewayMethod } from "../../generated/gateway/rpc.gen.ts";
export { ConnectionCutError, EventsLostError, GatewayClosedError, GatewayError } from "./gateway/types.ts";
export type * from "./gateway/types.ts";
export {
  webSocketTransport,
  type WebSocketTransportOptions,
  spawnTransport,
  type SpawnTransportOptions,
  stdioTransport,
  type StdioTransportOptions,
  TransportError,
  type GatewayTransport,
  type TransportLink,
  type TransportSink,
} from "./gateway/transport.ts";

/**
 * Connects to a gateway. Resolves when it is ready. Rejects with TransportError when it is unreachable, GatewayError
 * when it refuses the client, or the signal's reason.
 */
export async function connectGateway(options: GatewayOptions): Promise<GatewayClient> {
  try {
    return await new ReconnectingClient(options).opened.promise;
  } catch (error) {
    options.signal?.throwIfAborted();
    throw error;
  }
}
