/** Followers of the journal: they get events as these are committed, and read pages when they fall behind. */
import { OngoingMap } from "../../base/time.ts";
import { sizeOf } from "./append.ts";
import type { JournalEvent, ListenOptions, Scope } from "./journal.ts";
import { type Heard, Listener } from "./listen.ts";
import type { ReaderBudget } from "./reader-budget.ts";

/** Most bytes buffered for a follower that is not being read. It reads later events from the database. */
const MAX_HELD_BYTES = 65_536;

interface FollowersOptions extends PagesOptions {
  /**
   * Called for the first follower; the result is called after the last. `wake` reports possible rows of other
   * processes.
   */
  watch(wake: (scopes: readonly string[] | undefined) => void): () => void;
  /** Returns the committed events of a run above `after`, of these types only. */
  hear(runId: string, types: readonly string[], after: number): Promise<Heard>;
}

/** A follower or listener that a commit may concern. */
interface Watcher {
  readonly scope: Scope;
  /** Events that were just committed, in order. */
  offer(events: readonly JournalEvent[]): void;
  /** Some rows may not have been handed on. */
  look(): void;
  end(): void;
}

interface FollowOptions {
  readonly after?: number;
  readonly fresh?: boolean;
  readonly signal?: AbortSignal;
}

/** All followers of the journal in this process, by scope, so that a commit touches only its own followers. */
export class Followers {
  readonly #options: FollowersOptions;
  readonly #pages: Pages;
  readonly #byScope = new OngoingMap<string, Set<Watcher>>();
  #stopWatching: (() => void) | undefined;
  #isClosed = false;

  constructor(options: FollowersOptions) {
    this.#options = options;
    this.#pages = new Pages(options);
  }

  /**
   * See {@link Journal.follow}. Not a generator, which would start at the first pull: a follower starts with the call.
   */
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

