import type { Kysely } from "kysely";
import type { WorkTx } from "../tx/driver.ts";
import { toStoreError } from "../tx/failure.ts";
import { findStatement, incrementTexts, insertStatements, updateStatement } from "../tx/statement.ts";
import type { Tables } from "../schema/tables.ts";
import type { Row, StepTexts, Value } from "../tx/tx.ts";

/** A synchronous connection with prepared statements. */
export interface SyncConnection {
  all(sql: string, values: readonly Value[]): Row[];
  first(sql: string, values: readonly Value[]): Row | undefined;
  run(sql: string, values: readonly Value[]): number;
}

/** State that the works of one transaction share. */
export interface SqliteShare {
  readonly connection: SyncConnection;
  readonly kysely: Kysely<Tables>;
  readonly nowMs: number;
  readonly afterCommit: (() => void)[];
}

const DONE: Promise<void> = Promise.resolve();
const NONE: Promise<undefined> = Promise.resolve(undefined);

/** One work's view of a SQLite transaction: every promise that it returns is already settled. */
export class SqliteTx implements WorkTx {
  readonly dialect = "sqlite";
  readonly nowMs: number;
  readonly #share: SqliteShare;
  #failure: unknown;
  #left = false;

  constructor(share: SqliteShare) {
    this.#share = share;
    this.nowMs = share.nowMs;
  }

  get db(): Kysely<Tables> {
    this.#assertOpen();
    return this.#share.kysely;
  }

  insert<K extends keyof Tables>(table: K, rows: readonly Tables[K][]): Promise<void> {
    try {
      const { connection } = this.#opened();
      for (const { sql, values } of insertStatements(table, rows)) connection.run(sql, values);
      return DONE;
    } catch (error) {
      return this.#fail(error);
    }
  }

  update<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    set: Partial<Tables[K]>,
  ): Promise<number> {
    try {
      const { sql, values } = updateStatement(table, where, set);
      return Promise.resolve(this.#opened().connection.run(sql, values));
    } catch (error) {
      return this.#fail(error);
    }
  }

  increment<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    column: keyof Tables[K] & string,
    by: number,
  ): Promise<number | undefined> {
    try {
      const { texts, values } = incrementTexts(table, where, column);
      return this.step(texts, by, { where: values });
    } catch (error) {
      return this.#fail(error);
    }
  }

  // A read and a write cost less than one update with RETURNING: no other process writes meanwhile.
  step(
    texts: StepTexts,
    by: number,
    { where, set = [] }: { readonly where: readonly Value[]; readonly set?: readonly Value[] },
  ): Promise<number | undefined> {
    try {
      const { connection } = this.#opened();
      const row = connection.first(texts.read, where);
      if (!row) return NONE;
      const value = Number(row[texts.column]) + by;
      connection.run(texts.write, [value, ...set, ...where]);
      return Promise.resolve(value);
    } catch (error) {
      return this.#fail(error);
    }
  }

  find<K extends keyof Tables>(table: K, where: Partial<Tables[K]>): Promise<Tables[K] | undefined> {
    try {
      const { sql, values } = findStatement(table, where);
      const row = this.#opened().connection.first(sql, values);
      return Promise.resolve(row as Tables[K] | undefined);
    } catch (error) {
      return this.#fail(error);
    }
  }

  all(sql: string, values: readonly Value[]): Promise<readonly Row[]> {
    try {
      return Promise.resolve(this.#opened().connection.all(sql, values));
    } catch (error) {
      return this.#fail(error);
    }
  }

  run(sql: string, values: readonly Value[]): Promise<number> {
    try {
      return Promise.resolve(this.#opened().connection.run(sql, values));
    } catch (error) {
      return this.#fail(error);
    }
  }

  afterCommit(run: () => void): void {
    this.#opened().afterCommit.push(run);
  }

  finish(): Promise<void> {
    this.#left = true;
    return this.#failure === undefined ? DONE : Promise.reject(this.#failure);
  }

  #opened(): SqliteShare {
    this.#assertOpen();
    return this.#share;
  }

  #assertOpen(): void {
    if (this.#left)
      throw new TypeError("The transaction is over: use `tx` inside its work only, and await it.");
    // PostgreSQL rejects every statement after a failed one; both databases must behave the same.
    if (this.#failure !== undefined) throw this.#failure;
  }

  #fail(error: unknown): Promise<never> {
    this.#failure ??= toStoreError(error);
    return Promise.reject(this.#failure);
  }
}
