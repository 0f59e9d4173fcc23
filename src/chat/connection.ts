/** What the client tells of its connection, on the screen. Pure. */
import type { GatewayClientEvent, GatewayNotice } from "../client/gateway.ts";
import { cleanLine } from "./clean-text.ts";
import type { ChatState, ConnectionState } from "./state/state.ts";

type Told = Extract<GatewayNotice, { type: "client.state" }>["payload"];

/** Whether the client itself tells this, and not the gateway. */
export function isNotice(event: GatewayClientEvent): event is GatewayNotice {
  return event.type.startsWith("client.");
}

export function withConnection(state: ChatState, told: Told): ChatState {
  return { ...state, connection: connectionOf(told) };
}

function connectionOf({ state, attempt, message = "" }: Told): ConnectionState {
  const why = cleanLine(message);
  if (state === "open") return { kind: "ready" };
  if (state === "closed") return { kind: "closed", text: why };
  const count = attempt > 1 ? ` (attempt ${attempt})` : "";
  return { kind: "reconnecting", text: `Reconnecting${count}${why === "" ? "" : `: ${why}`}` };
}
