/** Tickets that let a browser in once, where it cannot send a header. Touches the machine (random numbers). */
import { randomBytes } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import { LruMap } from "../base/lru.ts";

const LIFE_MS = 30_000;
const MAX_OPEN = 1_024;

/** Kept in memory: a ticket is good in the process that made it. `T` is what it stands for. */
export class Tickets<T> {
  readonly #clock: Clock;
  readonly #open = new LruMap<string, { readonly holder: T; readonly untilMs: number }>(MAX_OPEN);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** 32 random bytes as base64url, good once and for 30 s. The oldest goes when there are too many. */
  make(holder: T): { readonly ticket: string; readonly lifeMs: number } {
    const ticket = randomBytes(32).toString("base64url");
    this.#open.set(ticket, { holder, untilMs: this.#clock.now() + LIFE_MS });
    return { ticket, lifeMs: LIFE_MS };
  }

  /** What it stands for; undefined when there is no such ticket, it was used, or it is too old. */
  take(ticket: string): T | undefined {
    const found = this.#open.get(ticket);
    this.#open.delete(ticket);
    return found && found.untilMs > this.#clock.now() ? found.holder : undefined;
  }
}
