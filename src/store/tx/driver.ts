import type { Kysely } from "kysely";
import type { Tables } from "../schema/tables.ts";
import type { Dialect } from "../schema/define.ts";
import type { RawTx, Row, Value } from "./tx.ts";

/**
 * The port of a database; the rest of the store is built on it and is the same for both.
 *
 * A driver
 * - MUST keep `read` and `query` apart from an open transaction: they see committed rows only.
 * - MUST reject with ServiceError `state_store_unavailable` when the database, not the statement, fails.
 * - gets one transaction at a time.
 */
export interface Driver {
  readonly dialect: Dialect;
  readonly read: Kysely<Tables>;
  /**
   * Returns committed rows, by a prepared statement with `?` for its values. A driver that steps through rows MUST stop
   * after the first for which `isLast` is true, so it never loads the rest; others ignore `isLast`.
   */
  query(sql: string, values: readonly Value[], isLast?: (row: Row) => boolean): Promise<readonly Row[]>;
  /** Opens a transaction. `durable`: its commit resolves after the rows are on disk. */
  begin(durable: boolean): Promise<OpenTransaction> | OpenTransaction;
  /**
   * Calls `wake` whenever another process may have committed events, until the returned function is called.
   * `scopes` names what changed (see `scopeKey`); undefined means that anything may have.
   */
  watch(wake: (scopes: readonly string[] | undefined) => void): () => void;
  /** Notifies other processes, soon and in one message for many, that these scopes have new events; undefined: any scope. */
  announce(scopes: readonly string[] | undefined): void;
  /** Closes the database. No transaction is open. */
  close(): Promise<void>;
}

/** A transaction that the works of one group share, one after the other. */
export interface OpenTransaction {
  /** The transaction as one work sees it. */
  enter(): WorkTx;
  /** MUST not leave a transaction open when it fails. */
  commit(): Promise<void> | void;
  /** MUST NOT reject: a transaction that cannot be rolled back has ended. */
  rollback(): Promise<void> | void;
  /** Callbacks of the works after the commit, in order. */
  readonly afterCommit: readonly (() => void)[];
}

export interface WorkTx extends RawTx {
  /**
   * Ends the work's part: waits for statements that the work did not await; later calls on it reject. Rejects with the
   * first failure of its statements, also when the work caught it: on PostgreSQL a failed statement aborts the
   * transaction, so the work fails on both databases.
   */
  finish(): Promise<void>;
}
