import type { BusyTargets } from "../store/outbox.ts";

/** What is due for longer than this is committed by now: nothing appears before it any more. */
const SETTLED_MS = 5_000;
/** How long a beginning is good for at most: clocks of other processes may stand apart. */
const GOOD_FOR_MS = 5_000;
/** A look from the very beginning may take a fifth of the time. */
const PAUSE_FACTOR = 4;

/**
 * Where in the outbox to begin looking. What a busy target is owed stands first and may be much: once it has been
 * looked through, it is not looked through again for every other message. When a busy target is free again the look is
 * from the beginning, but no more often than those looks are cheap.
 */
export class Scan {
  #fromMs = 0;
  #isStale = true;
  #isWhole = false;
  #begunMs = Number.NEGATIVE_INFINITY;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #busy: ReadonlySet<string> = new Set();

  /** Due instants before this one need no look. `nowMs` is this process's time. */
  begin({ targets, platforms }: BusyTargets, nowMs: number): number {
    const busy = new Set([...targets, ...platforms.map((platform) => `${platform}:`)]);
    this.#isStale ||= !busy.isSupersetOf(this.#busy) || nowMs - this.#begunMs > GOOD_FOR_MS;
    this.#busy = busy;
    this.#isWhole = this.#isStale && nowMs >= this.#notBeforeMs;
    if (this.#isWhole) {
      this.#isStale = false;
      this.#fromMs = 0;
      this.#begunMs = nowMs;
    }
    return this.#fromMs;
  }

  /**
   * `firstMs` is the earliest due instant that was found, undefined when nothing was; `storeMs` the store's time.
   * Returns how soon another look is due all the same.
   */
  end(firstMs: number | undefined, storeMs: number, nowMs: number): number {
    if (this.#isWhole) this.#notBeforeMs = nowMs + (nowMs - this.#begunMs) * PAUSE_FACTOR;
    this.#fromMs = Math.max(this.#fromMs, Math.min(firstMs ?? storeMs, storeMs - SETTLED_MS));
    return this.#isStale ? Math.max(0, this.#notBeforeMs - nowMs) : Number.POSITIVE_INFINITY;
  }
}
