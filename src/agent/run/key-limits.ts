import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import { RateLimiter } from "../../base/rate-limiter.ts";
import type { Tx } from "../../store/store.ts";
import { lockName } from "../../store/tx/tx.ts";

/** A key of the API, as far as it is limited. */
export interface LimitedKey {
  /** The owner of what the key makes. */
  readonly name: string;
  /** Requests a minute; absent: no limit. */
  readonly rateLimitRpm?: number;
  /** Runs at once; absent: no limit of its own. */
  readonly maxConcurrentRuns?: number;
}

/** Of a prompt, what its admission is about. */
interface Limited {
  readonly address: { readonly owner: string };
  readonly delivery?: unknown;
  readonly admit?: (tx: Tx) => Promise<void>;
}

/** How soon a run may have ended. */
const RETRY_SECONDS = 1;

/**
 * What each key may use, whichever surface, connection or ticket its requests come by. A key is known by its name, the
 * owner of all that it makes, so nothing that is passed on can leave its limits behind. Keys of one name share them;
 * where they differ, the smaller holds.
 */
export class KeyLimits {
  readonly #clock: Clock;
  readonly #requests = new Map<string, RateLimiter>();
  readonly #maxRuns = new Map<string, number>();

  constructor(keys: Iterable<LimitedKey>, clock: Clock) {
    this.#clock = clock;
    for (const { name, rateLimitRpm, maxConcurrentRuns } of keys) {
      if (rateLimitRpm !== undefined) {
        const max = Math.min(rateLimitRpm, this.#requests.get(name)?.max ?? Infinity);
        this.#requests.set(name, new RateLimiter(max));
      }
      if (maxConcurrentRuns !== undefined) {
        this.#maxRuns.set(name, Math.min(maxConcurrentRuns, this.#maxRuns.get(name) ?? Infinity));
      }
    }
  }

  /** Runs that the key may have at once; undefined: no limit of its own. */
  maxRunsOf(owner: string): number | undefined {
    return this.#maxRuns.get(owner);
  }

  /** Counts a request of the key. ServiceError `rate_limit_exceeded` when it has none left; that one is not counted. */
  countRequest(owner: string): void {
    const limiter = this.#requests.get(owner);
    const refused = limiter?.take(owner, this.#clock.now());
    if (!limiter || !refused) return;
    const { seconds } = refused;
    throw new ServiceError(
      "rate_limit_exceeded",
      `The key ${JSON.stringify(owner)} may make ${limiter.max} requests a minute (rate_limit_rpm). Try again in ${seconds} seconds.`,
      { retryAfterSeconds: seconds },
    );
  }

  /**
   * Returns the prompt as its owner may have it run: recording it throws ServiceError `too_many_concurrent_runs` while as
   * many of the owner's runs are at work as there may be. Webhooks and scheduled jobs, whose answers go to others, come by
   * no key.
   */
  limitRuns<P extends Limited>(prompt: P): P {
    const { owner } = prompt.address;
    const limit = this.#maxRuns.get(owner);
    if (limit === undefined || prompt.delivery !== undefined) return prompt;
    return {
      ...prompt,
      admit: async (tx) => {
        await prompt.admit?.(tx);
        // On PostgreSQL another replica's transaction, not committed yet, could not be counted.
        await lockName(tx, JSON.stringify(["runs_of_key", owner]));
        if ((await countAtWork(tx, owner)) >= limit) throw tooMany(owner, limit);
      },
    };
  }
}

/**
 * Runs of an owner that take up room, or will as soon as there is some: one for each session that has any to end. What
 * waits behind it in the session, what is part of it, and what came by no key is not counted.
 */
async function countAtWork(tx: Tx, owner: string): Promise<number> {
  const counted = await tx.db
    .selectFrom("runs")
    .select((runs) => runs.fn.count("session_id").distinct().as("count"))
    .where("owner", "=", owner)
    .where("ended_at", "is", null)
    .where("kind", "!=", "subagent")
    .where("reply_to", "is", null)
    .executeTakeFirst();
  return Number(counted?.count ?? 0);
}

function tooMany(owner: string, limit: number): ServiceError {
  return new ServiceError(
    "too_many_concurrent_runs",
    `${limit} runs of the key ${JSON.stringify(owner)} are at work, which is its limit (max_concurrent_runs). Try again when one has ended.`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
}
