import type { Kysely } from "kysely";
import type { Dialect } from "../schema/define.ts";
import type { Tables } from "../schema/tables.ts";

/**
 * One open transaction. Valid only inside its `work`; used later, it rejects. A failed statement fails the work, also
 * when the work catches the error.
 */
export interface Tx {
  /** Typed queries inside the transaction. Compiling one costs tens of microseconds: not for the hot path. */
  readonly db: Kysely<Tables>;
  /** Milliseconds since the epoch; the same for the whole transaction. On PostgreSQL the database's own clock. */
  readonly nowMs: number;
  /**
   * Inserts rows by a prepared statement: the hot path. An existing key fails the work, which is retried a few times,
   * since another process may have inserted it meanwhile; then `write` rejects with an error that `isDuplicateKey`
   * recognises. This promise may resolve before the database has answered.
   */
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
  /**
   * Adds `by` to an integer column of the row that equals `where`; resolves to the new value, or undefined without a
   * row.
   */
  increment<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    column: keyof Tables[K] & string,
    by: number,
  ): Promise<number | undefined>;
  /**
   * Returns the first row that equals `where`, by a prepared statement: a look-up for the hot path, meant for unique
   * keys.
   */
  find<K extends keyof Tables>(table: K, where: Partial<Tables[K]>): Promise<Tables[K] | undefined>;
  /** Runs after the commit, in order; dropped when the work fails. MUST NOT throw. */
  afterCommit(run: () => void): void;
}

/** A value that both databases can store in a column. */
export type Value = string | number | null;

/** A transaction for the store's own files: any statement, with `?` for its values, prepared once per text. */
export interface RawTx extends Tx {
  readonly dialect: Dialect;
  /** Returns the rows of a select, or of a writing statement with RETURNING. */
  all(sql: string, values: readonly Value[]): Promise<readonly Row[]>;
  /** Like `increment`, with texts built once; undefined without a row. */
  step(
    texts: StepTexts,
    by: number,
    values: { readonly where: readonly Value[]; readonly set?: readonly Value[] },
  ): Promise<number | undefined>;
  /** Resolves to the number of changed rows. */
  run(sql: string, values: readonly Value[]): Promise<number>;
}

/** Texts that increment a counter: SQLite reads and writes it, PostgreSQL does both in one statement. */
export interface StepTexts {
  readonly column: string;
  /** Takes the values of `where`. */
  readonly read: string;
  /** Takes the new value, those of `set`, those of `where`. */
  readonly write: string;
  /** Takes the step, the values of `set`, those of `where`. */
  readonly move: string;
}

export type Row = Record<string, Value>;

/** Returns the same transaction with the store's own methods. Only drivers create transactions, so each has them. */
export function rawTx(tx: Tx): RawTx {
  if (!("all" in tx))
    throw new TypeError("This is not a transaction of the store: pass on the one `write` gave.");
  return tx as RawTx;
}

const LOCK = "select pg_advisory_xact_lock(hashtextextended(current_schema()::text || ' ' || ?::text, 0))";

/**
 * Locks a name until the end of the transaction; transactions of other processes that lock it wait. For decisions about
 * rows that others may be writing, where no unique key prevents a conflict.
 */
export async function lockName(tx: Tx, name: string): Promise<void> {
  const raw = rawTx(tx);
  // SQLite has one writer at a time.
  if (raw.dialect === "postgres") await raw.all(LOCK, [name]);
}
