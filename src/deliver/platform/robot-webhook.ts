import type { Clock } from "../../base/clock.ts";

/** The webhooks of robots in groups, as DingTalk and WeCom show them: an address with a key in its query. Pure. */
export interface RobotWebhook {
  /** Without the path and the query, and without a slash at the end. */
  readonly baseUrl: string;
  /** Who has it may write to the group. */
  readonly key: string;
}

/** The chat of messages for the webhook, where others name a chat of the app's or the bot's. */
export const WEBHOOK_CHAT = "webhook";

/** Undefined when `url` does not end in `path` with a value for `query`. */
export function parseRobotWebhook(url: string, path: string, query: string): RobotWebhook | undefined {
  if (!URL.canParse(url)) return undefined;
  const { origin, pathname, searchParams } = new URL(url);
  const key = searchParams.get(query);
  if (!key || !pathname.endsWith(path)) return undefined;
  return { baseUrl: `${origin}${pathname.slice(0, -path.length)}`, key };
}

interface PaceOptions {
  readonly clock: Clock;
  /** So many in any stretch of `windowMs`. */
  readonly limit: number;
  readonly windowMs: number;
}

/** How fast a platform wants to be written to, where it punishes who writes faster. Counts in this process alone. */
export class Pace {
  readonly #options: PaceOptions;
  #taken: number[] = [];
  #heldUntilMs = 0;
  #lastMs = 0;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  /** 0: go, it is counted. Else milliseconds to wait, and nothing is counted. */
  take(): number {
    const waitMs = this.waitMs;
    if (waitMs === 0) this.#taken.push(this.#lastMs);
    return waitMs;
  }

  /** What {@link take} would say. */
  get waitMs(): number {
    const { limit, windowMs } = this.#options;
    const nowMs = this.#now();
    while (this.#taken[0] !== undefined && this.#taken[0] <= nowMs - windowMs) this.#taken.shift();
    const [oldestMs = 0] = this.#taken;
    const freeAtMs = this.#taken.length < limit ? 0 : oldestMs + windowMs;
    return Math.max(0, freeAtMs - nowMs, this.#heldUntilMs - nowMs);
  }

  /** The platform asks for silence. */
  hold(ms: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, this.#now() + ms);
  }

  /** What was noted by a clock that is put back moves along: nobody waits for it to come to where it was. */
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
