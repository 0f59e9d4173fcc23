import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import type { Identity } from "./auth.ts";

const WINDOW_MS = 60_000;

interface Window {
  readonly startMs: number;
  count: number;
}

/**
 * Requests a minute for each name of a key, in this process. A minute begins with the first request after the last one
 * ran out, so the wait that a refusal tells is exact. Names come from the configuration, which bounds what is kept.
 */
export class RateLimit {
  readonly #clock: Clock;
  readonly #windows = new Map<string, Window>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request. ServiceError `rate_limit_exceeded` when the key has none left; that one is not counted. */
  count({ name, rateLimitRpm }: Identity): void {
    if (rateLimitRpm === undefined) return;
    const nowMs = this.#clock.now();
    const window = this.#windowOf(name, nowMs);
    if (window.count < rateLimitRpm) {
      window.count++;
      return;
    }
    const waitSeconds = Math.max(1, Math.ceil((window.startMs + WINDOW_MS - nowMs) / 1000));
    throw new ServiceError(
      "rate_limit_exceeded",
      `The key ${JSON.stringify(name)} may make ${rateLimitRpm} requests a minute (rate_limit_rpm). Try again in ${waitSeconds} seconds.`,
      { retryAfterSeconds: waitSeconds },
    );
  }

  #windowOf(name: string, nowMs: number): Window {
    const known = this.#windows.get(name);
    // A clock that was set back must not stretch the minute.
    if (known && nowMs >= known.startMs && nowMs < known.startMs + WINDOW_MS) return known;
    const window = { startMs: nowMs, count: 0 };
    this.#windows.set(name, window);
    return window;
  }
}
