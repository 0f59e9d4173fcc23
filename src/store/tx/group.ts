/** Commits units of work in groups, translates failures, and decides whether to retry. */
import { ServiceError } from "../../base/errors.ts";
import type { Clock } from "../../base/time.ts";
import { type WrittenChanges, writeChanges } from "../feed/feed.ts";
import type { WriteOptions } from "../store.ts";
import { rawTx, type Driver, type OpenTransaction, type Tx } from "./tx.ts";

export type Work<T> = (tx: Tx) => Promise<T> | T;

interface Entry {
  readonly work: Work<unknown>;
  readonly durable: boolean;
  readonly session: string | undefined;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
  value: unknown;
  retries: number;
}

const MAX_GROUP = 256;
const MAX_RETRIES = 3;

/**
 * Group commit: units of work that are queued in one turn of the event loop run one after the other in one transaction,
 * so they share one fsync. They run, commit and settle in the order in which they were queued; those of different
 * sessions overlap where the database is far away.
 */
export class GroupCommitter {
  readonly #driver: Driver;
  readonly #onProblem: (message: string, error: unknown) => void;
  #queue: Entry[] = [];
  #running: Promise<void> | undefined;
  #closed = false;
  /** A failed commit may have succeeded nevertheless. */
  #isUncertain = false;
  readonly #onUncertain: () => void;
  readonly #onChanges: ((written: WrittenChanges) => void) | undefined;

  /**
   * Calls `onUncertain` when a commit succeeds after commits with an unknown outcome: their callbacks never ran. Calls
   * `onChanges` with the recorded changes after each commit that has some; without it they are not written.
   */
  constructor(
    driver: Driver,
    onProblem: (message: string, error: unknown) => void,
    onUncertain: () => void = () => {},
    onChanges?: (written: WrittenChanges) => void,
  ) {
    this.#driver = driver;
    this.#onProblem = onProblem;
    this.#onUncertain = onUncertain;
    this.#onChanges = onChanges;
  }

  /** See {@link Store.write}. */
  write<T>(work: Work<T>, { durable = true, session }: WriteOptions = {}): Promise<T> {
    if (this.#closed) return Promise.reject(unavailable("The store is closed."));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ work, durable, session, resolve, reject, value: undefined, retries: 0 });
      this.#running ??= this.#drain();
    });
  }

  /** Rejects new work and resolves when the queued work is settled. */
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
   * Settles every entry. An entry that throws aborts the transaction for the entries before it: those run again as
   * their own group, and the failed entry runs again as the first of the rest. The failure of a first entry is final,
   * unless another process caused it: then the entry is retried a few times. So a failure costs two more transactions,
   * not one per entry.
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
  async #attempt(
    segment: readonly Entry[],
    overlaps = segment.filter(({ session }) => session !== undefined).length > 1,
  ): Promise<readonly (readonly Entry[])[]> {
    const transaction = await this.#driver.begin(segment.some((entry) => entry.durable));
    const isTogether = overlaps && transaction.mayOverlap === true;
    const { count, failure } = await (isTogether ? runOverlapping : runWorks)(segment, transaction);
    if (failure) {
      await transaction.rollback();
      if (isUnavailable(failure.error)) throw failure.error;
      // One after the other, they show which of them fails.
      return isTogether ? this.#attempt(segment, false) : cut(segment, failure);
    }
    await this.#writeShared(transaction);
    await this.#commit(transaction);
    this.#runAfterCommit(transaction);
    for (const entry of segment.slice(0, count)) entry.resolve(entry.value as never);
    return count < segment.length ? [segment.slice(count)] : [];
  }

  /** Writes what all works counted, and one insert for their changes. */
  async #writeShared(transaction: OpenTransaction): Promise<void> {
    const { counts } = transaction;
    const onChanges = this.#onChanges;
    const changes = onChanges ? transaction.changes : [];
    if (changes.length === 0 && counts.isEmpty) return;
    try {
      const tx = transaction.enter();
      if (!counts.isEmpty) await counts.write(rawTx(tx));
      if (onChanges && changes.length > 0) {
        const written = await writeChanges(rawTx(tx), changes);
        tx.afterCommit(() => onChanges(written));
      }
      await tx.finish();
    } catch (error) {
      await transaction.rollback();
      throw error;
    }
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
        this.#onProblem("A callback after a commit threw; the commit is not affected.", error);
      }
    }
  }
}

