import type { GatewayMethod } from "../../generated/gateway/rpc.gen.ts";
import type { Answer } from "./gateway-connection.ts";
import { ConnectionCutError, GatewayError } from "./gateway-error.ts";
import type { CallOptions, GatewayClock } from "./gateway-types.ts";

type Params = Readonly<Record<string, unknown>>;
type Result = Readonly<Record<string, unknown>>;

/** A call that has no answer yet. */
export interface PendingCall {
  readonly method: GatewayMethod;
  readonly params: Params;
  readonly frame: string;
  readonly settle: (error: unknown, result?: Result) => void;
  /** Of the client, not of its host: it ends with its connection. */
  readonly isOwn: boolean;
  isSent: boolean;
}

/** Methods that change nothing, or nothing more when they are called again. */
const REPEATABLE = new Set<GatewayMethod>([
  "rpc.discover",
  "ping",
  "gateway.ping",
  "setup.status",
  "pet.cells",
  "prompt.submit",
  "session.list",
  "session.active_list",
  "session.most_recent",
  "session.activate",
  "session.resume",
  "session.history",
  "session.usage",
  "session.status",
  "session.events.since",
  "approval.pending",
  "config.get",
  "commands.catalog",
  "command.resolve",
  "complete.slash",
  "complete.path",
  "model.options",
  "process.list",
  "delegation.status",
  "spawn_tree.list",
  "spawn_tree.load",
  "terminal.resize",
]);

const TIMEOUT_MS = 120_000;

/** The calls of one client, over all its connections. */
export class Calls {
  readonly #clock: GatewayClock;
  readonly #pending = new Map<string, PendingCall>();
  #next = 1;

  constructor(clock: GatewayClock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** A call that waits to be sent, and its answer. Reject: the signal's reason, or a TimeoutError. */
  add(
    method: GatewayMethod,
    params: Params,
    { signal, timeoutMs = TIMEOUT_MS, isOwn = false }: CallOptions & { readonly isOwn?: boolean },
  ): { readonly call: PendingCall; readonly answer: Promise<Result> } {
    const id = `c${this.#next++}`;
    const { promise: answer, resolve, reject } = Promise.withResolvers<Result>();
    const onAbort = () => call.settle(signal?.reason);
    const cancel =
      timeoutMs > 0
        ? this.#clock.after(timeoutMs, () => call.settle(timedOut(method, timeoutMs)))
        : undefined;
    const call: PendingCall = {
      method,
      params,
      frame: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
      isOwn,
      isSent: false,
      settle: (error, result) => {
        this.#pending.delete(id);
        cancel?.();
        signal?.removeEventListener("abort", onAbort);
        if (result) resolve(result);
        else reject(error);
      },
    };
    this.#pending.set(id, call);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    return { call, answer };
  }

  /** Returns the call that was answered, unless nobody waits for it any more. */
  answer({ id, result, error }: Answer): PendingCall | undefined {
    const call = this.#pending.get(id);
    call?.settle(error && new GatewayError(error), error ? undefined : (result ?? {}));
    return call;
  }

  /** Those that wait to be sent. */
  unsent(): readonly PendingCall[] {
    return [...this.#pending.values()].filter(({ isSent, isOwn }) => !isSent && !isOwn);
  }

  /** The connection is gone: what may be repeated waits for the next one. */
  cut(cause: Error): void {
    for (const call of this.#pending.values()) {
      if (!call.isSent) continue;
      if (REPEATABLE.has(call.method) && !call.isOwn) call.isSent = false;
      else call.settle(new ConnectionCutError(call.method, cause));
    }
  }

  /** There is no next connection. */
  close(error: Error): void {
    for (const call of this.#pending.values()) {
      call.settle(call.isSent ? new ConnectionCutError(call.method, error) : error);
    }
  }
}

function timedOut(method: GatewayMethod, ms: number): DOMException {
  return new DOMException(`${method} was not answered within ${ms} ms.`, "TimeoutError");
}
