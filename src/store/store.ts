import type { Kysely } from "kysely";
import type { Journal } from "./journal.ts";
import type { Ledger } from "./ledger.ts";
import type { Outbox } from "./outbox.ts";
import type { Queue } from "./queue.ts";
import type { Tables } from "./tables.ts";

/**
 * The store port: transactions over typed tables, and the four things built on them. Two drivers keep it,
 * SQLite and PostgreSQL; one suite (test/rooms/store) holds both to the words below.
 */
export interface Store {
  readonly dialect: "sqlite" | "postgres";
  /** Names this database: survives restarts, differs for another database. Cursors are good within one epoch. */
  readonly epoch: string;
  /** This process's name on leases, `host:pid:nonce`. See {@link Store.ownerIsDead}. */
  readonly owner: string;
  readonly journal: Journal;
  readonly ledger: Ledger;
  readonly outbox: Outbox;
  readonly queue: Queue;
  /** Queries over committed rows. MUST NOT see the rows of a transaction that is still open. */
  readonly read: Kysely<Tables>;

  /**
   * Runs `work` in a transaction and resolves with its value once that is committed.
   *
   * All works of one event-loop turn share one transaction (group commit). A driver MUST keep them apart all the
   * same: when one throws, its rows are gone, its promise rejects with that error, and the others commit.
   * A work may therefore be called twice: it MUST NOT change anything but the transaction, and MUST NOT await
   * anything but the transaction (no network, no timers).
   *
   * `durable` (default true): the promise resolves after the rows are on disk. With false they are committed and
   * visible, and become durable with the next durable group; for streaming deltas only.
   *
   * Rejects with ServiceError `state_store_unavailable` when the database cannot be reached or is closed.
   */
  write<T>(work: (tx: Tx) => Promise<T> | T, options?: { readonly durable?: boolean }): Promise<T>;

  /** True when the process that a lease names is known to be gone. False also means "not known": wait for the lease. */
  ownerIsDead(owner: string): boolean;

  /** Waits for open groups, then lets the database go. Later calls reject with `state_store_unavailable`. */
  close(): Promise<void>;
}

/** One open transaction. Only valid inside the `work` it was given to. */
export interface Tx {
  /** Typed queries inside the transaction. */
  readonly db: Kysely<Tables>;
  /** Milliseconds since the epoch; the same for the whole transaction. */
  readonly nowMs: number;
  /** Inserts rows by a prepared statement: the hot path. Rejects on a key that exists. */
  insert<K extends keyof Tables>(table: K, rows: readonly Tables[K][]): Promise<void>;
  /**
   * Sets columns of the rows that equal `where` in every named column, by a prepared statement; null compares as
   * IS NULL. Resolves to the number of rows changed.
   */
  update<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    set: Partial<Tables[K]>,
  ): Promise<number>;
  /** Adds `by` to an integer column of the row that equals `where`; resolves to the new value, undefined without a row. */
  increment<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    column: keyof Tables[K] & string,
    by: number,
  ): Promise<number | undefined>;
  /** Runs after the commit, in order; dropped when the work fails. MUST NOT throw. */
  afterCommit(run: () => void): void;
}

export interface StoreOptions {
  /** `postgres://...`, a file path, or `:memory:`. */
  readonly url: string;
  readonly now?: () => number;
  /** Where facts about background failures go (a lost notification connection, a sweep that failed). */
  readonly onProblem?: (message: string, error: unknown) => void;
}
