import { abortable, type Clock } from "../../base/time.ts";
import type { TurnPorts } from "../engine.ts";
import { StallError } from "./provider-error.ts";

interface StallGuardOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly drain?: TurnPorts["drain"];
}

/**
 * Aborts a model call when its turn is stopped or the provider sends nothing for `timeoutMs`. It does not rely on the
 * request to notice: on Deno a running fetch can lose its signal to the garbage collector and would never end.
 */
export class StallGuard {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #turn: AbortSignal;
  readonly #abort = new AbortController();
  readonly #follow = () => this.#abort.abort(this.#turn.reason);
  readonly #drain: () => Promise<void> | undefined;
  #cancel: (() => void) | undefined;
  #ended = false;

  /** `drain`: see {@link TurnPorts.drain}. */
  constructor(clock: Clock, options: StallGuardOptions) {
    this.#clock = clock;
    this.#timeoutMs = options.timeoutMs;
    this.#turn = options.signal;
    this.#drain = options.drain ?? (() => undefined);
    if (this.#turn.aborted) this.#follow();
    else this.#turn.addEventListener("abort", this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  alive(): void {
    this.#cancel?.();
    const seconds = this.#timeoutMs / 1000;
    const expire = () => this.#abort.abort(new StallError(`sent nothing for ${seconds} seconds.`));
    this.#cancel = this.#clock.after(this.#timeoutMs, expire);
  }

  /** Returns what to await before the next part is read. The provider does not count as silent meanwhile. */
  drained(): Promise<void> | undefined {
    const waiting = this.#drain();
    if (!waiting) return undefined;
    this.#cancel?.();
    return waiting.then(() => {
      if (!this.#ended) this.alive();
    });
  }

  /** Settles as `work` does, or rejects with the guard's reason once it aborts. */
  run<T>(work: Promise<T>): Promise<T> {
    return abortable(work, this.signal);
  }

  /** Passes the parts of the answer to `take` until it returns true. Rejects with the guard's reason once it aborts. */
  async read<T>(
    start: PromiseLike<{ readonly stream: ReadableStream<T> }>,
    take: (part: T) => boolean,
  ): Promise<void> {
    const reader = await this.#begin(start);
    // Cancelling a stream ends its pending read at once, whatever its source does.
    const cancel = () => void reader.cancel().catch(() => undefined);
    this.signal.addEventListener("abort", cancel, { once: true });
    try {
      for (;;) {
        this.signal.throwIfAborted();
        const { done, value } = await reader.read();
        if (done) break;
        this.alive();
        if (take(value)) break;
        const waiting = this.drained();
        if (waiting) await waiting;
      }
      this.signal.throwIfAborted();
    } finally {
      this.signal.removeEventListener("abort", cancel);
      cancel();
    }
  }

  /** Resolves to the started answer, or rejects with the guard's reason and cancels an answer that starts too late. */
  #begin<T>(
    start: PromiseLike<{ readonly stream: ReadableStream<T> }>,
  ): Promise<ReadableStreamDefaultReader<T>> {
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(this.signal.reason);
      this.signal.addEventListener("abort", onAbort, { once: true });
      if (this.signal.aborted) onAbort();
      start.then(({ stream }) => {
        this.signal.removeEventListener("abort", onAbort);
        const reader = stream.getReader();
        if (this.signal.aborted) reader.cancel().catch(() => undefined);
        resolve(reader);
      }, reject);
    });
  }

  end(): void {
    this.#ended = true;
    this.#cancel?.();
    this.#turn.removeEventListener("abort", this.#follow);
  }
}
