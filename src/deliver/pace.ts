import type { Clock } from "../base/clock.ts";

export interface PaceOptions {
  readonly clock: Clock;
  /** So many in any stretch of `windowMs`. */
  readonly limit: number;
  readonly windowMs: number;
}

/** How fast a platform wants to be written to, where it punishes who writes faster. Counts in this process alone. */
export class Pace {
  readonly #options: PaceOptions;
  readonly #taken: number[] = [];
  #heldUntilMs = 0;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  /** 0: go, it is counted. Else milliseconds to wait, and nothing is counted. */
  take(): number {
    const waitMs = this.waitMs;
    if (waitMs === 0) this.#taken.push(this.#options.clock.now());
    return waitMs;
  }

  /** What {@link take} would say. */
  get waitMs(): number {
    const { clock, limit, windowMs } = this.#options;
    const nowMs = clock.now();
    while (this.#taken[0] !== undefined && this.#taken[0] <= nowMs - windowMs) this.#taken.shift();
    const [oldestMs = 0] = this.#taken;
    const freeAtMs = this.#taken.length < limit ? 0 : oldestMs + windowMs;
    return Math.max(0, freeAtMs - nowMs, this.#heldUntilMs - nowMs);
  }

  /** The platform asks for silence. */
  hold(ms: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, this.#options.clock.now() + ms);
  }
}
