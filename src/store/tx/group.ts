import type { Driver, OpenTransaction } from "./driver.ts";
import { isDuplicateKey, isRetryable, isUnavailable, unavailable } from "./failure.ts";
import type { Tx } from "./tx.ts";

export type Work<T> = (tx: Tx) => Promise<T> | T;

interface Entry {
  readonly work: Work<unknown>;
  readonly durable: boolean;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
  value: unknown;
  retries: number;
}

const MAX_GROUP = 256;
/**
 * SQLite runs on the event loop: after this time a group is committed, and requests are served before the next group.
 */
const MAX_BLOCKING_MS = 20;
const MAX_RETRIES = 3;

/**
 * Group commit: works that are queued in one turn of the event loop run one after the other in one transaction,
 * so they share one fsync. Works run, commit and settle in the order in which they were queued.
 */
export class GroupCommitter {
  readonly #driver: Driver;
  readonly #onProblem: (message: string, error: unknown) => void;
  #queue: Entry[] = [];
  #running: Promise<void> | undefined;
  #closed = false;
  /** A failed commit may have been committed all the same. */
  #isUncertain = false;
  readonly #onUncertain: () => void;

  /** Calls `onUncertain` when a commit succeeds after commits with an unknown outcome: their callbacks never ran. */
  constructor(
    driver: Driver,
    onProblem: (message: string, error: unknown) => void,
    onUncertain: () => void = () => {},
  ) {
    this.#driver = driver;
    this.#onProblem = onProblem;
    this.#onUncertain = onUncertain;
  }

  /** See {@link Store.write}. */
  write<T>(work: Work<T>, { durable = true }: { readonly durable?: boolean } = {}): Promise<T> {
    if (this.#closed) return Promise.reject(unavailable("The store is closed."));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ work, durable, resolve, reject, value: undefined, retries: 0 });
      this.#running ??= this.#drain();
    });
  }

  /** Rejects new works and resolves when the queued ones are settled. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running;
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      await new Promise((resolve) => setImmediate(resolve));
      await this.#settle(this.#queue.splice(0, MAX_GROUP));
    }
    this.#running = undefined;
  }

  /**
   * Settles every entry. A work that throws aborts the transaction for the works before it: those run again as a group
   * of their own, and the failed work runs again as the first of the rest. A failure as the first work is final, unless
   * another process caused it: then the work is retried a few times. So a failure costs two more transactions, not one
   * per work.
   */
  async #settle(group: readonly Entry[]): Promise<void> {
    const segments: (readonly Entry[])[] = [group];
    for (let segment = segments.shift(); segment; segment = segments.shift()) {
      try {
        segments.unshift(...(await this.#attempt(segment)));
        if (segments.length > 0) await new Promise((resolve) => setImmediate(resolve));
      } catch (error) {
        for (const entry of [segment, ...segments].flat()) entry.reject(error);
        return;
      }
    }
  }

  /** Commits the segment, or rolls it back. Resolves to the remaining groups. Rejects when the database fails. */
  async #attempt(segment: readonly Entry[]): Promise<readonly (readonly Entry[])[]> {
    const transaction = await this.#driver.begin(segment.some((entry) => entry.durable));
    const maxMs = this.#driver.dialect === "sqlite" ? MAX_BLOCKING_MS : Number.POSITIVE_INFINITY;
    const { count, failure } = await runWorks(segment, transaction, maxMs);
    if (failure) {
      await transaction.rollback();
      if (isUnavailable(failure.error)) throw failure.error;
      return cut(segment, failure);
    }
    await this.#commit(transaction);
    this.#runAfterCommit(transaction);
    for (const entry of segment.slice(0, count)) entry.resolve(entry.value as never);
    return count < segment.length ? [segment.slice(count)] : [];
  }

  async #commit(transaction: OpenTransaction): Promise<void> {
    try {
      await transaction.commit();
    } catch (error) {
      this.#isUncertain = true;
      throw error;
    }
    if (this.#isUncertain) this.#onUncertain();
    this.#isUncertain = false;
  }

  #runAfterCommit({ afterCommit }: OpenTransaction): void {
    for (const run of afterCommit) {
      try {
        run();
      } catch (error) {
        this.#onProblem("A callback after a commit threw; the commit stands.", error);
      }
    }
  }
}

interface Failure {
  readonly index: number;
  readonly error: unknown;
}

/**
 * Runs the works in order, at least one, until one throws or `maxMs` has passed. Resolves to the number that ran and
 * the first failure.
 */
async function runWorks(
  segment: readonly Entry[],
  transaction: OpenTransaction,
  maxMs: number,
): Promise<{ readonly count: number; readonly failure: Failure | undefined }> {
  const finishing: Promise<void>[] = [];
  let thrown: Failure | undefined;
  const startMs = performance.now();
  for (const [index, entry] of segment.entries()) {
    if (index > 0 && performance.now() - startMs > maxMs) break;
    const tx = transaction.enter();
    try {
      entry.value = await entry.work(tx);
    } catch (error) {
      thrown = { index, error };
    }
    const finish = tx.finish();
    // Awaited below, after the next works; until then it must not become an unhandled rejection.
    finish.catch(() => {});
    finishing.push(finish);
    if (thrown) break;
  }
  const failed = await firstRejection(finishing);
  // A work may throw only because a late statement of an earlier one aborted the transaction. For one work, its own
  // error counts: it may have translated the statement's failure.
  const failure = thrown && (!failed || failed.index === thrown.index) ? thrown : failed;
  return { count: finishing.length, failure };
}

async function firstRejection(promises: readonly Promise<void>[]): Promise<Failure | undefined> {
  const outcomes = await Promise.allSettled(promises);
  const index = outcomes.findIndex((outcome) => outcome.status === "rejected");
  const outcome = outcomes[index];
  return outcome?.status === "rejected" ? { index, error: outcome.reason } : undefined;
}

/** Returns the remaining groups after a failure. */
function cut(segment: readonly Entry[], { index, error }: Failure): readonly (readonly Entry[])[] {
  const rest = segment.slice(index);
  if (index > 0) return [segment.slice(0, index), rest];
  const [first] = rest;
  if (!first) return [];
  // A work that looks before it inserts fails only when another process inserted meanwhile: now it sees that row.
  if ((isRetryable(error) || isDuplicateKey(error)) && first.retries++ < MAX_RETRIES) return [rest];
  first.reject(error);
  return rest.length > 1 ? [rest.slice(1)] : [];
}
