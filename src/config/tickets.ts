/** Tickets that let a browser in once, where it cannot send a header. Touches the machine (random numbers). */
import { randomBytes } from "node:crypto";
import type { Clock } from "../base/clock.ts";

const LIFE_MS = 30_000;
const MAX_OPEN = 1_024;

/** Kept in memory: a ticket is good in the process that made it. `T` is what it stands for. */
export class Tickets<T> {
  readonly #clock: Clock;
  readonly #open = new Map<string, { readonly holder: T; readonly untilMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** 32 random bytes as base64url, good once and for 30 s. The oldest goes when there are too many. */
  make(holder: T): { readonly ticket: string; readonly lifeMs: number } {
    const nowMs = this.#clock.now();
    for (const [ticket, { untilMs }] of this.#open) if (untilMs <= nowMs) this.#open.delete(ticket);
    const [oldest] = this.#open.keys();
    if (oldest !== undefined && this.#open.size >= MAX_OPEN) this.#open.delete(oldest);
    const ticket = randomBytes(32).toString("base64url");
    this.#open.set(ticket, { holder, untilMs: nowMs + LIFE_MS });
    return { ticket, lifeMs: LIFE_MS };
  }

  /** What it stands for; undefined when there is no such ticket, it was used, or it is too old. */
  take(ticket: string): T | undefined {
    const found = this.#open.get(ticket);
    this.#open.delete(ticket);
    return found && found.untilMs > this.#clock.now() ? found.holder : undefined;
  }
}
