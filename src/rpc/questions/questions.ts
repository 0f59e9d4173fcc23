/** What one host was asked and has not answered. */
import { hostRequests, type HostMethod, type HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { Log } from "../../base/observe/log.ts";
import type { HostError, RpcId } from "../connection/frame.ts";
import type { HostAnswer } from "../connection/peer.ts";
import { rpcSchemas } from "../connection/schemas.ts";

interface Pending {
  readonly method: HostMethod;
  readonly settle: (answer: HostAnswer<HostMethod>) => void;
}

export class Questions {
  readonly #send: (frame: object, sessionId: string) => void;
  readonly #log: Log;
  readonly #pending = new Map<string, Pending>();

  constructor(send: (frame: object, sessionId: string) => void, log: Log) {
    this.#send = send;
    this.#log = log;
  }

  /** See RpcPeer. A question that is asked again takes the place of the one that waits. */
  ask<K extends HostMethod>(
    method: K,
    id: string,
    params: HostRequests[K]["params"],
    signal: AbortSignal | undefined,
  ): Promise<HostAnswer<K>> {
    return new Promise((resolve) => {
      const gone = () => settle({ status: "gone" });
      const settle = (answer: HostAnswer<HostMethod>) => {
        this.#pending.delete(id);
        signal?.removeEventListener("abort", gone);
        resolve(answer as HostAnswer<K>);
      };
      if (signal?.aborted) return resolve({ status: "gone" });
      this.#pending.get(id)?.settle({ status: "gone" });
      this.#pending.set(id, { method, settle });
      signal?.addEventListener("abort", gone, { once: true });
      this.#send({ jsonrpc: "2.0", id, method, params }, params.session_id);
    });
  }

  /** What the host answered. An answer that nobody waits for is dropped: the question was closed meanwhile. */
  answer(id: RpcId, result: unknown, error: HostError | undefined): void {
    const pending = typeof id === "string" ? this.#pending.get(id) : undefined;
    if (!pending) return this.#log.debug("an answer to no open question was dropped", { id });
    const { method, settle } = pending;
    if (error) {
      this.#log.debug("the host declined a question", { id, method, code: error.code });
      return settle({ status: "declined" });
    }
    if (rpcSchemas.check(hostRequests[method].result, result)) {
      // Not what was answered: it may be a password.
      this.#log.warn("the host's answer does not fit its question", { id, method });
      return settle({ status: "declined" });
    }
    settle({ status: "answered", result: result as HostRequests[HostMethod]["result"] });
  }

  /** The connection ended. */
  close(): void {
    for (const { settle } of this.#pending.values()) settle({ status: "gone" });
  }
}
