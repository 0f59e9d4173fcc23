import { sizeOf } from "./append.ts";
import type { JournalEvent, Scope } from "./journal.ts";
import { bytesOf, groupOf, Pages, scopeKey, type Page, type PageReader, type PagesOptions } from "./pages.ts";
import type { ReaderBudget } from "./reader-budget.ts";

/** Most bytes a follower holds that does not pull; what comes then it reads again. */
const MAX_HELD_BYTES = 65_536;

export interface FollowersOptions extends PagesOptions {
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
  readonly #pages: Pages;
  readonly #byScope = new Map<string, Set<Follower>>();
  #stopWatching: (() => void) | undefined;
  #isClosed = false;

  constructor(options: FollowersOptions) {
    this.#options = options;
    this.#pages = new Pages(options);
  }

  /** See {@link Journal.follow}. Not a generator: those begin with the first pull, and a follower with the call. */
  follow(scope: Scope, options: FollowOptions = {}): AsyncIterableIterator<readonly JournalEvent[]> {
    const { after = 0, fresh = false, signal } = options;
    const follower = new Follower(scope, { after, isBehind: !fresh, budget: this.#options.budget });
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

  /** Committed rows may not have been handed on. */
  look(): void {
    this.#wake(undefined);
  }

  /** Ends every follower, also those that are not being read, and stops watching the database that is about to close. */
  close(): void {
    this.#isClosed = true;
    for (const followers of this.#byScope.values()) followers.forEach((follower) => follower.end());
    this.#byScope.clear();
    this.#pages.close();
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
      const group = this.#pages.rest(follower);
      if (group) return group;
      if (!follower.isBehind) {
        await follower.change();
        continue;
      }
      follower.isBehind = false;
      const page = await this.#read(follower);
      if (!page || follower.isEnded) return undefined;
      if (page.hasMore) follower.isBehind = true;
      const first = follower.begin(page);
      if (first) return first;
    }
  }

  /** Undefined when the store closed under the read: that ends a follower, it does not fail it. */
  async #read(follower: Follower): Promise<Page | undefined> {
    try {
      return await this.#pages.read(follower);
    } catch (error) {
      if (follower.isEnded) return undefined;
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
    if (followers?.size === 0) {
      this.#byScope.delete(key);
      this.#pages.forget(key);
    }
    if (this.#byScope.size > 0) return;
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }
}

/**
 * One reader's place. Events it is handed count only when they join on to the last it has; any hole (another
 * process's events, a hand-off that was full) makes it read rows, which are complete.
 */
class Follower implements PageReader {
  readonly scope: Scope;
  /** Number of the last event that was given to the reader. */
  cursor: number;
  /** Rows may hold more than its page and `held`. */
  isBehind: boolean;
  isEnded = false;
  /** Names the page that it reads, where pages are kept. */
  page: string | undefined;
  readonly #budget: ReaderBudget;
  #held: JournalEvent[] = [];
  #heldBytes = 0;
  /** Number of the last event of its page, and behind it of those it holds. */
  #tail: number;
  #pageEnd: number;
  #changed: (() => void) | undefined;

  constructor(
    scope: Scope,
    from: { readonly after: number; readonly isBehind: boolean; readonly budget: ReaderBudget },
  ) {
    this.scope = scope;
    this.isBehind = from.isBehind;
    this.cursor = from.after;
    this.#budget = from.budget;
    this.#tail = from.after;
    this.#pageEnd = from.after;
  }

  get isInPage(): boolean {
    return this.cursor < this.#pageEnd;
  }

  offer(events: readonly JournalEvent[]): void {
    for (const event of events) {
      const number = this.#numberOf(event);
      if (number <= this.#tail) continue;
      if (number > this.#tail + 1 || !this.#hold(event)) return this.#letGo();
      this.#tail = number;
    }
    this.#wake();
  }

  /** Some rows may not have been handed on. */
  look(): void {
    this.isBehind = true;
    this.#wake();
  }

  end(): void {
    this.isEnded = true;
    this.page = undefined;
    this.#drop(this.#held.length);
    this.#wake();
  }

  take(): readonly JournalEvent[] | undefined {
    const group = groupOf(this.#held, 0);
    return group && this.#give(group);
  }

  /** A page that was read, behind the cursor. What was handed over meanwhile stays when it joins on to it. */
  begin(page: Page): readonly JournalEvent[] | undefined {
    const last = page.events.at(-1);
    this.#pageEnd = last ? this.#numberOf(last) : this.cursor;
    const known = this.#held.findIndex((event) => this.#numberOf(event) > this.#pageEnd);
    this.#drop(known < 0 ? this.#held.length : known);
    const [first] = this.#held;
    if (!first || this.#numberOf(first) !== this.#pageEnd + 1) {
      this.#drop(this.#held.length);
      this.#tail = this.#pageEnd;
    }
    return this.next(page);
  }

  next(page: Page): readonly JournalEvent[] | undefined {
    if (!this.isInPage) return undefined;
    const from = page.events.findIndex((event) => this.#numberOf(event) > this.cursor);
    const group = from < 0 ? undefined : groupOf(page.events, from);
    return group && this.#give(group);
  }

  /** Resolves when there is something to do; at once when there already is. */
  change(): Promise<void> {
    return new Promise((resolve) => (this.#changed = resolve));
  }

  #give(group: readonly JournalEvent[]): readonly JournalEvent[] {
    const last = group.at(-1);
    if (last) this.cursor = this.#numberOf(last);
    // Another may have read its page anew, with more in it.
    if (this.cursor > this.#pageEnd) this.#pageEnd = this.cursor;
    if (this.cursor > this.#tail) this.#tail = this.cursor;
    const known = this.#held.findIndex((event) => this.#numberOf(event) > this.cursor);
    this.#drop(known < 0 ? this.#held.length : known);
    return group;
  }

  /** A reader that waits takes one event of any size; what comes besides has to fit. */
  #hold(event: JournalEvent): boolean {
    const bytes = sizeOf(event);
    const isNext = this.#changed !== undefined && this.#held.length === 0;
    if (!isNext && this.#heldBytes + bytes > MAX_HELD_BYTES) return false;
    if (!this.#budget.tryTake(bytes)) return false;
    this.#held.push(event);
    this.#heldBytes += bytes;
    return true;
  }

  /** Holds the first `count` no more. */
  #drop(count: number): void {
    if (count === 0) return;
    const bytes = bytesOf(this.#held.splice(0, count));
    this.#heldBytes -= bytes;
    this.#budget.giveBack(bytes);
  }

  #letGo(): void {
    this.#drop(this.#held.length);
    this.#tail = Math.max(this.cursor, this.#pageEnd);
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