interface Failure {
  readonly index: number;
  readonly error: unknown;
}

/**
 * Runs the entries in order, at least one, until one throws or the transaction is full. Resolves to the number that ran
 * and the first failure.
 */
async function runWorks(
  segment: readonly Entry[],
  transaction: OpenTransaction,
): Promise<{ readonly count: number; readonly failure: Failure | undefined }> {
  const finishing: Promise<void>[] = [];
  let thrown: Failure | undefined;
  for (const [index, entry] of segment.entries()) {
    if (index > 0 && transaction.isFull()) break;
    const tx = transaction.enter();
    try {
      entry.value = await entry.work(tx);
    } catch (error) {
      thrown = { index, error };
    }
    const finish = tx.finish();
    // Awaited below, after the next entries; until then it must not become an unhandled rejection.
    finish.catch(() => {});
    finishing.push(finish);
    if (thrown) break;
  }
  const failed = await firstRejection(finishing);
  // An entry may throw only because a late statement of an earlier one aborted the transaction. For a single entry, its
  // own error counts: it may have translated the statement's failure.
  const failure = thrown && (!failed || failed.index === thrown.index) ? thrown : failed;
  return { count: finishing.length, failure };
}

/**
 * As {@link runWorks}, but entries of different sessions overlap: while one waits for an answer, others send their statements.
 * Those of one session run in order, and an entry without a session runs alone.
 */
async function runOverlapping(
  segment: readonly Entry[],
  transaction: OpenTransaction,
): ReturnType<typeof runWorks> {
  const finishing: Promise<void>[] = [];
  const ofSessions = new Map<string, Promise<void>>();
  let failure: Failure | undefined;
  const run = async (index: number, entry: Entry, before?: Promise<void>): Promise<void> => {
    await before;
    if (failure) return;
    const tx = transaction.enter();
    try {
      entry.value = await entry.work(tx);
    } catch (error) {
      failure ??= { index, error };
    }
    const finish = tx.finish();
    finish.catch(() => {});
    finishing.push(finish);
  };
  for (const [index, entry] of segment.entries()) {
    const { session } = entry;
    if (session !== undefined) {
      ofSessions.set(session, run(index, entry, ofSessions.get(session)));
      continue;
    }
    await Promise.all(ofSessions.values());
    ofSessions.clear();
    await run(index, entry);
  }
  await Promise.all(ofSessions.values());
  failure ??= await firstRejection(finishing);
  return { count: segment.length, failure };
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
  // Work that checks before it inserts fails only if another process inserted in between: now it sees that row.
  if ((isRetryable(error) || isDuplicateKey(error)) && first.retries++ < MAX_RETRIES) return [rest];
  first.reject(error);
  return rest.length > 1 ? [rest.slice(1)] : [];
}

// Failures

/** Returns the error for a database that cannot be reached, is closed, or cannot write, whatever the statement. */
export function unavailable(message: string, cause?: unknown): ServiceError {
  return new ServiceError("state_store_unavailable", message, { cause });
}

export function isUnavailable(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.code === "state_store_unavailable";
}

/** Runs `run`, with its errors translated. */
export function translated<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw toStoreError(error);
  }
}

/** Translates a driver's error: to `state_store_unavailable`, or to the same error when the statement caused it. */
export function toStoreError(error: unknown): unknown {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  if (typeof errcode === "number") return fromSqlite(error, errcode);
  if (code === "ERR_INVALID_STATE") return unavailable("The database is closed.", error);
  if (typeof code === "string" && LOST.test(code)) {
    return unavailable("The database cannot be reached. Check that it runs, then try again.", error);
  }
  return error;
}

/**
 * Returns whether a write failed because its key exists. `Store.write` has retried the work by then: one that looks for
 * the row before it inserts never rejects with it.
 */
export function isDuplicateKey(error: unknown): boolean {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  return code === "23505" || errcode === 1555 || errcode === 2067;
}

