import type { Clock } from "../../base/clock.ts";

/** Webhooks of group robots, as DingTalk and WeCom show them: a URL with a key in its query. Pure. */
export interface RobotWebhook {
  /** Without the path and the query, and without a slash at the end. */
  readonly baseUrl: string;
  /** Anyone with this key can write to the group. */
  readonly key: string;
}

/** The chat name that selects the webhook instead of the app or the bot. */
export const WEBHOOK_CHAT = "webhook";

/** Parses the webhook's URL. Returns undefined when `url` does not end in `path` with a value for `query`. */
export function parseRobotWebhook(url: string, path: string, query: string): RobotWebhook | undefined {
  if (!URL.canParse(url)) return undefined;
  const { origin, pathname, searchParams } = new URL(url);
  const key = searchParams.get(query);
  if (!key || !pathname.endsWith(path)) return undefined;
  return { baseUrl: `${origin}${pathname.slice(0, -path.length)}`, key };
}

interface PaceOptions {
  readonly clock: Clock;
  /** Most calls in any window of `windowMs`. */
  readonly limit: number;
  readonly windowMs: number;
}

/** Client-side rate limit for a platform that penalizes senders above its limit. Counts in this process only. */
export class Pace {
  readonly #options: PaceOptions;
  #taken: number[] = [];
  #heldUntilMs = 0;
  #lastMs = 0;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  /** Returns 0 and counts the call, or returns the milliseconds to wait and counts nothing. */
  take(): number {
    const waitMs = this.waitMs;
    if (waitMs === 0) this.#taken.push(this.#lastMs);
    return waitMs;
  }

  /** What {@link take} would return. */
  get waitMs(): number {
    const { limit, windowMs } = this.#options;
    const nowMs = this.#now();
    while (this.#taken[0] !== undefined && this.#taken[0] <= nowMs - windowMs) this.#taken.shift();
    const [oldestMs = 0] = this.#taken;
    const freeAtMs = this.#taken.length < limit ? 0 : oldestMs + windowMs;
    return Math.max(0, freeAtMs - nowMs, this.#heldUntilMs - nowMs);
  }

  /** Blocks all calls for `ms`, as the platform asked. */
  hold(ms: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, this.#now() + ms);
  }

  /** When the clock is set back, the stored times move along, so that no call waits for the old time. */
  #now(): number {
    const nowMs = this.#options.clock.now();
    const backMs = this.#lastMs - nowMs;
    this.#lastMs = nowMs;
    if (backMs <= 0) return nowMs;
    this.#taken = this.#taken.map((ms) => ms - backMs);
    this.#heldUntilMs -= backMs;
    return nowMs;
  }
}
