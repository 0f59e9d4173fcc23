import type { RpcHandlers } from "../connection/contract.ts";
import { CLOSE, Connection, type ConnectionOptions } from "../connection/connection.ts";
import type { RpcPeer } from "../connection/peer.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";

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
