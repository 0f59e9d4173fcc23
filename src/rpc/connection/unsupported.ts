import type { HostMethod } from "../../../generated/gateway/host.gen.ts";
import type { RpcPeer } from "./peer.ts";
import type { RpcDeps } from "../deps.ts";
import { hasScope } from "./scope.ts";

export interface Declined {
  readonly method: HostMethod;
  readonly id: string;
  readonly sessionId: string;
  /** Aborts when the question is open no more, or the client is gone. */
  readonly signal: AbortSignal;
}

/** Clients that cannot show a question, by question. */
export class Declines {
  readonly #by = new Map<string, Set<RpcPeer>>();

  /** Notes one. True when no client that follows the session is left to answer. */
  add({ peers }: RpcDeps, peer: RpcPeer, { method, id, sessionId, signal }: Declined): boolean {
    const declined = this.#by.get(id) ?? new Set();
    this.#by.set(id, declined.add(peer));
    signal.addEventListener("abort", () => this.#forget(id, peer), { once: true });
    if (signal.aborted) this.#forget(id, peer);
    for (const other of peers) {
      const isAsked = other.profile.serverRequests || !other.profile.optOut.has(`${method}.request`);
      const mayAnswer = isAsked && hasScope(other.identity, "approvals");
      if (mayAnswer && other.sessions.has(sessionId) && !declined.has(other)) return false;
    }
    return true;
  }

  #forget(id: string, peer: RpcPeer): void {
    const declined = this.#by.get(id);
    declined?.delete(peer);
    if (declined?.size === 0) this.#by.delete(id);
  }
}

const rooms = new WeakMap<RpcDeps["store"], Declines>();

/** Those of the gateway. */
export function declinesOf({ store }: RpcDeps): Declines {
  const known = rooms.get(store) ?? new Declines();
  rooms.set(store, known);
  return known;
}
