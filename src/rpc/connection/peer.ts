/** A connection as the methods and the followers of the journal see it. Types only. */
import type { GatewayEvent, HostMethod, HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { Cursor } from "../../../generated/gateway/types/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";

/**
 * Who is at the other end. Sessions belong to the owner, whose name is also what the limits of the key are found by: a
 * ticket, or anything else that is made of the identity, is under the limits of its key.
 */
export interface RpcIdentity {
  readonly owner: string;
  readonly scopes: readonly string[];
}

/** What the client said of itself by `client.capabilities`; until then the defaults of version 1. */
export interface ClientProfile {
  readonly name?: string;
  readonly version?: string;
  /** Questions come as requests and not as events. */
  readonly serverRequests: boolean;
  /** Types of events that it does not want. */
  readonly optOut: ReadonlySet<string>;
  /** `final`: it wants no deltas, only what sums them up. */
  readonly deltas: "all" | "final";
}

/** How a session stood when it was attached. */
export interface Attached {
  /** The session's last event. */
  readonly latestSeq: number;
  /** Events above the cursor, which are on their way; 0 without a cursor. */
  readonly replayed: number;
  /** The cursor is of another journal, or older than what is kept: the history is to be fetched. */
  readonly truncated: boolean;
}

/** The sessions that one connection follows. Made for each connection; notify.ts is the one implementation. */
export interface Subscriptions {
  readonly sessions: ReadonlySet<string>;
  /**
   * Follows a session, from behind the cursor or from its last event on. A session that is attached already stays as it
   * is, unless a cursor asks for what was missed.
   */
  attach(sessionId: string, options?: { readonly cursor?: Cursor }): Promise<Attached>;
  /** False when it was not attached. */
  detach(sessionId: string): boolean;
  /** Resolves when all that is committed by now has been told. */
  caughtUp(): Promise<void>;
  /** The connection ended. */
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
  /** Stdio, or a socket of this machine: what reaches the machine itself may be offered. */
  readonly isLocal: boolean;
  readonly profile: ClientProfile;
  /** Aborts when the connection ends. */
  readonly signal: AbortSignal;
  /** Ids of the attached sessions. */
  readonly sessions: ReadonlySet<string>;
  readonly attach: Subscriptions["attach"];
  readonly detach: Subscriptions["detach"];
  /** Takes over what the client said of itself. */
  introduce(profile: ClientProfile): void;
  /** Sends an event, in order. Deltas may be merged with their neighbours, and dropped when the client does not read. */
  event(event: GatewayEvent): void;
  /**
   * Resolves when less than half of the outbox is taken, at once in good times. Whoever sends many events waits for it
   * between them: on stdio always, on a socket while it replays (a live socket that does not read is closed instead).
   */
  drained(): Promise<void>;
  /**
   * Asks the host, by the question's own id. When `signal` aborts, because another answered first or the question
   * closed, a late answer is dropped; the host is told of it by the event `request.cancel`.
   */
  ask<K extends HostMethod>(
    method: K,
    id: string,
    params: HostRequests[K]["params"],
    options?: { readonly signal?: AbortSignal },
  ): Promise<HostAnswer<K>>;
}

/** Whether whoever is at the other end may do what the scope stands for. */
export function hasScope({ scopes }: RpcIdentity, scope: string): boolean {
  return scopes.includes(scope) || scopes.includes("admin");
}

/** ServiceError `insufficient_scope`; `what` names that which needs the scope. */
export function requireScope(identity: RpcIdentity, scope: string, what: string): void {
  if (hasScope(identity, scope)) return;
  throw new ServiceError(
    "insufficient_scope",
    `The key ${JSON.stringify(identity.owner)} has no scope ${JSON.stringify(scope)}, which ${what} needs. Add it in api_server.keys.`,
  );
}
