import type { Kysely } from "kysely";
import type { Feed } from "./feed/feed.ts";
import type { Journal } from "./journal/journal.ts";
import type { Ledger } from "./leases.ts";
import type { Outbox } from "./outbox/outbox.ts";
import type { ReaderBudget } from "./journal/reader-budget.ts";
import type { Tables } from "./schema/tables.ts";
import type { Dialect } from "./schema/define.ts";
import type { Tx } from "./tx/tx.ts";

export type { Tx } from "./tx/tx.ts";

/**
 * The store port: transactions over typed tables, and the three things built on them. Two drivers implement it, SQLite
 * and PostgreSQL; one suite (test/unit/store) tests both.
 */
export interface Store {
  readonly dialect: Dialect;
  /** Identifies this database: survives restarts, differs for another database. Cursors are valid within one epoch. */
  readonly epoch: string;
  /** This process's name on leases, `host:pid:nonce`. See {@link Store.ownerIsDead}. */
  readonly owner: string;
  readonly journal: Journal;
  readonly ledger: Ledger;
  readonly outbox: Outbox;
  /** The committed changes of all resources, in order. */
  readonly feed: Feed;
  /** The memory budget of all readers of events in this process. */
  readonly readers: ReaderBudget;
  /** Queries over committed rows. MUST NOT see the rows of a transaction that is still open. */
  readonly read: Kysely<Tables>;

  /**
   * Returns the committed row whose columns equal `where`. Like {@link Store.read}, but for the hot path: it builds no
   * query text.
   */
  find<K extends keyof Tables>(table: K, where: Partial<Tables[K]>): Promise<Tables[K] | undefined>;

  /**
   * Runs `work` in a transaction and resolves with its value once that is committed.
   *
   * All units of work of one event-loop turn share one transaction (group commit). A driver MUST still isolate them:
   * when one throws, its rows are rolled back, its promise rejects with that error, and the others commit. A work may
   * therefore be called twice: it MUST NOT change anything but the transaction, and MUST NOT await anything but the
   * transaction (no network, no timers).
   *
   * `durable` (default true): the promise resolves after the rows are on disk. With false they are committed and
   * visible, and become durable with the next durable group; for streaming deltas only.
   *
   * `session`: the one that the work is about. Works of one group for different sessions may overlap, so a row by which such a
   * work decides MUST belong to its session. Without `session` it runs alone.
   *
   * Rejects with ServiceError `state_store_unavailable` when the database cannot be reached or is closed.
   */
  write<T>(work: (tx: Tx) => Promise<T> | T, options?: WriteOptions): Promise<T>;

  /** True when the process that a lease names is known to be gone. False also means "not known": wait for the lease. */
  ownerIsDead(owner: string): boolean;

  /** Waits for open groups, then closes the database. Later calls reject with `state_store_unavailable`. */
  close(): Promise<void>;
}

export interface WriteOptions {
  readonly durable?: boolean;
  readonly session?: string | undefined;
}

export interface StoreOptions {
  /** `postgres://...`, a file path, or `:memory:`. */
  readonly url: string;
  /** Default: the process's clock on SQLite, the database's on PostgreSQL. */
  readonly now?: () => number;
  /**
   * Names this machine on leases; default its host name. Replicas that share a host name but not a process table (pods
   * on the host's network) MUST each have their own, or one may consider the other dead.
   */
  readonly host?: string;
  /** Bytes of {@link Store.readers}. */
  readonly maxReaderBytes?: number;
  /** Receives background failures, such as a lost notification connection or a failed sweep. */
  readonly onProblem?: (message: string, error: unknown) => void;
}

/**
 * Runs `work` as {@link Store.write} does. With `dryRun`, the transaction is rolled back after `work` has succeeded: every
 * check is the real one, and nothing is stored or published.
 */
export async function writeOrTry<T>(
  store: Store,
  { dryRun }: { readonly dryRun: boolean },
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  if (!dryRun) return store.write(work);
  try {
    return await store.write(async (tx): Promise<T> => {
      throw new RolledBack(await work(tx));
    });
  } catch (error) {
    if (error instanceof RolledBack) return error.result as T;
    throw error;
  }
}

/** Carries the result of a dry run out of its transaction. */
class RolledBack<T> extends Error {
  override readonly name = "RolledBack";
  readonly result: T;

  constructor(result: T) {
    super("A dry run is rolled back.");
    this.result = result;
  }
}
