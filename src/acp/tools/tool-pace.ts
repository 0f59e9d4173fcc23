import type { Clock } from "../../base/clock.ts";

/** Live output of a call is told at most so often. */
export const LIVE_EVERY_MS = 250;

/** Runs something at most once in a while, and once more for what was asked for meanwhile; never twice at a time. */
export class Pace {
  readonly #clock: Clock;
  readonly #everyMs: number;
  readonly #run: () => Promise<void>;
  #lastMs = Number.NEGATIVE_INFINITY;
  #cancel: (() => void) | undefined;
  #isRunning = false;
  #isWanted = false;
  #isOver = false;

  /** `run` must not reject. */
  constructor(clock: Clock, everyMs: number, run: () => Promise<void>) {
    this.#clock = clock;
    this.#everyMs = everyMs;
    this.#run = run;
  }

  poke(): void {
    if (this.#isOver || this.#cancel) return;
    this.#isWanted = true;
    if (this.#isRunning) return;
    const waitMs = this.#lastMs + this.#everyMs - this.#clock.now();
    if (waitMs <= 0) return void this.#go();
    this.#cancel = this.#clock.after(waitMs, () => {
      this.#cancel = undefined;
      void this.#go();
    });
  }

  /** Nothing runs from now on. */
  stop(): void {
    this.#isOver = true;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  async #go(): Promise<void> {
    this.#isRunning = true;
    this.#isWanted = false;
    this.#lastMs = this.#clock.now();
    await this.#run();
    this.#isRunning = false;
    if (this.#isWanted) this.poke();
  }
}
