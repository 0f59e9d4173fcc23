/** One-time tickets for browsers, which cannot send a header everywhere. Touches the machine (random numbers). */
import { randomBytes } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import { LruMap } from "../base/lru.ts";

const LIFE_MS = 30_000;
const MAX_OPEN = 1_024;

/** Kept in memory: a ticket is valid in the process that created it. `T` is the value behind a ticket. */
export class Tickets<T> {
  readonly #clock: Clock;
  readonly #open = new LruMap<string, { readonly holder: T; readonly untilMs: number }>(MAX_OPEN);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Creates a ticket: 32 random bytes as base64url, valid once and for 30 s. Beyond the limit the oldest is dropped.
   */
  make(holder: T): { readonly ticket: string; readonly lifeMs: number } {
    const ticket = randomBytes(32).toString("base64url");
    this.#open.set(ticket, { holder, untilMs: this.#clock.now() + LIFE_MS });
    return { ticket, lifeMs: LIFE_MS };
  }

  /** Redeems a ticket; undefined when it does not exist, was used, or has expired. */
  take(ticket: string): T | undefined {
    const found = this.#open.get(ticket);
    this.#open.delete(ticket);
    return found && found.untilMs > this.#clock.now() ? found.holder : undefined;
  }
}
