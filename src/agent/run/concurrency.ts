/** Limits of concurrent runs: of the process, of a group, and of an API key. */
import { ServiceError } from "../../base/errors.ts";
import type { Clock } from "../../base/clock.ts";
import { RateLimiter } from "../../base/rate-limiter.ts";
import type { Tx } from "../../store/store.ts";
import { lockName } from "../../store/tx/tx.ts";

/**
 * Set for a run without a waiting client. Above the limit such a run is recorded and waits; any other run is refused.
 */
export interface RunSlot {
  /** Runs of the same group are counted together. */
  readonly group: string;
  /** Most runs of the group at once in one process; absent: only the limit of all runs applies. */
  readonly max?: number;
}

/** The right of one run to be at work. */
export interface Permit {
  /** True: the run must wait; the permit counts nothing. */
  readonly waits: boolean;
  /** Frees the place for another run. Calling it again does nothing. */
  release(): void;
}

/** A session whose waiting run may start now. */
export interface Ready {
  readonly sessionId: string;
  readonly permit: Permit;
}

/** The permit of sub-agents: only the run that waits for them is counted. */
export const uncounted: Permit = { waits: false, release: () => {} };

/**
 * A permit taken only when a run starts: a prompt that joins a busy session needs none. Takes at most one, however often
 * it is called, since the transaction that decides may run again.
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

  /** Releases the permit if one was taken. */
  release(): void {
    this.#permit?.release();
  }
}

const MAX_WAITING = 1_000;

/**
 * Counts the runs at work, in total and by group, and keeps the waiting sessions in order. Waiting runs are already on
 * disk, so a crash loses only their order.
 */
export class ConcurrencyLimit {
  readonly #max: number;
  readonly #onRelease: () => void;
  readonly #groups = new Map<string, number>();
  readonly #waiting = new Map<string, RunSlot>();
  #atWork = 0;

  /** `max` 0: no limit. `onRelease` is called whenever a run releases its permit. */
  constructor({ max, onRelease }: { readonly max: number; readonly onRelease: () => void }) {
    this.#max = max > 0 ? max : Number.POSITIVE_INFINITY;
    this.#onRelease = onRelease;
  }

  /** Number of runs that wait for a permit in this process. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The sessions whose runs wait, in order. */
  get sessions(): Iterable<string> {
    return this.#waiting.keys();
  }

  /**
   * Admits a new run, or makes it wait if it has a slot. ServiceError `too_many_concurrent_runs` when it has none, or
   * when too many runs wait.
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

  /** Counts a run, even above the limit. */
  acquire(slot: RunSlot | undefined): Permit {
    this.#count(slot, 1);
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      this.#count(slot, -1);
      this.#onRelease();
    };
    return { waits: false, release };
  }

  wait(sessionId: string, slot: RunSlot): void {
    this.#waiting.set(sessionId, slot);
  }

  isWaiting(sessionId: string): boolean {
    return this.#waiting.has(sessionId);
  }

  /** Takes the session off the waiting list. False when it was not on it: it never waited, or was admitted. */
  forget(sessionId: string): boolean {
    return this.#waiting.delete(sessionId);
  }

  /** Admits the session that has waited longest among those within their limits. */
  next(): Ready | undefined {
    for (const [sessionId, slot] of this.#waiting) {
      if (!this.hasFreeSlot(slot)) continue;
      this.#waiting.delete(sessionId);
      return { sessionId, permit: this.acquire(slot) };
    }
    return undefined;
  }

  /** Empties the waiting list and returns its sessions. */
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

/** The limits of an API key. */
export interface LimitedKey {
  /** Owner of everything the key creates. */
  readonly name: string;
  /** Requests a minute; absent: no limit. */
  readonly rateLimitRpm?: number;
  /** Concurrent runs; absent: no limit of its own. */
  readonly maxConcurrentRuns?: number;
}

/** The fields of a prompt that its admission depends on. */
interface Limited {
  readonly address: { readonly owner: string };
  readonly delivery?: unknown;
  readonly admit?: (tx: Tx) => Promise<void>;
}

/** When a client may try again: a run may have ended by then. */
const RETRY_SECONDS = 1;

/**
 * The limits of each key, on every surface, connection and ticket. A key is identified by its name, the owner of
 * everything it creates, so its limits follow a ticket or session. Keys of one name share their limits; where these differ,
 * the smaller one applies.
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

  /** Returns how many concurrent runs the key may have; undefined: no limit of its own. */
  maxRunsOf(owner: string): number | undefined {
    return this.#maxRuns.get(owner);
  }

  /** Counts a request of the key. ServiceError `rate_limit_exceeded` above the limit; that request is not counted. */
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
   * Returns the prompt with the owner's limit added: recording it throws ServiceError `too_many_concurrent_runs` while the
   * owner has reached its limit. Prompts of webhooks and scheduled jobs, which have a `delivery`, use no key.
   */
  limitRuns<P extends Limited>(prompt: P): P {
    const { owner } = prompt.address;
    const limit = this.#maxRuns.get(owner);
    if (limit === undefined || prompt.delivery !== undefined) return prompt;
    return {
      ...prompt,
      admit: async (tx) => {
        await prompt.admit?.(tx);
        // On PostgreSQL the count does not see another replica's open transaction.
        await lockName(tx, JSON.stringify(["runs_of_key", owner]));
        if ((await countAtWork(tx, owner)) >= limit) throw keyIsBusy(owner, limit);
      },
    };
  }
}

/**
 * Counts the sessions of an owner with an open run: at work or waiting for a permit. Runs queued behind it, sub-agents, and
 * runs without a key do not count.
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

function keyIsBusy(owner: string, limit: number): ServiceError {
  return new ServiceError(
    "too_many_concurrent_runs",
    `${limit} runs of the key ${JSON.stringify(owner)} are at work, which is its limit (max_concurrent_runs). Try again when one has ended.`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
}
