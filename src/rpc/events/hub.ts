import type { RpcHandlers, RpcContext, RpcDeps, RpcPeer } from "../deps.ts";
import { CLOSE, Connection, type ConnectionOptions } from "../connection/connection.ts";
import type { GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import { saveSession } from "../../agent/session/sessions.ts";
import { sessionNotFound } from "../../agent/session/session.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import { type CallerSession, sessionInfo } from "../session/session.ts";

/** All connections of the gateway, over any transport. */
export class RpcHub implements Iterable<RpcPeer> {
  readonly deps: RpcDeps;
  readonly #handlers: RpcHandlers<RpcContext>;
  readonly #connections = new Set<Connection>();
  #isClosed = false;

  /** `deps` lacks the connections, which the hub itself provides. */
  constructor(deps: Omit<RpcDeps, "peers">, handlers: RpcHandlers<RpcContext>) {
    this.deps = { ...deps, peers: this };
    this.#handlers = handlers;
  }

  get size(): number {
    return this.#connections.size;
  }

  [Symbol.iterator](): Iterator<RpcPeer> {
    return this.#connections[Symbol.iterator]();
  }

  /** Opens a connection, and sends its first frame. */
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

  /** Resolves when every connection has sent all events committed so far. */
  async caughtUp(): Promise<void> {
    await Promise.all([...this.#connections].map((connection) => connection.caughtUp()));
  }

  /** Closes all connections, and those that follow. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#connections) connection.close(CLOSE.shutdown, "shutdown");
  }
}

/** Notifies an owner's connections that the list of saved sessions changed. */
export function notifyChanged(deps: RpcDeps, owner: string): void {
  const event: GatewayEvent = { type: "sessions.changed", session_id: "", ts: deps.clock.now(), payload: {} };
  for (const peer of deps.peers) if (peer.identity.owner === owner) peer.event(event);
}

/** Notifies a session's viewers of an event that is not in its journal. */
export function notifyViewers(deps: RpcDeps, sessionId: string, event: GatewayEvent): void {
  for (const peer of deps.peers) if (peer.sessions.has(sessionId)) peer.event(event);
}

/** Notifies every connection of an event without a session. */
export function notifyAll(deps: RpcDeps, event: GatewayEvent): void {
  for (const peer of deps.peers) peer.event(event);
}

/** Sends every viewer a new session snapshot after a change for all sessions. */
export async function notifyInfo(deps: RpcDeps): Promise<void> {
  const looked = new Map<string, string>();
  for (const { sessions, identity } of deps.peers) for (const id of sessions) looked.set(id, identity.owner);
  for (const [id, owner] of looked) {
    const payload = await sessionInfo(deps, id, owner);
    if (payload)
      notifyViewers(deps, id, { type: "session.info", session_id: id, ts: deps.clock.now(), payload });
  }
}

/** Closes the session in this process when the connection ends and no other connection views it. Its turn continues. */
export function closeWithConnection({ deps, peer }: RpcContext, sessionId: string): void {
  const { owner } = peer.identity;
  const live = deps.agent.live.find(sessionId, owner);
  const close = () => {
    // The session may be closed by now, and open again for another client.
    if (deps.agent.live.find(sessionId, owner) !== live) return;
    for (const other of deps.peers) if (other !== peer && other.sessions.has(sessionId)) return;
    deps.agent.live.close(sessionId, owner);
  };
  if (peer.signal.aborted) close();
  else peer.signal.addEventListener("abort", close, { once: true });
}

/** Saves a session that is only open. Settings of a session are stored with it. */
export async function ensureSaved(deps: RpcDeps, session: CallerSession): Promise<SessionRow> {
  if (session.row) return session.row;
  if (!session.live) throw sessionNotFound(session.id);
  const row = await saveSession(deps.store, session.live);
  notifyChanged(deps, session.owner);
  return row;
}
