/** A connection, as methods and journal followers see it. */
import type { GatewayEvent, HostMethod, HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { Cursor } from "../../../generated/gateway/types/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";

/**
 * The identity of a client. Sessions belong to the owner. The owner's name also finds the limits of the key, so a
 * ticket shares the limits of the key that requested it.
 */
export interface RpcIdentity {
  readonly owner: string;
  readonly scopes: readonly string[];
}

/** What the client declared with `client.capabilities`; before that, the defaults of version 1. */
export interface ClientProfile {
  readonly name?: string;
  readonly version?: string;
  /** Questions arrive as requests, not as events. */
  readonly serverRequests: boolean;
  /** Event types that the client does not want. */
  readonly optOut: ReadonlySet<string>;
  /** `final`: no deltas, only complete texts. */
  readonly deltas: "all" | "final";
}

/** The state of a session when it was attached. */
export interface Attached {
  /** Number of the session's last event. */
  readonly latestSeq: number;
  /** Number of events after the cursor, which are being sent; 0 without a cursor. */
  readonly replayed: number;
  /**
   * True when the cursor belongs to another journal or its events have expired. The client must fetch the history.
   */
  readonly truncated: boolean;
}

/** The sessions that one connection follows. */
export interface Subscriptions {
  readonly sessions: ReadonlySet<string>;
  /**
   * Follows a session from the cursor, or from its last event. An attached session stays unchanged, unless a
   * cursor asks for missed events.
   */
  attach(sessionId: string, options?: { readonly cursor?: Cursor }): Promise<Attached>;
  /** Returns false when the session was not attached. */
  detach(sessionId: string): boolean;
  /** Resolves when all events committed so far are sent. */
  caughtUp(): Promise<void>;
  /** Ends all subscriptions. */
  close(): void;
}

export type HostAnswer<K extends HostMethod> =
  | { readonly status: "answered"; readonly result: HostRequests[K]["result"] }
  /** The client cannot show it, or answered what is no answer. */
  | { readonly status: "declined" }
  /** The connection ended, or `signal` aborted. */
  | { readonly status: "gone" };

/** One connection. */
export interface RpcPeer {
  /** `connection_id` of `gateway.ready`. */
  readonly id: string;
  readonly identity: RpcIdentity;
  readonly transport: "stdio" | "ws";
  /** True for stdio and sockets of this machine. Only they may reach the machine itself. */
  readonly isLocal: boolean;
  readonly profile: ClientProfile;
  /** Aborts when the connection ends. */
  readonly signal: AbortSignal;
  /** Ids of the attached sessions. */
  readonly sessions: ReadonlySet<string>;
  readonly attach: Subscriptions["attach"];
  readonly detach: Subscriptions["detach"];
  /** Stores what the client declared. */
  introduce(profile: ClientProfile): void;
  /** Sends an event, in order. Deltas may be merged, and dropped when the client does not read. */
  event(event: GatewayEvent): void;
  /**
   * Resolves when the outbox is less than half full. Writers of many events wait for it: on stdio always, on a
   * socket during a replay (a live socket that does not read is closed instead).
   */
  drained(): Promise<void>;
  /**
   * Asks the host under the question's own id. `signal` aborts when the question closed or another answer came
   * first; a late answer is then dropped, and the host gets the event `request.cancel`.
   */
  ask<K extends HostMethod>(
    method: K,
    id: string,
    params: HostRequests[K]["params"],
    options?: { readonly signal?: AbortSignal },
  ): Promise<HostAnswer<K>>;
}

/** Returns true when the identity has the scope. */
export function hasScope({ scopes }: RpcIdentity, scope: string): boolean {
  return scopes.includes(scope) || scopes.includes("admin");
}

/** Checks a scope. ServiceError `insufficient_scope`; `what` needs the scope. */
export function requireScope(identity: RpcIdentity, scope: string, what: string): void {
  if (hasScope(identity, scope)) return;
  throw new ServiceError(
    "insufficient_scope",
    `The key ${JSON.stringify(identity.owner)} has no scope ${JSON.stringify(scope)}, which ${what} requires. Add it in api_server.keys.`,
  );
}