/** Returns whether PostgreSQL aborted a transaction in favour of another one: the same works may succeed now. */
export function isRetryable(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "40P01" || code === "40001";
}

// Connections lost or refused: postgres.js, sockets, and PostgreSQL's classes 08, 53 and 57P.
const LOST =
  /^(CONNECTION_|CONNECT_TIMEOUT$|ECONN|ENOTFOUND$|ENOENT$|EAI_|ETIMEDOUT$|EPIPE$|EHOST|ENET|08|53|57P|28|3D)/;

const SQLITE: Readonly<Record<number, string>> = {
  5: "Another process holds the database for too long. Try again.", // BUSY
  6: "Another connection holds the database for too long. Try again.", // LOCKED
  8: "The database file cannot be written. Check its permissions.", // READONLY
  10: "The disk failed under the database.", // IOERR
  11: "The database file is damaged. Restore it from a copy that `agentd backup` made; see docs/operations.md.", // CORRUPT
  13: "The disk is full. Free some space, then try again.", // FULL
  14: "The database file cannot be opened. Check the path and its permissions.", // CANTOPEN
  26: "The file is not a SQLite database.", // NOTADB
};

function fromSqlite(error: unknown, errcode: number): unknown {
  const message = SQLITE[errcode & 0xff];
  return message === undefined ? error : unavailable(message, error);
}

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2_000;

export interface RetryOptions {
  readonly clock: Clock;
  /** How long `work` is retried, from the first failure on. */
  readonly forMs: number;
  /** After an abort, the next failure is final. */
  readonly signal?: AbortSignal;
  /** Called before each retry. */
  readonly onRetry?: (error: unknown) => void;
}

/**
 * Resolves as `work` does. Retries while the store is unavailable (locked, full, not connected), with delays that
 * double from 0.1 s to 2 s. Rejects with any other failure at once, and with the last one when the time is over. `work`
 * MUST expect that a failed attempt was committed nevertheless: a connection may be lost between the commit and its
 * answer.
 */
export async function retryWhileUnavailable<T>(
  work: () => Promise<T>,
  { clock, forMs, signal, onRetry }: RetryOptions,
): Promise<T> {
  let untilMs: number | undefined;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    try {
      return await work();
    } catch (error) {
      untilMs ??= clock.now() + forMs;
      if (!isUnavailable(error) || signal?.aborted || clock.now() >= untilMs) throw error;
      onRetry?.(error);
      // One more attempt follows an aborted delay.
      await clock.sleep(pauseMs, signal ? { signal } : {}).catch(() => {});
    }
  }
}

// Reads that hold until the next commit

/**
 * Values that are known until a version changes. Looking at the version once is enough for all that runs without a break:
 * nothing from outside can have reached the process meanwhile.
 */
export class Kept<T> {
  readonly #max: number;
  readonly #versionOf: () => unknown;
  #known = new Map<string, T>();
  #version: unknown;
  #isCurrent = false;

  /** `max`: number of values that are kept. `versionOf` returns another value after each change. */
  constructor(max: number, versionOf: () => unknown) {
    this.#max = max;
    this.#versionOf = versionOf;
  }

  /** Returns the value that is known, or else reads it. */
  get(key: string, read: () => T): T {
    if (!this.#isCurrent) this.#look();
    const known = this.#known.get(key);
    if (known !== undefined || this.#known.has(key)) return known as T;
    const value = read();
    if (this.#known.size >= this.#max) this.#forget();
    this.#known.set(key, value);
    return value;
  }

  /** There may be a change: the next call looks at the version. */
  readonly mayHaveChanged = (): void => {
    this.#isCurrent = false;
  };

  #look(): void {
    const version = this.#versionOf();
    if (version !== this.#version) this.#forget();
    this.#version = version;
    this.#isCurrent = true;
    // At half the price of queueMicrotask, which keeps the asynchronous context.
    void SETTLED.then(this.mayHaveChanged);
  }

  // A cleared map would keep its values up to the next full collection; see OngoingMap.
  #forget(): void {
    if (this.#known.size > 0) this.#known = new Map();
  }
}

const SETTLED = Promise.resolve();
