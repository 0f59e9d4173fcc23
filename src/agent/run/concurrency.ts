/** Which runs may start now in this process. Pure. */
import { ServiceError } from "../../base/errors.ts";
import type { Clock } from "../../base/clock.ts";
import { RateLimiter } from "../../base/rate-limiter.ts";
import type { Tx } from "../../store/store.ts";
import { lockName } from "../../store/tx/tx.ts";

/**
 * Set for a run that nobody waits at the wire for: while too many are at work it is recorded and waits, where another
 * would be refused.
 */
export interface RunSlot {
  /** Runs that are counted together. */
  readonly group: string;
  /** Most of the group at work at once in one process; absent: as many as of all. */
  readonly max?: number;
}

/** A run that was let in, or is to wait. */
export interface Permit {
  readonly waits: boolean;
  /** Makes room for another. Calling it again does nothing. */
  release(): void;
}

/** A session whose run waited, and may start now. */
export interface Ready {
  readonly sessionId: string;
  readonly permit: Permit;
}

/** Of sub-agents: the run that waits for them is counted. */
export const uncounted: Permit = { waits: false, release: () => {} };

/**
 * An permit that is asked for when it turns out that a run starts: a prompt that joins a session at work takes no room. At
 * most one, however often it is asked for, since the transaction that finds out may run again.
 */
export class PermitOnDemand {
  readonly #admit: () => Permit;
  #permit: Permit | undefined;

  constructor(admit: () => Permit) {
    this.#admit = admit;
  }

  /** As {@link ConcurrencyLimit.admit}. */
  take(): Permit {
    return (this.#permit ??= this.#admit());
  }

  /** Gives back what was taken, if anything was. */
  release(): void {
    this.#permit?.release();
  }
}

const MAX_WAITING = 1_000;

/**
 * Counts the runs at work, all together and by group, and keeps the sessions of those that wait in their order. What
 * waits is on disk before it comes here: a crash loses the order only.
 */
export class ConcurrencyLimit {
  readonly #max: number;
  readonly #onRelease: () => void;
  readonly #groups = new Map<string, number>();
  readonly #waiting = new Map<string, RunSlot>();
  #atWork = 0;

  /** `max` 0: no limit of all. `onRelease` is called whenever one leaves. */
  constructor({ max, onRelease }: { readonly max: number; readonly onRelease: () => void }) {
    this.#max = max > 0 ? max : Number.POSITIVE_INFINITY;
    this.#onRelease = onRelease;
  }

  /** Runs that wait for room in this process. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The sessions whose runs wait. */
  get sessions(): Iterable<string> {
    return this.#waiting.keys();
  }

  /**
   * Lets a new run in, or tells it to wait when it can. ServiceError `too_many_concurrent_runs` when it cannot, or when
   * too many wait.
   */
  admit(slot: RunSlot | undefined): Permit {
    if (this.hasFreeSlot(slot)) return this.acquire(slot);
    if (!slot) {
      throw tooMany(
        `${this.#max} runs are at work, which is the limit (limits.max_concurrent_runs). Try again when one has ended.`,
      );
    }
    if (this.#waiting.size >= MAX_WAITING) throw tooMany(`${MAX_WAITING} runs wait for others to end.`);
    return { waits: true, release: () => {} };
  }

  hasFreeSlot(slot: RunSlot | undefined): boolean {
    if (this.#atWork >= this.#max) return false;
    return slot?.max === undefined || (this.#groups.get(slot.group) ?? 0) < slot.max;
  }

  /** Counts a run, whether there is room for it or not. */
  acquire(slot: RunSlot | undefined): Permit {
    this.#count(slot, 1);
    let isInside = true;
    const leave = () => {
      if (!isInside) return;
      isInside = false;
      this.#count(slot, -1);
      this.#onRelease();
    };
    return { waits: false, release: leave };
  }

  wait(sessionId: string, slot: RunSlot): void {
    this.#waiting.set(sessionId, slot);
  }

  isWaiting(sessionId: string): boolean {
    return this.#waiting.has(sessionId);
  }

  /** The session waits no more. False when it did not, or was let in: then somebody else goes on with it. */
  forget(sessionId: string): boolean {
    return this.#waiting.delete(sessionId);
  }

  /** Lets the one in that has waited longest of those that there is room for. */
  next(): Ready | undefined {
    for (const [sessionId, slot] of this.#waiting) {
      if (!this.hasFreeSlot(slot)) continue;
      this.#waiting.delete(sessionId);
      return { sessionId, permit: this.acquire(slot) };
    }
    return undefined;
  }

  /** Empties what waits: the sessions. */
  takeAll(): readonly string[] {
    const sessions = [...this.#waiting.keys()];
    this.#waiting.clear();
    return sessions;
  }

  #count(slot: RunSlot | undefined, by: 1 | -1): void {
    this.#atWork += by;
    if (!slot) return;
    const count = (this.#groups.get(slot.group) ?? 0) + by;
    if (count > 0) this.#groups.set(slot.group, count);
    else this.#groups.delete(slot.group);
  }
}

function tooMany(message: string): ServiceError {
  return new ServiceError("too_many_concurrent_runs", message, { retryAfterSeconds: 1 });
}

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
        if ((await countAtWork(tx, owner)) >= limit) throw keyIsBusy(owner, limit);
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
    .where("delivery", "is", null)
    .executeTakeFirst();
  return Number(counted?.count ?? 0);
}

function keyIsBusy(owner: string, limit: number): ServiceError {
  return new ServiceError(
    "too_many_concurrent_runs",
    `${limit} runs of the key ${JSON.stringify(owner)} are at work, which is its limit (max_concurrent_runs). Try again when one has ended.`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
}
