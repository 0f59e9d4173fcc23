import type { GatewayEvents, GatewayEventType } from "../client/gateway.ts";

/** What an event of that type carries. */
export type GatewayPayload<K extends GatewayEventType> = GatewayEvents[K]["payload"];
