import type { JournalEvent, Scope } from "./journal.ts";

/** What a commit touches and what followers are indexed by. */
export function scopeKey(scope: Scope): string {
  return "runId" in scope ? `r:${scope.runId}` : `s:${scope.sessionId}`;
}

/** Most events a follower holds that does not pull; what comes then it reads again. */
const MAX_HELD = 256;
const PAGE = 512;

export interface FollowersOptions {
  /** Committed events above `after`, in order; fewer than `limit` only when there are no more. */
  read(scope: Scope, after: number, limit: number): Promise<readonly JournalEvent[]>;
  /** Called with the first follower, stopped with the last; `wake` says that rows may have come from elsewhere. */
  watch(wake: (scopes: readonly string[] | undefined) => void): () => void;
}

export interface FollowOptions {
  readonly after?: number;
  readonly fresh?: boolean;
  readonly signal?: AbortSignal;
}

/** Everyone who follows the journal in this process, by scope: a commit touches its own followers only. */
export class Followers {
  readonly #options: FollowersOptions;
  readonly #byScope = new Map<string, Set<Follower>>();
  #stopWatching: (() => void) | undefined;
  #isClosed = false;

  constructor(options: FollowersOptions) {
    this.#options = options;
  }

  /** See {@link Journal.follow}. Not a generator: those begin with the first pull, and a follower with the call. */
  follow(scope: Scope, options: FollowOptions = {}): AsyncIterableIterator<readonly JournalEvent[]> {
    const { after = 0, fresh = false, signal } = options;
    const follower = new Follower(scope, after, !fresh);
    const leave = () => {
      follower.end();
      this.#remove(follower);
      signal?.removeEventListener("abort", leave);
    };
    if (this.#isClosed || signal?.aborted) follower.end();
    else {
      this.#add(follower);
      signal?.addEventListener("abort", leave, { once: true });
    }
    return this.#iterator(follower, leave);
  }

  /** Hands on events of one session that were just committed, in order. */
  publish(sessionId: string, events: readonly JournalEvent[]): void {
    if (this.#byScope.size === 0) return;
    this.#byScope.get(`s:${sessionId}`)?.forEach((follower) => follower.offer(events));
    const runs = new Set(events.map((event) => event.runId));
    for (const runId of runs) {
      const followers = runId === null ? undefined : this.#byScope.get(`r:${runId}`);
      if (!followers) continue;
      const own = events.filter((event) => event.runId === runId);
      followers.forEach((follower) => follower.offer(own));
    }
  }

  /** Rows may have been committed that nobody handed on. */
  look(): void {
    this.#wake(undefined);
  }

  /** Ends every follower, also those that nobody pulls, and stops watching the database that is about to close. */
  close(): void {
    this.#isClosed = true;
    for (const followers of this.#byScope.values()) followers.forEach((follower) => follower.end());
    this.#byScope.clear();
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }

  #iterator(follower: Follower, leave: () => void): AsyncIterableIterator<readonly JournalEvent[]> {
    const done = { done: true, value: undefined } as const;
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      next: async () => {
        try {
          const events = await this.#next(follower);
          if (events) return { done: false, value: events };
        } catch (error) {
          leave();
          throw error;
        }
        leave();
        return done;
      },
      return: async () => {
        leave();
        return done;
      },
    };
  }

  async #next(follower: Follower): Promise<readonly JournalEvent[] | undefined> {
    for (;;) {
      if (follower.isEnded) return undefined;
      const held = follower.take();
      if (held) return held;
      if (!follower.isBehind) {
        await follower.change();
        continue;
      }
      follower.isBehind = false;
      const events = await this.#read(follower);
      if (events.length === PAGE) follower.isBehind = true;
      if (events.length > 0) return follower.advance(events);
    }
  }

  async #read(follower: Follower): Promise<readonly JournalEvent[]> {
    try {
      return await this.#options.read(follower.scope, follower.cursor, PAGE);
    } catch (error) {
      // The store may have closed under the read: that ends a follower, it does not fail it.
      if (follower.isEnded) return [];
      throw error;
    }
  }

  #wake(scopes: readonly string[] | undefined): void {
    for (const scope of scopes ?? this.#byScope.keys()) {
      this.#byScope.get(scope)?.forEach((follower) => follower.look());
    }
  }

  #add(follower: Follower): void {
    const key = scopeKey(follower.scope);
    const followers = this.#byScope.get(key);
    if (followers) followers.add(follower);
    else this.#byScope.set(key, new Set([follower]));
    this.#stopWatching ??= this.#options.watch((scopes) => this.#wake(scopes));
  }

  #remove(follower: Follower): void {
    const key = scopeKey(follower.scope);
    const followers = this.#byScope.get(key);
    followers?.delete(follower);
    if (followers?.size === 0) this.#byScope.delete(key);
    if (this.#byScope.size > 0) return;
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }
}

/**
 * One reader's place. Events it is handed count only when they join on to the last it has; any hole (another
 * process's events, a hand-off that was full) makes it read rows, which are complete.
 */
class Follower {
  readonly scope: Scope;
  /** Number of the last event that was given to the reader. */
  cursor: number;
  /** Rows may hold more than `held`. */
  isBehind: boolean;
  isEnded = false;
  #held: JournalEvent[] = [];
  #tail: number;
  #changed: (() => void) | undefined;

  constructor(scope: Scope, after: number, isBehind: boolean) {
    this.scope = scope;
    this.isBehind = isBehind;
    this.cursor = after;
    this.#tail = after;
  }

  offer(events: readonly JournalEvent[]): void {
    for (const event of events) {
      const number = this.#numberOf(event);
      if (number <= this.#tail) continue;
      if (number > this.#tail + 1 || this.#held.length >= MAX_HELD) return this.#letGo();
      this.#held.push(event);
      this.#tail = number;
    }
    this.#wake();
  }

  /** Rows may have come that nobody hands over. */
  look(): void {
    this.isBehind = true;
    this.#wake();
  }

  end(): void {
    this.isEnded = true;
    this.#wake();
  }

  /** What was handed over, as given to the reader; undefined when there is nothing. */
  take(): readonly JournalEvent[] | undefined {
    const events = this.#held;
    if (events.length === 0) return undefined;
    this.#held = [];
    this.cursor = this.#tail;
    return events;
  }

  /** Events that were read, as given to the reader. What was handed over meanwhile stays when it joins on to them. */
  advance(events: readonly JournalEvent[]): readonly JournalEvent[] {
    const last = events.at(-1);
    if (last) this.cursor = this.#numberOf(last);
    this.#held = this.#held.filter((event) => this.#numberOf(event) > this.cursor);
    const [first] = this.#held;
    const joins = first !== undefined && this.#numberOf(first) === this.cursor + 1;
    if (!joins) {
      this.#held = [];
      this.#tail = this.cursor;
    }
    return events;
  }

  /** Resolves when there is something to do; at once when there already is. */
  change(): Promise<void> {
    return new Promise((resolve) => (this.#changed = resolve));
  }

  #letGo(): void {
    this.#held = [];
    this.#tail = this.cursor;
    this.look();
  }

  #wake(): void {
    this.#changed?.();
    this.#changed = undefined;
  }

  #numberOf(event: JournalEvent): number {
    return "runId" in this.scope ? (event.runSeq ?? 0) : event.seq;
  }
}
