import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { RpcContext, RpcRoom } from "../deps.ts";
import { sessionInfo } from "../session/session-view.ts";

/** Tells all connections of an owner that the list of saved sessions is another. */
export function tellChanged(room: RpcRoom, owner: string): void {
  const event: GatewayEvent = { type: "sessions.changed", session_id: "", ts: room.clock.now(), payload: {} };
  for (const peer of room.peers) if (peer.identity.owner === owner) peer.event(event);
}

/** Tells those who look at a session what is not in its journal. */
export function tellViewers(room: RpcRoom, sessionId: string, event: GatewayEvent): void {
  for (const peer of room.peers) if (peer.sessions.has(sessionId)) peer.event(event);
}

/** Tells every connection what is of no session. */
export function tellAll(room: RpcRoom, event: GatewayEvent): void {
  for (const peer of room.peers) peer.event(event);
}

/** Tells all who look at a session how it stands, after something changed for all sessions. */
export async function tellInfo(room: RpcRoom): Promise<void> {
  const looked = new Map<string, string>();
  for (const { sessions, identity } of room.peers) for (const id of sessions) looked.set(id, identity.owner);
  for (const [id, owner] of looked) {
    const payload = await sessionInfo(room, id, owner);
    if (payload)
      tellViewers(room, id, { type: "session.info", session_id: id, ts: room.clock.now(), payload });
  }
}

/** Closes the session here when this connection ends and nobody else looks at it. Its turn goes on. */
export function closeWithConnection({ room, peer }: RpcContext, sessionId: string): void {
  const { owner } = peer.identity;
  const live = room.agent.live.find(sessionId, owner);
  const close = () => {
    // It may be closed by now, and open again for somebody else.
    if (room.agent.live.find(sessionId, owner) !== live) return;
    for (const other of room.peers) if (other !== peer && other.sessions.has(sessionId)) return;
    room.agent.live.close(sessionId, owner);
  };
  if (peer.signal.aborted) close();
  else peer.signal.addEventListener("abort", close, { once: true });
}
