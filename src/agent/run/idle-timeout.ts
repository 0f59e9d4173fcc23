import type { Clock } from "../../base/clock.ts";

/** A timer this much late, by the clock on the wall, tells that the clock was set or that the machine slept. */
const JUMP_MS = 30_000;

/**
 * Tells when nothing has happened for a while. Signs of life cost next to nothing: they may come with every piece of an
 * answer. Time in which the clock jumps or the machine sleeps does not count: nothing could happen in it.
 */
export class Inactivity {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #onInactive: () => void;
  #lastMs: number;
  #holders = 0;
  #cancel = (): void => {};

  /** Begins to count. `limitMs` 0: it never tells. */
  constructor(options: { readonly clock: Clock; readonly limitMs: number; readonly onInactive: () => void }) {
    this.#clock = options.clock;
    this.#limitMs = options.limitMs;
    this.#onInactive = options.onInactive;
    this.#lastMs = this.#clock.now();
    if (this.#limitMs > 0) this.#wait(this.#limitMs);
  }

  /** Something happened. */
  sign(): void {
    if (this.#limitMs > 0) this.#lastMs = this.#clock.now();
  }

  /** While `work` goes on nothing is told: it looks after itself. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#holders += 1;
    try {
      return await work();
    } finally {
      this.#holders -= 1;
      this.sign();
    }
  }

  end(): void {
    this.#cancel();
  }

  #wait(ms: number): void {
    const dueMs = this.#clock.now() + ms;
    this.#cancel = this.#clock.after(ms, () => this.#look(dueMs));
  }

  #look(dueMs: number): void {
    const nowMs = this.#clock.now();
    if (this.#holders > 0 || Math.abs(nowMs - dueMs) > JUMP_MS || nowMs < this.#lastMs) this.#lastMs = nowMs;
    const leftMs = this.#lastMs + this.#limitMs - nowMs;
    if (leftMs > 0) this.#wait(leftMs);
    else this.#onInactive();
  }
}
