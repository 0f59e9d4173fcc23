import type { Clock } from "../../base/clock.ts";
import { StallError } from "./provider-error.ts";

/** Aborts a model call that sends nothing for `timeoutMs`; each piece of the answer starts the time anew. */
export class StallGuard {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #abort = new AbortController();
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
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

  end(): void {
    this.#cancel?.();
  }
}
