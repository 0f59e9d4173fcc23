import type { RpcHandlers, RpcContext, RpcDeps } from "../deps.ts";
import { CLOSE, Connection, type ConnectionOptions } from "../connection/connection.ts";
import type { RpcPeer } from "../connection/peer.ts";
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import { saveSession } from "../../agent/session/save.ts";
import { sessionNotFound } from "../../agent/session/session.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { KnownSession } from "../session/address.ts";
import { sessionInfo } from "../session/session-view.ts";

/** All connections of the gateway, whatever they came by. */
export class RpcHub implements Iterable<RpcPeer> {
  readonly deps: RpcDeps;
  readonly #handlers: RpcHandlers<RpcContext>;
  readonly #connections = new Set<Connection>();
  #isClosed = false;

  /** `parts` is the room without its connections, which are these. */
  constructor(parts: Omit<RpcDeps, "peers">, handlers: RpcHandlers<RpcContext>) {
    this.deps = { ...parts, peers: this };
    this.#handlers = handlers;
  }

  get size(): number {
    return this.#connections.size;
  }

  [Symbol.iterator](): Iterator<RpcPeer> {
    return this.#connections[Symbol.iterator]();
  }

  /** Opens a connection: the first frame is on its way when this returns. */
  connect(options: Omit<ConnectionOptions, "deps" | "handlers" | "onEnd">): Connection {
    const connection = new Connection({
      ...options,
      deps: this.deps,
      handlers: this.#handlers,
      onEnd: (ended) => this.#connections.delete(ended),
    });
    this.#connections.add(connection);
    connection.open();
    if (this.#isClosed) connection.close(CLOSE.shutdown, "shutdown");
    return connection;
  }

  /** Resolves when every connection has been told of all that is committed by now. */
  async caughtUp(): Promise<void> {
    await Promise.all([...this.#connections].map((connection) => connection.caughtUp()));
  }

  /** Ends every connection, and those that still come. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#connections) connection.close(CLOSE.shutdown, "shutdown");
  }
}

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

/** What is chosen for a session is kept with it: one that is only open is saved first. */
export async function ensureSaved(deps: RpcDeps, session: KnownSession): Promise<SessionRow> {
  if (session.row) return session.row;
  if (!session.live) throw sessionNotFound(session.id);
  const row = await saveSession(deps.store, session.live);
  notifyChanged(deps, session.owner);
  return row;
}
