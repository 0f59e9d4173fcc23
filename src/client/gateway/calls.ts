import type { GatewayMethod } from "../../../generated/gateway/rpc.gen.ts";
import {
  ConnectionCutError,
  GatewayError,
  type WireError,
  type CallOptions,
  type GatewayClock,
} from "./types.ts";

export type Fields = Readonly<Record<string, unknown>>;

/** The response to a call. */
export interface Answer {
  readonly id: string;
  readonly result?: Fields;
  readonly error?: WireError;
}

/** A call without a response. */
export interface PendingCall {
  readonly method: GatewayMethod;
  readonly params: Fields;
  readonly frame: string;
  /** Whether the client itself made the call; such a call ends with its connection. */
  readonly isOwn: boolean;
  readonly answer: Promise<Fields>;
  settle(error: unknown, result?: Fields): void;
  isSent: boolean;
}

/** Methods that are read-only or idempotent. A test compares it with the list of all methods. */
export const REPEATABLE =
  /(ping|discover|cells|submit|list|recent|activate|resume|history|usage|status|since|pending|get|log|resolve|options|load|^complete\.\w+)$/;

/** The pending calls of one client, over all its connections. */
export class Calls extends Map<string, PendingCall> {
  readonly #clock: GatewayClock;
  #next = 1;

  constructor(clock: GatewayClock) {
    super();
    this.#clock = clock;
  }

  /** Adds a call to be sent. Its answer also rejects with the signal's reason and with TimeoutError. */
  add(
    method: GatewayMethod,
    params: Fields,
    { signal, timeoutMs = 120_000, isOwn = false }: CallOptions & { readonly isOwn?: boolean },
  ): PendingCall {
    const id = `c${this.#next++}`;
    const { promise: answer, resolve, reject } = Promise.withResolvers<Fields>();
    const onTimeout = () => {
      settle(new DOMException(`${method}: no answer within ${timeoutMs} ms.`, "TimeoutError"));
    };
    let forget = () => {};
    const cancel = timeoutMs && this.#clock.after(timeoutMs, onTimeout);
    const settle: PendingCall["settle"] = (error, result) => {
      this.delete(id);
      if (cancel) cancel();
      forget();
      if (result) resolve(result);
      else reject(error);
    };
    const frame = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    const call = { method, params, frame, isOwn, answer, settle, isSent: false };
    this.set(id, call);
    forget = whenAborted(signal, () => settle(signal?.reason));
    return call;
  }

  /** Settles the answered call and returns it, unless it has already ended. */
  answer({ id, result, error }: Answer): PendingCall | undefined {
    const call = this.get(id);
    call?.settle(error && new GatewayError(error), result);
    return call;
  }

  /** Handles a cut connection: repeatable calls wait for the next one, unless this was the last. */
  cut(cause: Error, isLast: boolean): void {
    for (const call of this.values()) {
      const { method, isSent, isOwn } = call;
      if (!isLast && !isOwn && REPEATABLE.test(method)) call.isSent = false;
      else if (isSent) call.settle(new ConnectionCutError(method, cause));
      else if (isLast) call.settle(cause);
    }
  }
}

/** Calls `run` when the signal aborts, at once if it already has. Returns a function that removes the listener. */
export function whenAborted(signal: AbortSignal | undefined, run: () => void): () => void {
  if (signal?.aborted) run();
  else signal?.addEventListener("abort", run);
  return () => signal?.removeEventListener("abort", run);
}
