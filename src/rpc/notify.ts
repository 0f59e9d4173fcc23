import type { RpcPeer, Subscriptions } from "./peer.ts";

/** Follows sessions for a connection: not there yet, nothing is ever attached. */
export function createSubscriptions(_peer: RpcPeer): Subscriptions {
  return {
    sessions: new Set(),
    attach: async () => ({ latestSeq: 0, replayed: 0, truncated: false }),
    detach: () => false,
    close: () => {},
  };
}
