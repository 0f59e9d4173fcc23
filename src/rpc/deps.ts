/** What the parts of the gateway work with: its dependencies, its connections, and the calls of its clients. */
import type { Config } from "../../generated/config/types.gen.ts";
import type { AgentServices } from "../agent/create.ts";
import type { KeyValidity } from "../base/net/request.ts";
import type { Clock } from "../base/time.ts";
import type { Log } from "../base/observe.ts";
import type { Environment } from "../config/home.ts";
import type { Store } from "../store/store.ts";
import type { GatewayLimits, Cursor } from "../../generated/gateway/types/types.gen.ts";

import type { GatewayMethod, GatewayRequests } from "../../generated/gateway/rpc.gen.ts";
import type {
  GatewayEvent,
  GatewayEvents,
  HostMethod,
  HostRequests,
} from "../../generated/gateway/host.gen.ts";

/** Dependencies of the gateway. */
export interface RpcDeps extends Omit<AgentServices, "close"> {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Version of agentd. */
  readonly version: string;
  readonly settings: RpcSettings;
  /** Absent: keys have no limits. */
  readonly keyLimits?: AgentServices["agent"]["deps"]["keyLimits"];
  readonly config: ConfigAccess;
  /** The operations of the HTTP API. Their modules load at the first call. */
  readonly api: OperationsApi;
  /** All connections, for events that concern every client. */
  readonly peers: Iterable<RpcPeer>;
  /** Creates the subscriptions of a connection. */
  readonly subscribe: (deps: RpcDeps, peer: RpcPeer) => Subscriptions;
}

/** The operations of the HTTP API, and its feed. */
export interface OperationsApi {
  /**
   * Calls an operation. Resolves to its answer, also when that is an error. ServiceError `invalid_request` for one that
   * cannot be called, `body_too_large` for an answer that does not fit.
   */
  call(
    call: GatewayRequests["api.call"]["params"],
    caller: RpcCaller,
    options: { readonly signal: AbortSignal },
  ): Promise<GatewayRequests["api.call"]["result"]>;
  /** Follows the feed until `signal` aborts. The first frame is `feed.ready`. */
  follow(
    filter: GatewayRequests["events.subscribe"]["params"],
    caller: RpcCaller,
    signal: AbortSignal,
  ): Promise<AsyncIterable<FeedItem>>;
}

/** The caller of an operation: the name of a key, and the owner whose data it reaches. */
export interface RpcCaller {
  readonly name: string;
  readonly owner: string;
  readonly scopes: readonly string[];
}

/** A frame of the feed, as GET /v1/events sends it. */
export type FeedItem =
  | GatewayEvents["feed.event"]["payload"]
  | { readonly object: "feed.ready"; readonly cursor: string; readonly epoch: string }
  | { readonly object: "feed.bookmark"; readonly cursor: string };

export interface RpcSettings {
  readonly limits: GatewayLimits;
  /** Who may call `cli.exec`: local connections, all with the scope, or no connection. */
  readonly cliExec: "local" | "all" | "off";
  /** Who may call `shell.exec`. */
  readonly shellExec: "local" | "all" | "off";
}

/** The configuration at the start of the process, and where to read the current file. */
export interface ConfigAccess {
  /** Complete, with defaults. */
  readonly atStart: Config;
  /** The home folder, for src/config/*. */
  readonly home: string;
  /** The environment of the process, without the home's `.env` file. */
  readonly env: Environment;
  /** The user's own home folder. */
  readonly userHome: string;
}

/** What every handler gets besides its parameters. */
export interface RpcContext {
  readonly deps: RpcDeps;
  readonly peer: RpcPeer;
}

/** `Ctx` is what the binding adds: dependencies and connection. */
export interface RpcCall<K extends GatewayMethod, Ctx> {
  /** Validated, with defaults, without undeclared parameters. */
  readonly params: GatewayRequests[K]["params"];
  readonly ctx: Ctx;
  /** Aborts when the connection ends. */
  readonly signal: AbortSignal;
  /**
   * Holds back the session's events on this connection until this call is answered: the answer to `prompt.submit`
   * precedes `message.start`, and the answer to `session.resume` precedes the replay.
   */
  hold(sessionId: string): void;
}

/** Returns a result that the spec lists. Errors are thrown as ServiceError. */
export type RpcHandler<K extends GatewayMethod, Ctx> = (
  call: RpcCall<K, Ctx>,
) => GatewayRequests[K]["result"] | Promise<GatewayRequests[K]["result"]>;

/** One handler for each method of the spec. */
export type RpcHandlers<Ctx> = { readonly [K in GatewayMethod]: RpcHandler<K, Ctx> };

/** The handlers of some methods: what a file of methods/ exports. */
export type RpcGroup<K extends GatewayMethod, Ctx> = Pick<RpcHandlers<Ctx>, K>;

/** Returns `handlers` unchanged. A missing method, or a result that the spec does not list, is a compile error. */
export function defineRpc<Ctx>(handlers: RpcHandlers<Ctx>): RpcHandlers<Ctx> {
  return handlers;
}

/**
 * The identity of a client. Sessions belong to the owner. The name of the key finds its limits, so a ticket shares the
 * limits of the key that requested it.
 */
export interface RpcIdentity {
  readonly owner: string;
  /** Name of the key. Absent: the client needs none. */
  readonly key?: string;
  readonly scopes: readonly string[];
  /** Of a key that can be revoked: its sockets are closed then. */
  readonly validity?: KeyValidity;
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
  /**
   * Sends the open questions of an attached session again. With `missingOnly`, only those that this connection does not
   * have as requests.
   */
  showOpen(sessionId: string, options: { readonly missingOnly: boolean }): Promise<void>;
  /** Returns false when the session was not attached. */
  detach(sessionId: string): boolean;
  /** Resolves when all events committed so far are sent. */
  caughtUp(): Promise<void>;
  /** Ends all subscriptions. */
  close(): void;
}

export type HostAnswer<K extends HostMethod> =
  | { readonly status: "answered"; readonly result: HostRequests[K]["result"] }
  /** The client cannot show it. */
  | { readonly status: "declined" }
  /** The client answered, but not what the spec allows; `issue` says what is wrong with it, without the answer. */
  | { readonly status: "invalid"; readonly issue: string }
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
  /** Folder in which the host was started. Its sessions work there unless they name another; stdio only. */
  readonly cwd: string | undefined;
  readonly profile: ClientProfile;
  /** Aborts when the connection ends. */
  readonly signal: AbortSignal;
  /** Ids of the attached sessions. */
  readonly sessions: ReadonlySet<string>;
  readonly attach: Subscriptions["attach"];
  readonly detach: Subscriptions["detach"];
  readonly showOpen: Subscriptions["showOpen"];
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
