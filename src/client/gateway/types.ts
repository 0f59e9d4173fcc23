/** What programs see of the client of the gateway. Types alone. */
import type { GatewayEvent, HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { GatewayMethod, GatewayRequests } from "../../../generated/gateway/rpc.gen.ts";
import type { Cursor, GatewayReadyPayload } from "../../../generated/gateway/types/types.gen.ts";
import type { GatewayTransport } from "./transport.ts";

export interface GatewayOptions {
  /** `webSocketTransport`, `spawnTransport`, `stdioTransport`, or one of your own. */
  readonly transport: GatewayTransport;
  /** As the gateway's log calls this program. */
  readonly client?: { readonly name: string; readonly version: string };
  /**
   * Answers what the agent asks. With any of them the gateway asks by requests and sends no `*.request` events; a
   * question without its function is then declined. Without them questions come as events, to be answered by calls.
   */
  readonly questions?: GatewayQuestions;
  /** `final`: no deltas, only whole answers. */
  readonly deltas?: "all" | "final";
  /** Types of events that are not wanted. */
  readonly optOut?: readonly Exclude<GatewayEvent["type"], "gateway.ready" | "request.cancel">[];
  /** False: a cut ends the client. */
  readonly reconnect?: ReconnectOptions | false;
  /** Closes the client. */
  readonly signal?: AbortSignal;
  /** For tests. */
  readonly clock?: GatewayClock;
}

export interface ReconnectOptions {
  /** The first wait, doubled with each attempt that fails; default 1,000. The first attempt is made at once. */
  readonly minMs?: number;
  /** The longest wait; default 30,000. */
  readonly maxMs?: number;
  /** Attempts in a row that may fail before the client gives up; default 20. A browser cannot tell a refusal from a cut. */
  readonly attempts?: number;
  /** Whether the very first connection, too, is tried again; default false. */
  readonly first?: boolean;
}

/** Time as the client needs it. */
export interface GatewayClock {
  /** Milliseconds. */
  now(): number;
  /** Returns what cancels it. */
  after(ms: number, run: () => void): () => void;
}

export type QuestionMethod = keyof HostRequests;

/**
 * Resolves to the answer, or to undefined to decline. `signal` aborts when the question is open no more: it was answered
 * elsewhere, timed out, or its turn ended; what is returned then is dropped. A cut does not end a question.
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

/** What the client itself has to tell, among the events of the gateway. */
export type GatewayNotice =
  /** The connection was cut, or stands again; `attempt` counts those that failed in a row. */
  | Notice<
      "client.state",
      { readonly state: GatewayState; readonly attempt: number; readonly message?: string }
    >
  /** Events of this session are missing: what followed the cursor is not kept, or the store is another. Read the history. */
  | (Notice<"client.gap", { readonly reason: "truncated" | "epoch"; readonly cursor: Cursor }> &
      SessionNotice)
  /** After a cut the session could not be attached to again; nothing more is heard of it. */
  | (Notice<"client.lost", { readonly code: number; readonly reason: string; readonly message: string }> &
      SessionNotice)
  /** A function for questions threw; the question was declined. */
  | (Notice<"client.question_failed", { readonly request_id: string; readonly error: unknown }> &
      SessionNotice);

interface SessionNotice {
  readonly session_id: string;
}

export type GatewayClientEvent = GatewayEvent | GatewayNotice;

export interface CallOptions {
  /** Stops waiting. What was asked for happens or not: a turn is stopped by `session.interrupt`. */
  readonly signal?: AbortSignal;
  /** Default 120,000, which includes the time to connect again; 0 waits for ever. */
  readonly timeoutMs?: number;
}

/** Parameters as they are sent; those that have defaults may be left out. */
export type GatewayParams<K extends GatewayMethod> = GatewayRequests[K]["sent"];
export type GatewayResult<K extends GatewayMethod> = GatewayRequests[K]["result"];

/** Where nothing is required, parameters may be left out altogether. */
export type CallArguments<K extends GatewayMethod> =
  Record<never, never> extends GatewayParams<K>
    ? [params?: GatewayParams<K>, options?: CallOptions]
    : [params: GatewayParams<K>, options?: CallOptions];

export interface EventsOptions {
  /** Leaves out what names another session. */
  readonly sessionId?: string;
  /** Ends the events, without an error. */
  readonly signal?: AbortSignal;
}

export interface GatewayClient extends AsyncDisposable {
  /** What the gateway said of itself when it was connected last. */
  readonly ready: GatewayReadyPayload;
  readonly state: GatewayState;
  /** Resolves when the client is closed: to the error that closed it, or undefined when it was asked to. */
  readonly closed: Promise<Error | undefined>;
  /**
   * Asks the gateway. Waits while it is connected again. Of calls that are in flight when the connection is cut, those
   * that only read and `prompt.submit` (which gets a `client_turn_id`, so that a turn is not made twice) are sent again;
   * the others reject with ConnectionCutError: whether they were done is not known.
   *
   * Rejects with GatewayError (the gateway's answer), ConnectionCutError, GatewayClosedError, the signal's reason, or a
   * DOMException `TimeoutError`.
   */
  call<K extends GatewayMethod>(method: K, ...args: CallArguments<K>): Promise<GatewayResult<K>>;
  /**
   * All events from now on, each once and in order, over all connections; listening begins with the call, not with the
   * first read. What is not read waits, up to 8,192 events or 16 MiB, where adjacent deltas are merged; beyond that the
   * iterator throws EventsLostError. It ends when the client is closed, and throws what closed it.
   */
  events(options?: EventsOptions): AsyncGenerator<GatewayClientEvent, void>;
  /** The last event that came of a session; undefined when this client is not attached to it. */
  cursor(sessionId: string): Cursor | undefined;
  /** Ends the connection; sessions and turns go on. Resolves when the transport is down. */
  close(): Promise<void>;
}

/** An error as it stands in a frame. */
export interface WireError {
  readonly code: number;
  readonly message: string;
  readonly data?: Readonly<Record<string, unknown>>;
}

/** The gateway answered a call with an error. */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  /** The number; the reference of the gateway lists those of each method. */
  readonly code: number;
  /** The name of the error, which stays as it is, such as `session_not_found`. */
  readonly reason: string;
  /** The same call may succeed later. */
  readonly retryable: boolean;
  /** What else is said, such as `issues` of parameters that do not fit. */
  readonly data: Readonly<Record<string, unknown>>;

  constructor({ code, message, data = {} }: WireError) {
    super(message);
    this.code = code;
    this.data = data;
    this.reason = String(data["reason"]);
    this.retryable = !!data["retryable"];
  }
}

/** The connection was cut while the call was in flight: whether it was done is not known. It is not repeated. */
export class ConnectionCutError extends Error {
  override readonly name = "ConnectionCutError";

  constructor(method: string, cause?: unknown) {
    super(`Cut before ${method} was answered. Look whether it was done.`, { cause });
  }
}

/** The client is closed. `cause` says why, when nobody asked for it. */
export class GatewayClosedError extends Error {
  override readonly name = "GatewayClosedError";
}

/** Events were not read as fast as they came, and too many waited. */
export class EventsLostError extends Error {
  override readonly name = "EventsLostError";
  /** The last event of each session that was read. Call `events()` anew, then `session.events.since` or `session.history`. */
  readonly cursors: ReadonlyMap<string, Cursor>;

  constructor(cursors: ReadonlyMap<string, Cursor>) {
    super("Too many events wait. Call events() anew and read the history.");
    this.cursors = cursors;
  }
}
