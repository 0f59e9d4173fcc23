/** Limits requests per minute by name, in this process. Pure but for the time that it is given. */

const WINDOW_MS = 60_000;
/** With more names, those whose minute is over are dropped. */
const MAX_WINDOWS = 1_000;

interface Window {
  readonly startMs: number;
  passed: number;
  refused: number;
}

/** A refused request. */
export interface RateRefusal {
  /** Until the minute is over; at least 1. */
  readonly seconds: number;
  /** Number of refused requests in this minute, this one included. */
  readonly count: number;
}

/**
 * A fixed window of a minute that begins with the first request after the previous window, so delay in a refusal is
 * exact. Refused requests do not extend it.
 */
export class RateLimiter {
  /** Requests of one name that pass per minute. */
  readonly max: number;
  readonly #windows = new Map<string, Window>();

  constructor(max: number) {
    this.max = max;
  }

  /** Counts a request. Undefined: it passes. */
  take(name: string, nowMs: number): RateRefusal | undefined {
    const window = this.#windowOf(name, nowMs);
    if (window.passed < this.max) {
      window.passed++;
      return undefined;
    }
    window.refused++;
    return {
      seconds: Math.max(1, Math.ceil((window.startMs + WINDOW_MS - nowMs) / 1000)),
      count: window.refused,
    };
  }

  #windowOf(name: string, nowMs: number): Window {
    const known = this.#windows.get(name);
    if (known && isOpen(known, nowMs)) return known;
    if (this.#windows.size >= MAX_WINDOWS) this.#forget(nowMs);
    const window = { startMs: nowMs, passed: 0, refused: 0 };
    this.#windows.set(name, window);
    return window;
  }

  #forget(nowMs: number): void {
    for (const [name, window] of this.#windows) if (!isOpen(window, nowMs)) this.#windows.delete(name);
  }
}

/** A clock that was set back must not extend the minute. */
function isOpen({ startMs }: Window, nowMs: number): boolean {
  return nowMs >= startMs && nowMs < startMs + WINDOW_MS;
}
