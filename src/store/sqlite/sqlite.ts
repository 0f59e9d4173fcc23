/** Touches the machine: the default driver, one file through node:sqlite. */
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { clearInterval, setInterval } from "node:timers";
import type { Kysely } from "kysely";
import type { Driver, OpenTransaction, WorkTx } from "../tx/driver.ts";
import { toStoreError, unavailable } from "../tx/failure.ts";
import { createKysely } from "../tx/kysely.ts";
import { Connection } from "./connection.ts";
import { SqliteTx } from "./tx.ts";
import type { Tables } from "../schema/tables.ts";
import type { Row, Value } from "../tx/tx.ts";

const POLL_MS = 50;

export interface SqliteOptions {
  /** A file path, or `:memory:` for a database that is deleted when it is closed. */
  readonly path: string;
  readonly now: () => number;
}

/**
 * Opens SQLite in WAL mode: one connection writes, another reads, so a read never sees an open transaction. `migrate`
 * gets the writing connection first.
 */
export async function openSqlite(
  options: SqliteOptions,
  migrate: (db: Kysely<Tables>, file: SqliteFile) => Promise<void>,
): Promise<Driver> {
  const location = toLocation(options.path);
  try {
    const writer = new Connection(location.path);
    try {
      await migrate(createKysely("sqlite", executeOn(writer)), {
        path: location.path,
        exec: (sql) => writer.exec(sql),
      });
      return new SqliteDriver(writer, location, options.now);
    } catch (error) {
      writer.close();
      throw error;
    }
  } catch (error) {
    location.remove();
    throw toStoreError(error);
  }
}

/** The file under migration. `exec` runs statements on the connection that `db` uses. */
export interface SqliteFile {
  readonly path: string;
  exec(sql: string): void;
}

class SqliteDriver implements Driver {
  readonly dialect = "sqlite";
  readonly read: Kysely<Tables>;
  readonly #writer: Connection;
  readonly #reader: Connection;
  readonly #location: Location;
  readonly #now: () => number;
  readonly #kysely: Kysely<Tables>;
  #work: SqliteTx | undefined;
  #synchronous = "";

  constructor(writer: Connection, location: Location, now: () => number) {
    this.#writer = writer;
    this.#location = location;
    this.#now = now;
    this.#reader = new Connection(location.path);
    this.#reader.exec("pragma query_only = 1");
    this.read = createKysely("sqlite", executeOn(this.#reader));
    this.#kysely = createKysely("sqlite", (sql, values) => this.#executeInWork(sql, values));
  }

  async query(
    sql: string,
    values: readonly Value[],
    isLast?: (row: Row) => boolean,
  ): Promise<readonly Row[]> {
    try {
      return isLast ? this.#reader.until(sql, values, isLast) : this.#reader.all(sql, values);
    } catch (error) {
      throw toStoreError(error);
    }
  }

  begin(durable: boolean): OpenTransaction {
    try {
      this.#setSynchronous(durable && !this.#location.isTemporary ? "full" : "normal");
      // Takes the write lock at once: a lock taken later, at the first write, cannot wait for another process.
      this.#writer.exec("begin immediate");
    } catch (error) {
      throw toStoreError(error);
    }
    const share = { connection: this.#writer, kysely: this.#kysely, nowMs: this.#now(), afterCommit: [] };
    return {
      afterCommit: share.afterCommit,
      enter: (): WorkTx => (this.#work = new SqliteTx(share)),
      commit: () => this.#commit(),
      rollback: () => this.#rollback(),
    };
  }

  /** Polls the counter that SQLite keeps of other connections' commits; the poll does not keep the process alive. */
  watch(wake: (scopes: undefined) => void): () => void {
    let version = this.#dataVersion();
    const timer = setInterval(() => {
      const next = this.#dataVersion();
      if (next !== version) wake(undefined);
      version = next;
    }, POLL_MS);
    timer.unref();
    return () => clearInterval(timer);
  }

  announce(): void {
    // Other processes poll.
  }

  async close(): Promise<void> {
    this.#reader.close();
    this.#writer.close();
    this.#location.remove();
  }

  // The setting cannot change inside a transaction; between two, the change costs a microsecond.
  #setSynchronous(level: "full" | "normal"): void {
    if (this.#synchronous !== level) this.#writer.exec(`pragma synchronous = ${level}`);
    this.#synchronous = level;
  }

  #commit(): void {
    this.#work = undefined;
    try {
      this.#writer.exec("commit");
    } catch (error) {
      this.#rollback();
      throw toStoreError(error);
    }
  }

  #rollback(): void {
    this.#work = undefined;
    // After errors such as a full disk, SQLite has already rolled back.
    if (this.#writer.isInTransaction) this.#writer.exec("rollback");
  }

  async #executeInWork(sql: string, values: readonly unknown[]) {
    const work = this.#work;
    if (!work) throw new TypeError("The transaction is over: use `tx` inside its work only, and await it.");
    if (this.#writer.returnsRows(sql)) return { rows: (await work.all(sql, values as Value[])).map(toPlain) };
    return { rows: [], changes: await work.run(sql, values as Value[]) };
  }

  // Read on the writer, which does not count its own commits. A failure counts as a change: followers then read and get
  // the error.
  #dataVersion(): unknown {
    try {
      return this.#writer.first("pragma data_version", [])?.["data_version"];
    } catch (error) {
      return error;
    }
  }
}

function executeOn(connection: Connection) {
  return async (sql: string, values: readonly unknown[]) => {
    try {
      const params = values as readonly Value[];
      if (connection.returnsRows(sql)) return { rows: connection.all(sql, params).map(toPlain) };
      return { rows: [], changes: connection.run(sql, params) };
    } catch (error) {
      throw toStoreError(error);
    }
  };
}

// node:sqlite returns objects without a prototype, PostgreSQL's driver plain ones.
const toPlain = (row: Row): Row => ({ ...row });

interface Location {
  readonly path: string;
  readonly isTemporary: boolean;
  remove(): void;
}

/**
 * Two connections can share SQLite's own `:memory:` only with locks that block readers, so this is a file that is
 * deleted with the store or, at the latest, at the end of the process.
 */
function toLocation(path: string): Location {
  if (path === "") throw unavailable("The database path is empty: name a file, or `:memory:`.");
  if (path !== ":memory:") {
    prepareFile(path);
    return { path, isTemporary: false, remove: () => {} };
  }
  const folder = mkdtempSync(join(tmpdir(), "agentd-memory-"));
  const wipe = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", wipe);
  const remove = () => {
    process.off("exit", wipe);
    wipe();
  };
  return { path: join(folder, "state.db"), isTemporary: true, remove };
}

/** SQLite creates the other files with the database's mode: private from the first byte. */
function prepareFile(path: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    closeSync(openSync(path, "a", 0o600));
  } catch (error) {
    throw unavailable(
      `The database file ${path} cannot be created. Check the folder and its permissions.`,
      error,
    );
  }
}
