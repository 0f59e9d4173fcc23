import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";
import { sessionInfo } from "../session/session-view.ts";

/** Tells all connections of an owner that the list of saved sessions is another. */
export function notifyChanged(deps: RpcDeps, owner: string): void {
  const event: GatewayEvent = { type: "sessions.changed", session_id: "", ts: deps.clock.now(), payload: {} };
  for (const peer of deps.peers) if (peer.identity.owner === owner) peer.event(event);
}

/** Tells those who look at a session what is not in its journal. */
export function notifyViewers(deps: RpcDeps, sessionId: string, event: GatewayEvent): void {
  for (const peer of deps.peers) if (peer.sessions.has(sessionId)) peer.event(event);
}

/** Tells every connection what is of no session. */
export function notifyAll(deps: RpcDeps, event: GatewayEvent): void {
  for (const peer of deps.peers) peer.event(event);
}

/** Tells all who look at a session how it stands, after something changed for all sessions. */
export async function notifyInfo(deps: RpcDeps): Promise<void> {
  const looked = new Map<string, string>();
  for (const { sessions, identity } of deps.peers) for (const id of sessions) looked.set(id, identity.owner);
  for (const [id, owner] of looked) {
    const payload = await sessionInfo(deps, id, owner);
    if (payload)
      notifyViewers(deps, id, { type: "session.info", session_id: id, ts: deps.clock.now(), payload });
  }
}

/** Closes the session here when this connection ends and nobody else looks at it. Its turn goes on. */
export function closeWithConnection({ deps, peer }: RpcContext, sessionId: string): void {
  const { owner } = peer.identity;
  const live = deps.agent.live.find(sessionId, owner);
  const close = () => {
    // It may be closed by now, and open again for somebody else.
    if (deps.agent.live.find(sessionId, owner) !== live) return;
    for (const other of deps.peers) if (other !== peer && other.sessions.has(sessionId)) return;
    deps.agent.live.close(sessionId, owner);
  };
  if (peer.signal.aborted) close();
  else peer.signal.addEventListener("abort", close, { once: true });
}
