import { retryWhileUnavailable } from "../../store/tx/retry.ts";
import type { Execution } from "../run/execution.ts";
import { LEASE_MS } from "../run/session-queue.ts";
import type { AgentDeps } from "../deps.ts";

interface AliveOptions {
  readonly deps: Pick<AgentDeps, "clock" | "log">;
  readonly running: ReadonlyMap<string, Execution>;
  /** Sessions whose runs wait for room. */
  readonly waiting: () => Iterable<string>;
}

/**
 * The sessions under whose leases something is alive in this process: a run, one that waits for room, or one that starts.
 * The leases of all others run out, whoever holds them, and recovery takes these sessions over.
 */
export class AliveSessions {
  readonly #options: AliveOptions;
  readonly #starting = new Set<string>();
  /** Runs that are over and whose end could not be written yet. */
  readonly #ending = new Set<string>();
  readonly #cut = new AbortController();

  constructor(options: AliveOptions) {
    this.#options = options;
  }

  get all(): ReadonlySet<string> {
    const running = Array.from(this.#options.running.values(), ({ sessionId }) => sessionId);
    return new Set([...running, ...this.#starting, ...this.#options.waiting()]);
  }

  /**
   * Those whose leases are to be renewed: not those whose run is over and whose end cannot be written. Their leases run
   * out while that is tried, so that a run whose end is given up is closed soon.
   */
  get leased(): ReadonlySet<string> {
    const ending = Array.from(this.#ending, (runId) => this.#options.running.get(runId)?.sessionId ?? "");
    return this.all.difference(new Set(ending));
  }

  /** Calls `write`, which starts a run of the session, again while the store is away and the lease may be ours. */
  async start<T>(sessionId: string, write: () => Promise<T>): Promise<T> {
    this.#starting.add(sessionId);
    try {
      return await this.#retry(write);
    } finally {
      this.#starting.delete(sessionId);
    }
  }

  /** Calls `write`, which ends a run, again while the store is away and the session's lease may be ours. */
  async end<T>(runId: string, write: () => Promise<T>): Promise<T> {
    const { log } = this.#options.deps;
    try {
      return await this.#retry(write, (error) => {
        if (!this.#ending.has(runId))
          log.warn("the end of a run could not be recorded yet; trying again", { run: runId, error });
        this.#ending.add(runId);
      });
    } finally {
      this.#ending.delete(runId);
    }
  }

  /** What cannot be written from now on is given up at once, and left to recovery. */
  cut(): void {
    this.#cut.abort();
  }

  #retry<T>(write: () => Promise<T>, onRetry?: (error: unknown) => void): Promise<T> {
    const { clock } = this.#options.deps;
    const { signal } = this.#cut;
    return retryWhileUnavailable(write, { clock, signal, forMs: LEASE_MS, ...(onRetry ? { onRetry } : {}) });
  }
}
