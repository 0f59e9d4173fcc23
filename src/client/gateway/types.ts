/// <reference lib="esnext.disposable" preserve="true" />
/** The public types and errors of the gateway client. */
import type { GatewayEvent, HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { GatewayMethod, GatewayRequests } from "../../../generated/gateway/rpc.gen.ts";
import type { Cursor, GatewayReadyPayload } from "../../../generated/gateway/types/types.gen.ts";
import type { GatewayTransport } from "./transport.ts";

export interface GatewayOptions {
  /** `webSocketTransport`, `spawnTransport`, `stdioTransport`, or one of your own. */
  readonly transport: GatewayTransport;
  /** Name of this program in the gateway's log. */
  readonly client?: { readonly name: string; readonly version: string };
  /**
   * Functions that answer the agent's questions. With any of them the gateway sends questions as requests instead of
   * `*.request` events, and a question without its function is declined. Without them questions arrive as events and
   * are answered by calls.
   */
  readonly questions?: GatewayQuestions;
  /** `final`: only whole answers, without deltas. */
  readonly deltas?: "all" | "final";
  /** Event types that the gateway must not send. */
  readonly optOut?: readonly Exclude<GatewayEvent["type"], "gateway.ready" | "request.cancel">[];
  /** False: the client closes when its connection is cut. */
  readonly reconnect?: ReconnectOptions | false;
  /** Closes the client. */
  readonly signal?: AbortSignal;
  /** For tests. */
  readonly clock?: GatewayClock;
}

export interface ReconnectOptions {
  /** First delay, doubled after each failed attempt; default 1,000. The first attempt is made at once. */
  readonly minMs?: number;
  /** Longest delay; default 30,000. */
  readonly maxMs?: number;
  /**
   * Most consecutive failed attempts before the client closes; default 20, `Infinity` never gives up. A browser cannot
   * distinguish a refusal from a cut.
   */
  readonly attempts?: number;
  /** Whether the first connection is also retried; default false. */
  readonly first?: boolean;
}

/** The clock of the client. */
export interface GatewayClock {
  /** Milliseconds. */
  now(): number;
  /** Runs a function after a delay. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void;
}

export type QuestionMethod = keyof HostRequests;

/**
 * Resolves to the answer, or to undefined to decline. `signal` aborts when the question is no longer open: it was
 * answered elsewhere, timed out, or its turn ended; a result after that is ignored. A cut does not end a question.
 */
export type Answerer<K extends QuestionMethod> = (
  question: HostRequests[K]["params"],
  options: { readonly signal: AbortSignal },
) => Promise<HostRequests[K]["result"] | undefined> | HostRequests[K]["result"] | undefined;

export type GatewayQuestions = { readonly [K in QuestionMethod]?: Answerer<K> };

export type GatewayState = "open" | "reconnecting" | "closed";

interface Notice<Type extends string, Payload> {
  readonly type: Type;
  readonly session_id?: string;
  /** Unix milliseconds. */
  readonly ts: number;
  readonly payload: Payload;
}

/** What the client itself reports among the events of the gateway. */
export type GatewayNotice =
  /** The connection was cut or restored; `attempt` counts consecutive failures. */
  | Notice<
      "client.state",
      { readonly state: GatewayState; readonly attempt: number; readonly message?: string }
    >
  /** Events of this session are missing: they are no longer stored, or the store was replaced. Read the history. */
  | (Notice<"client.gap", { readonly reason: "truncated" | "epoch"; readonly cursor: Cursor }> &
      SessionNotice)
  /** The session could not be resumed after a cut; it sends no more events. */
  | (Notice<"client.lost", { readonly code: number; readonly reason: string; readonly message: string }> &
      SessionNotice)
  /** A question function threw; the question was declined. */
  | (Notice<"client.question_failed", { readonly request_id: string; readonly error: unknown }> &
      SessionNotice);

interface SessionNotice {
  readonly session_id: string;
}

export type GatewayClientEvent = GatewayEvent | GatewayNotice;

export interface CallOptions {
  /** Stops waiting for the response. It does not cancel the call: `session.interrupt` stops a turn. */
  readonly signal?: AbortSignal;
  /** Default 120,000, including the time to reconnect; 0 waits forever. */
  readonly timeoutMs?: number;
}

/** Parameters as they are sent; parameters with defaults are optional. */
export type GatewayParams<K extends GatewayMethod> = GatewayRequests[K]["sent"];
export type GatewayResult<K extends GatewayMethod> = GatewayRequests[K]["result"];

/** Without a required parameter the argument is optional. */
export type CallArguments<K extends GatewayMethod> =
  Record<never, never> extends GatewayParams<K>
    ? [params?: GatewayParams<K>, options?: CallOptions]
    : [params: GatewayParams<K>, options?: CallOptions];

export interface EventsOptions {
  /** Skips events of other sessions. */
  readonly sessionId?: string;
  /** Ends the events, without an error. */
  readonly signal?: AbortSignal;
}

export interface GatewayClient extends AsyncDisposable {
  /** The `gateway.ready` payload of the last connection. */
  readonly ready: GatewayReadyPayload;
  readonly state: GatewayState;
  /** Resolves when the client is closed: to the error that closed it, or to undefined after `close()`. */
  readonly closed: Promise<Error | undefined>;
  /**
   * Calls a method of the gateway. Waits during a reconnect. When the connection is cut during the call, read-only
   * calls and `prompt.submit` (which gets a `client_turn_id`, so that no turn runs twice) are sent again; the others
   * reject with ConnectionCutError, because their outcome is unknown.
   *
   * Rejects with GatewayError (the gateway's error response), ConnectionCutError, GatewayClosedError, the signal's
   * reason, or a DOMException `TimeoutError`.
   */
  call<K extends GatewayMethod>(method: K, ...args: CallArguments<K>): Promise<GatewayResult<K>>;
  /**
   * Yields all events from now on, each once and in order, over all connections; listening starts with the call, not
   * with the first read. Up to 8,192 events or 16 MiB wait to be read, with adjacent deltas merged; beyond that the
   * iterator throws EventsLostError. It ends when the client is closed, and throws the error that closed it.
   */
  events(options?: EventsOptions): AsyncGenerator<GatewayClientEvent, void>;
  /** Returns the cursor of a session's last event; undefined when this client is not attached to it. */
  cursor(sessionId: string): Cursor | undefined;
  /** Makes the next attempt to connect at once. Does nothing unless the client waits for it. */
  reconnectNow(): void;
  /** Closes the connection; sessions and turns continue. Resolves when the transport has ended. */
  close(): Promise<void>;
}

/** An error in a frame. */
export interface WireError {
  readonly code: number;
  readonly message: string;
  readonly data?: Readonly<Record<string, unknown>>;
}

/** An error response of the gateway. */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  /** The error code; the gateway's reference lists the codes of each method. */
  readonly code: number;
  /** The stable name of the error, such as `session_not_found`. */
  readonly reason: string;
  /** The same call may succeed later. */
  readonly retryable: boolean;
  /** Further data, such as `issues` of invalid parameters. */
  readonly data: Readonly<Record<string, unknown>>;

  constructor({ code, message, data = {} }: WireError) {
    super(message);
    this.code = code;
    this.data = data;
    this.reason = String(data["reason"]);
    this.retryable = !!data["retryable"];
  }
}

/** The connection was cut during the call, whose outcome is unknown. The call is not repeated. */
export class ConnectionCutError extends Error {
  override readonly name = "ConnectionCutError";

  constructor(method: string, cause?: unknown) {
    super(`Cut before ${method} was answered. Check whether it was done.`, { cause });
  }
}

/** The client is closed. `cause` is the error that closed it. */
export class GatewayClosedError extends Error {
  override readonly name = "GatewayClosedError";

  constructor(cause?: Error) {
    super(cause?.message ?? "The client is closed.", { cause });
  }
}

/** Events were read too slowly, and too many were waiting. */
export class EventsLostError extends Error {
  override readonly name = "EventsLostError";
  /**
   * The last event of each session that was read. Call `events()` again, then `session.events.since` or
   * `session.history`.
   */
  readonly cursors: ReadonlyMap<string, Cursor>;

  constructor(cursors: ReadonlyMap<string, Cursor>) {
    super("Too many unread events. Call events() again and read the history.");
    this.cursors = cursors;
  }
}
