/** Requests a minute for each route, in this process. Pure but for the clock it is given. */

const WINDOW_MS = 60_000;

/**
 * A fixed window of a minute that begins with the first request after the last one ran out. What is refused is not
 * counted. Names are those of known routes, which bounds what is kept.
 */
export class RouteRate {
  readonly #max: number;
  readonly #windows = new Map<string, { readonly startMs: number; count: number }>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a request. Undefined: it may pass; else how many seconds to wait. */
  take(route: string, nowMs: number): number | undefined {
    const known = this.#windows.get(route);
    // A clock that was set back must not stretch the minute.
    const isOpen = known && nowMs >= known.startMs && nowMs < known.startMs + WINDOW_MS;
    const window = isOpen ? known : { startMs: nowMs, count: 0 };
    this.#windows.set(route, window);
    if (window.count >= this.#max) return Math.max(1, Math.ceil((window.startMs + WINDOW_MS - nowMs) / 1000));
    window.count++;
    return undefined;
  }

  /** Forgets routes that are gone. */
  keep(routes: ReadonlySet<string>): void {
    for (const name of this.#windows.keys()) if (!routes.has(name)) this.#windows.delete(name);
  }
}
