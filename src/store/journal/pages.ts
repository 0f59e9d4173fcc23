import { sizeOf } from "./append.ts";
import type { JournalEvent, Scope } from "./journal.ts";
import type { ReaderBudget } from "./reader-budget.ts";

/** What a commit touches and what followers are indexed by. */
export function scopeKey(scope: Scope): string {
  return "runId" in scope ? `r:${scope.runId}` : `s:${scope.sessionId}`;
}

/** What a reader is handed at once, or one event. */
const GROUP_BYTES = 16_384;
const PAGE: PageLimits = { events: 512, bytes: 65_536 };
/** Of all that readers may have waiting: pages are decoded, and their frames are kept beside them. */
const MAX_SHARE = 0.25;
/** Pages that are read in one turn of the event loop: other work must not wait for all of them. */
const READS_AT_ONCE = 4;

export interface PageLimits {
  readonly events: number;
  /** A page ends with the event that reaches them. */
  readonly bytes: number;
}

/** Committed events, in order and without a hole. */
export interface Page {
  readonly events: readonly JournalEvent[];
  /** There may be more behind them. */
  readonly hasMore: boolean;
}

export interface PagesOptions {
  /** Committed events above `after`. */
  read(scope: Scope, after: number, limits: PageLimits): Promise<Page>;
  readonly budget: ReaderBudget;
}

/** A follower, as its pages see it. */
export interface PageReader {
  readonly scope: Scope;
  readonly cursor: number;
  readonly isEnded: boolean;
  /** Its page holds more than it was given. */
  readonly isInPage: boolean;
  /** Names its page. */
  page: string | undefined;
  isBehind: boolean;
  /** What follows in the page, as given to it. */
  next(page: Page): readonly JournalEvent[] | undefined;
  /** What follows behind the page. */
  take(): readonly JournalEvent[] | undefined;
}

interface HeldPage extends Page {
  readonly scope: string;
  readonly bytes: number;
}

/**
 * Pages of the journal as followers read them: one read for all who ask for the same page, and one copy for all who are
 * in it, kept while memory allows. A follower only knows where its page begins; when the page is gone it reads again.
 */
export class Pages {
  readonly #read: PagesOptions["read"];
  readonly #budget: ReaderBudget;
  /** The least recently used first. */
  readonly #kept = new Map<string, HeldPage>();
  /** Reads that have not begun, so that who joins one misses nothing. */
  readonly #waiting = new Map<string, { readonly begin: () => void; readonly page: Promise<Page> }>();
  #keptBytes = 0;
  #working = 0;
  #turns = 0;

  constructor({ read, budget }: PagesOptions) {
    this.#read = read;
    this.#budget = budget;
    budget.onPressure((bytes) => this.#drop(bytes));
  }

  /** What follows in the follower's page, or behind it; undefined when there is nothing, or it has to be read. */
  rest(follower: PageReader): readonly JournalEvent[] | undefined {
    if (!follower.isInPage) return follower.take();
    const { page: key = "" } = follower;
    const page = this.#kept.get(key);
    const group = page && follower.next(page);
    if (group) this.#use(key, page);
    else follower.isBehind = true;
    return group;
  }

  /** The page behind the follower's cursor. One that another reads by now may end before what is newest. */
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

  /** A page that is there is handed on in a turn too: one for all at once would hold up other work as a read does. */
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

  /** Works off what waits, each read in its own turn of the event loop. */
  async #work(): Promise<void> {
    this.#working += 1;
    for (let [next] = this.#waiting; next; [next] = this.#waiting) {
      await new Promise((resolve) => setImmediate(resolve));
      // Another worker may have taken it meanwhile.
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
    // The last events, returned completely: no reader comes back to them.
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

/** About how many bytes the events take. */
export function bytesOf(events: readonly JournalEvent[]): number {
  return events.reduce((sum, event) => sum + sizeOf(event), 0);
}

/** The events from `from` on that a reader is handed at once. */
export function groupOf(events: readonly JournalEvent[], from: number): readonly JournalEvent[] | undefined {
  let bytes = 0;
  let end = from;
  for (; end < events.length; end += 1) {
    const event = events[end];
    if (event) bytes += sizeOf(event);
    if (end > from && bytes > GROUP_BYTES) break;
  }
  return end > from ? events.slice(from, end) : undefined;
}
