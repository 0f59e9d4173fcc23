import type { Cursor } from "../../../generated/gateway/types/types.gen.ts";

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