  /** See {@link Journal.listen}. */
  listen(runId: string, options: ListenOptions): Listener {
    const read = (after: number) => this.#options.hear(runId, options.types, after);
    const listener = new Listener(runId, options, { read, leave: () => this.#remove(listener) });
    if (this.#isClosed) listener.end();
    else this.#add(listener);
    listener.look();
    return listener;
  }

  /** Offers events of one session that were just committed, in order. */
  publish(sessionId: string, events: readonly JournalEvent[]): void {
    if (this.#byScope.size === 0) return;
    this.#byScope.get(`s:${sessionId}`)?.forEach((follower) => follower.offer(events));
    for (const runId of runsOf(events)) {
      const followers = runId === null ? undefined : this.#byScope.get(`r:${runId}`);
      if (!followers) continue;
      const own = events.filter((event) => event.runId === runId);
      followers.forEach((follower) => follower.offer(own));
    }
  }

  /** Makes every follower read again: some committed rows may not have been offered. */
  look(): void {
    this.#wake(undefined);
  }

  /**
   * Ends every follower, even those that are not being read, and stops watching the database, which is about to close.
   */
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

  /** Returns undefined if the store closed during the read, which ends the follower without an error. */
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

  #add(follower: Watcher): void {
    const key = scopeKey(follower.scope);
    const followers = this.#byScope.get(key);
    if (followers) followers.add(follower);
    else this.#byScope.set(key, new Set([follower]));
    this.#stopWatching ??= this.#options.watch((scopes) => this.#wake(scopes));
  }

  #remove(follower: Watcher): void {
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
 * The position of one reader. Offered events count only if they directly follow the last one that it has. After a gap
 * (events of another process, or a full buffer) it reads rows, which are complete.
 */
class Follower implements PageReader, Watcher {
  readonly scope: Scope;
  /** Number of the last event that was given to the reader. */
  cursor: number;
  /** True: the database may have events beyond its page and its buffer. */
  isBehind: boolean;
  isEnded = false;
  /** Key of the page that it reads. */
  page: string | undefined;
  readonly #budget: ReaderBudget;
  #held: JournalEvent[] = [];
  #heldBytes = 0;
  /** Number of the last buffered event; without any, of the last event of its page. */
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

  /** Starts on a page that was read after the cursor. Buffered events stay if they directly follow it. */
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

  /** Resolves at the next change: an offered event, rows to read, or the end. */
  change(): Promise<void> {
    return new Promise((resolve) => (this.#changed = resolve));
  }

  #give(group: readonly JournalEvent[]): readonly JournalEvent[] {
    const last = group.at(-1);
    if (last) this.cursor = this.#numberOf(last);
    // Another follower may have reloaded the page, with more events.
    if (this.cursor > this.#pageEnd) this.#pageEnd = this.cursor;
    if (this.cursor > this.#tail) this.#tail = this.cursor;
    const known = this.#held.findIndex((event) => this.#numberOf(event) > this.cursor);
    this.#drop(known < 0 ? this.#held.length : known);
    return group;
  }

  /** A waiting reader accepts one event of any size; further events must fit into the buffer. */
  #hold(event: JournalEvent): boolean {
    const bytes = sizeOf(event);
    const isNext = this.#changed !== undefined && this.#held.length === 0;
    if (!isNext && this.#heldBytes + bytes > MAX_HELD_BYTES) return false;
    if (!this.#budget.tryTake(bytes)) return false;
    this.#held.push(event);
    this.#heldBytes += bytes;
    return true;
  }

  /** Removes the first `count` buffered events. */
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

/** Returns the runs of the events. Nearly always all are of one run. */
function runsOf(events: readonly JournalEvent[]): Iterable<string | null> {
  const [first] = events;
  if (!first) return [];
  const isOne = events.every(({ runId }) => runId === first.runId);
  return isOne ? [first.runId] : new Set(events.map(({ runId }) => runId));
}

// Pages

/** Returns the key by which followers are indexed. */
export function scopeKey(scope: Scope): string {
  return "runId" in scope ? `r:${scope.runId}` : `s:${scope.sessionId}`;
}

/** Most bytes that a reader gets at once, unless a single event is larger. */
const GROUP_BYTES = 16_384;
const PAGE: PageLimits = { events: 512, bytes: 65_536 };
/** Share of the readers' memory that pages may use: the frames encoded from them need memory too. */
const MAX_SHARE = 0.25;
/** Concurrent reads of pages, so that other work does not wait for all of them. */
const READS_AT_ONCE = 4;

export interface PageLimits {
  readonly events: number;
  /** A page ends with the event that reaches this size. */
  readonly bytes: number;
}

/** Committed events, in order and without gaps. */
export interface Page {
  readonly events: readonly JournalEvent[];
  /** More events may follow. */
  readonly hasMore: boolean;
}

interface PagesOptions {
  /** Committed events above `after`. */
  read(scope: Scope, after: number, limits: PageLimits): Promise<Page>;
  readonly budget: ReaderBudget;
}

/** A follower, as its pages see it. */
interface PageReader {
  readonly scope: Scope;
  readonly cursor: number;
  readonly isEnded: boolean;
  /** Its page has events that it has not returned yet. */
  readonly isInPage: boolean;
  /** Key of its page. */
  page: string | undefined;
  isBehind: boolean;
  /** Returns the next events in the page. */
  next(page: Page): readonly JournalEvent[] | undefined;
  /** Returns the next events after the page. */
  take(): readonly JournalEvent[] | undefined;
}

interface HeldPage extends Page {
  readonly scope: string;
  readonly bytes: number;
}

/**
 * Pages of the journal for its followers: one read for all that request the same page, and one copy for all that read
 * it, kept while memory allows. A follower only knows where its page begins; if the page is gone, it reads again.
 */
class Pages {
  readonly #read: PagesOptions["read"];
  readonly #budget: ReaderBudget;
  /** Least recently used first. */
  readonly #kept = new Map<string, HeldPage>();
  /** Reads that have not begun: a follower that joins one misses nothing. */
  readonly #waiting = new Map<string, { readonly begin: () => void; readonly page: Promise<Page> }>();
  #keptBytes = 0;
  #working = 0;
  #turns = 0;

  constructor({ read, budget }: PagesOptions) {
    this.#read = read;
    this.#budget = budget;
    budget.onPressure((bytes) => this.#drop(bytes));
  }

  /** Returns the next events in the follower's page or after it; undefined if none are known or they must be read. */
  rest(follower: PageReader): readonly JournalEvent[] | undefined {
    if (!follower.isInPage) return follower.take();
    const { page: key = "" } = follower;
    const page = this.#kept.get(key);
    const group = page && follower.next(page);
    if (group) this.#use(key, page);
    else follower.isBehind = true;
    return group;
  }

  /** Returns the page after the follower's cursor. Joins no read that has begun, which may miss the newest events. */
  async read(follower: PageReader): Promise<Page> {
    const scope = scopeKey(follower.scope);
    const key = `${follower.cursor} ${scope}`;
    follower.page = key;
    const kept = this.#kept.get(key);
    if (kept?.hasMore) return this.#turn(kept);
    const waiting = this.#waiting.get(key);
    if (waiting) return this.#turn(await waiting.page);
    const page = await this.#wait(key, () => this.#read(follower.scope, follower.cursor, PAGE));
    if (!follower.isEnded) this.#keep(key, { ...page, scope, bytes: bytesOf(page.events) });
    return page;
  }

  forget(scope: string): void {
    for (const [key, page] of this.#kept) if (page.scope === scope) this.#remove(key, page);
  }

  close(): void {
    for (const [key, page] of this.#kept) this.#remove(key, page);
  }

  /**
   * Returns a cached page in a turn of its own too: serving all followers at once would block other work like a read.
   */
  #turn(page: Page): Promise<Page> {
    this.#turns += 1;
    return this.#wait(`turn ${this.#turns}`, async () => page);
  }

  #wait(key: string, read: () => Promise<Page>): Promise<Page> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const page = promise.then(read);
    this.#waiting.set(key, { begin: resolve, page });
    if (this.#working < READS_AT_ONCE) void this.#work();
    return page;
  }

  /** Processes the queue, each read in its own turn of the event loop. */
  async #work(): Promise<void> {
    this.#working += 1;
    for (let [next] = this.#waiting; next; [next] = this.#waiting) {
      await new Promise((resolve) => setImmediate(resolve));
      // Another worker may have taken it.
      const [first] = this.#waiting;
      if (!first) break;
      const [key, { begin, page }] = first;
      this.#waiting.delete(key);
      begin();
      await page.catch(() => {});
    }
    this.#working -= 1;
  }

  #keep(key: string, page: HeldPage): void {
    const known = this.#kept.get(key);
    if (known) this.#remove(key, known);
    // The newest events, all returned at once: no reader comes back to them.
    if (page.events.length < 2 && !page.hasMore) return;
    const mostBytes = this.#budget.maxBytes * MAX_SHARE;
    if (page.bytes > mostBytes) return;
    this.#drop(this.#keptBytes + page.bytes - mostBytes);
    if (!this.#budget.tryTake(page.bytes)) return;
    this.#kept.set(key, page);
    this.#keptBytes += page.bytes;
  }

  #use(key: string, page: HeldPage): void {
    this.#kept.delete(key);
    this.#kept.set(key, page);
  }

  #drop(bytes: number): void {
    let left = bytes;
    for (const [key, page] of this.#kept) {
      if (left <= 0) return;
      left -= page.bytes;
      this.#remove(key, page);
    }
  }

  #remove(key: string, page: HeldPage): void {
    this.#kept.delete(key);
    this.#keptBytes -= page.bytes;
    this.#budget.giveBack(page.bytes);
  }
}

/** Returns the approximate size of the events in bytes. */
function bytesOf(events: readonly JournalEvent[]): number {
  return events.reduce((sum, event) => sum + sizeOf(event), 0);
}

/** Returns the events from index `from` that a reader gets at once. */
function groupOf(events: readonly JournalEvent[], from: number): readonly JournalEvent[] | undefined {
  let bytes = 0;
  let end = from;
  for (; end < events.length; end += 1) {
    const event = events[end];
    if (event) bytes += sizeOf(event);
    if (end > from && bytes > GROUP_BYTES) break;
  }
  return end > from ? events.slice(from, end) : undefined;
}
