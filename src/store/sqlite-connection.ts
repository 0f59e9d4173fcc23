/** One connection to a SQLite file, with its prepared statements. Touches the machine. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Row, Value } from "./tx/tx.ts";
import { unavailable } from "./tx/group.ts";

/** Time that a statement waits for the lock of another process. */
export const BUSY_TIMEOUT_MS = 5_000;
const MAX_STATEMENTS = 500;
const WAL_LIMIT_BYTES = 64 * 1024 * 1024;
// A page that many commits change is copied once per checkpoint, so fewer checkpoints mean fewer copies.
const CHECKPOINT_PAGES = 4_000;
const CACHE_KIB = 8_192;

/** Opens and configures a connection. ServiceError `state_store_unavailable` when the file cannot be opened. */
export class Connection {
  readonly #database: DatabaseSync;
  /** Approximate amount of text written since the last {@link checkpoint}. */
  loggedBytes = 0;
  readonly #statements = new Map<
    string,
    { readonly statement: StatementSync; readonly returnsRows: boolean }
  >();

  constructor(path: string) {
    this.#database = openFile(path);
    // The busy timeout comes first: the switch to WAL takes a lock. fullfsync matters on macOS alone.
    this.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
    this.exec("pragma journal_mode = wal");
    this.exec("pragma foreign_keys = on");
    this.exec("pragma fullfsync = on");
    this.exec("pragma checkpoint_fullfsync = on");
    this.exec(`pragma journal_size_limit = ${WAL_LIMIT_BYTES}`);
    this.exec(`pragma wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    this.exec(`pragma cache_size = -${CACHE_KIB}`);
  }

  get isInTransaction(): boolean {
    return this.#database.isTransaction;
  }

  /** Moves what was committed from the log to the database file. */
  checkpoint(): void {
    this.loggedBytes = 0;
    try {
      this.exec("pragma wal_checkpoint(passive)");
    } catch {
      // The log stays as it is, like after a checkpoint of SQLite itself that fails. A later one moves it.
    }
  }

  // Prepared, not `exec`: Deno's errors of `exec` do not say which of SQLite's codes they are.
  exec(sql: string): void {
    this.#prepare(sql).statement.all();
  }

  all(sql: string, values: readonly Value[]): Row[] {
    return this.#prepare(sql).statement.all(...values) as Row[];
  }

  /** Returns the rows up to the first for which `isLast` is true; later rows are not loaded. */
  until(sql: string, values: readonly Value[], isLast: (row: Row) => boolean): Row[] {
    const rows: Row[] = [];
    for (const row of this.#prepare(sql).statement.iterate(...values) as Iterable<Row>) {
      rows.push(row);
      if (isLast(row)) break;
    }
    return rows;
  }

  first(sql: string, values: readonly Value[]): Row | undefined {
    return this.#prepare(sql).statement.get(...values) as Row | undefined;
  }

  run(sql: string, values: readonly Value[]): number {
    for (const value of values) if (typeof value === "string") this.loggedBytes += value.length;
    return Number(this.#prepare(sql).statement.run(...values).changes);
  }

  returnsRows(sql: string): boolean {
    return this.#prepare(sql).returnsRows;
  }

  close(): void {
    this.#statements.clear();
    if (this.#database.isOpen) this.#database.close();
  }

  #prepare(sql: string) {
    let prepared = this.#statements.get(sql);
    if (!prepared) {
      const statement = this.#database.prepare(sql);
      prepared = { statement, returnsRows: statement.columns().length > 0 };
      // Lists of different lengths produce different texts: the cache must stay bounded.
      if (this.#statements.size >= MAX_STATEMENTS) this.#statements.clear();
      this.#statements.set(sql, prepared);
    }
    return prepared;
  }
}

function openFile(path: string): DatabaseSync {
  try {
    return new DatabaseSync(path);
  } catch (error) {
    throw unavailable(
      `The database file ${path} cannot be opened. Check the path and its permissions.`,
      error,
    );
  }
}
