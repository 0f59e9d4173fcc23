/** Requests a minute for each route, in this process. Pure but for the clock it is given. */

const WINDOW_MS = 60_000;
/** Beyond so many routes, those whose minute is over are forgotten. */
const MAX_WINDOWS = 1_000;

interface Window {
  readonly startMs: number;
  passed: number;
  refused: number;
}

/** A request that has to wait. */
export interface RateRefusal {
  /** Until the minute is over; at least 1. */
  readonly seconds: number;
  /** Which refused one of its minute it is, from 1. */
  readonly count: number;
}

/**
 * A fixed window of a minute that begins with the first request after the last one ran out. What is refused does not
 * make it longer.
 */
export class RouteRate {
  /** Requests that pass in a minute. */
  readonly max: number;
  readonly #windows = new Map<string, Window>();

  constructor(max: number) {
    this.max = max;
  }

  /** Counts a request of a route that there is. Undefined: it may pass. */
  take(route: string, nowMs: number): RateRefusal | undefined {
    const window = this.#windowOf(route, nowMs);
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

  #windowOf(route: string, nowMs: number): Window {
    const known = this.#windows.get(route);
    if (known && isOpen(known, nowMs)) return known;
    if (this.#windows.size >= MAX_WINDOWS) this.#forget(nowMs);
    const window = { startMs: nowMs, passed: 0, refused: 0 };
    this.#windows.set(route, window);
    return window;
  }

  #forget(nowMs: number): void {
    for (const [route, window] of this.#windows) if (!isOpen(window, nowMs)) this.#windows.delete(route);
  }
}

/** A clock that was set back must not stretch the minute. */
function isOpen({ startMs }: Window, nowMs: number): boolean {
  return nowMs >= startMs && nowMs < startMs + WINDOW_MS;
}
