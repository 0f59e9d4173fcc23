/** The default driver: one file through node:sqlite. Touches the machine. */
import type { Kysely } from "kysely";
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { clearInterval, setInterval } from "node:timers";
import type { SessionRow, Tables } from "./schema/tables.ts";
import {
  type Driver,
  type OpenTransaction,
  type WorkTx,
  createKysely,
  findStatement,
  incrementTexts,
  insertStatements,
  shareWork,
  updateStatement,
  type Row,
  type StepTexts,
  type Value,
} from "./tx/tx.ts";
import { Kept, toStoreError, translated, unavailable } from "./tx/group.ts";

/** Time that a statement waits for the lock of another process. */
export const BUSY_TIMEOUT_MS = 5_000;
const MAX_STATEMENTS = 500;
const WAL_LIMIT_BYTES = 64 * 1024 * 1024;
// A page that many commits change is copied once per checkpoint, so fewer checkpoints mean fewer copies.
const CHECKPOINT_PAGES = 4_000;
const CACHE_KIB = 8_192;

const KEPT_SESSIONS = 256;
const SESSION_BY_ID = findStatement("sessions", { id: "" }).sql;
const POLL_MS = 50;
/**
 * SQLite runs on the event loop: after this much time or text a group is committed, and requests are served before the
 * next group.
 */
const MAX_BLOCKING_MS = 20;
const MAX_WORK_BYTES = 2 * 1_048_576;
/**
 * After this much text, a checkpoint runs in its own turn of the event loop; SQLite itself checkpoints smaller amounts.
 */
const CHECKPOINT_BYTES = 4 * 1_048_576;

interface SqliteOptions {
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
  // SQLite counts the commits of all connections but the one that asks.
  readonly #sessions = new Kept<SessionRow | undefined>(KEPT_SESSIONS, () => dataVersion(this.#reader));
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
    return translated(() =>
      isLast ? this.#reader.until(sql, values, isLast) : this.#reader.all(sql, values),
    );
  }

  async session(id: string): Promise<SessionRow | undefined> {
    const read = () => Object.freeze(this.#reader.first(SESSION_BY_ID, [id])) as SessionRow | undefined;
    return translated(() => this.#sessions.get(id, read));
  }

  begin(durable: boolean): OpenTransaction | Promise<OpenTransaction> {
    if (this.#writer.loggedBytes < CHECKPOINT_BYTES) return this.#begin(durable);
    this.#writer.checkpoint();
    return new Promise((resolve) => setImmediate(resolve)).then(() => this.#begin(durable));
  }

  #begin(durable: boolean): OpenTransaction {
    this.#sessions.mayHaveChanged();
    translated(() => {
      this.#setSynchronous(durable && !this.#location.isTemporary ? "full" : "normal");
      // Takes the write lock at once: a lock taken later, at the first write, cannot wait for another process.
      this.#writer.exec("begin immediate");
    });
    const share = { connection: this.#writer, kysely: this.#kysely, ...shareWork(this.#now()) };
    const fullMs = performance.now() + MAX_BLOCKING_MS;
    const fullBytes = this.#writer.loggedBytes + MAX_WORK_BYTES;
    return {
      ...share,
      isFull: () => this.#writer.loggedBytes >= fullBytes || performance.now() > fullMs,
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
    this.#sessions.mayHaveChanged();
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
      return dataVersion(this.#writer);
    } catch (error) {
      return error;
    }
  }
}

function executeOn(connection: Connection) {
  return async (sql: string, values: readonly unknown[]) =>
    translated(() => {
      if (connection.returnsRows(sql)) return { rows: connection.all(sql, values as Value[]).map(toPlain) };
      return { rows: [], changes: connection.run(sql, values as Value[]) };
    });
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

// Connections

/** One connection with its prepared statements. Opens and configures a connection. ServiceError `state_store_unavailable` when the file cannot be opened. */
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

const dataVersion = (connection: Connection): unknown =>
  connection.first("pragma data_version", [])?.["data_version"];

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

// Transactions

/** State that the units of work in one transaction share. */
interface SqliteShare extends ReturnType<typeof shareWork> {
  readonly connection: Connection;
  readonly kysely: Kysely<Tables>;
}

const DONE: Promise<void> = Promise.resolve();

/** One unit of work's view of a SQLite transaction: every promise that it returns is already settled. */
class SqliteTx implements WorkTx {
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
    return this.#settled(() => {
      const { sql, values } = updateStatement(table, where, set);
      return this.#opened().connection.run(sql, values);
    });
  }

  increment<K extends keyof Tables>(
    table: K,
    where: Partial<Tables[K]>,
    column: keyof Tables[K] & string,
    by: number,
  ): Promise<number | undefined> {
    return this.#settled(() => {
      const { texts, values } = incrementTexts(table, where, column);
      return this.#step(texts, [by], { where: values })?.[0];
    });
  }

  step(
    texts: StepTexts,
    by: readonly number[],
    values: { readonly where: readonly Value[]; readonly set?: readonly Value[] },
  ): Promise<readonly number[] | undefined> {
    return this.#settled(() => this.#step(texts, by, values));
  }

  // A read and a write cost less than one update with RETURNING: no other process writes meanwhile.
  #step(
    texts: StepTexts,
    by: readonly number[],
    { where, set = [] }: { readonly where: readonly Value[]; readonly set?: readonly Value[] },
  ): readonly number[] | undefined {
    const { connection } = this.#opened();
    const row = connection.first(texts.read, where);
    if (!row) return undefined;
    const counters = texts.columns.map((column, index) => Number(row[column]) + (by[index] ?? 0));
    connection.run(texts.write, [...counters, ...set, ...where]);
    return counters;
  }

  find<K extends keyof Tables>(table: K, where: Partial<Tables[K]>): Promise<Tables[K] | undefined> {
    return this.#settled(() => {
      const { sql, values } = findStatement(table, where);
      const row = this.#opened().connection.first(sql, values);
      return row as Tables[K] | undefined;
    });
  }

  all(sql: string, values: readonly Value[]): Promise<readonly Row[]> {
    return this.#settled(() => this.#opened().connection.all(sql, values));
  }

  run(sql: string, values: readonly Value[]): Promise<number> {
    return this.#settled(() => this.#opened().connection.run(sql, values));
  }

  afterCommit(run: () => void): void {
    this.#opened().afterCommit.push(run);
  }

  record(change: SqliteShare["changes"][number]): void {
    this.#opened().changes.push(change);
  }

  readonly count: WorkTx["count"] = (table, row) => this.#opened().counts.add(table, row);

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

  #settled<T>(run: () => T): Promise<T> {
    try {
      return Promise.resolve(run());
    } catch (error) {
      return this.#fail(error);
    }
  }

  #fail(error: unknown): Promise<never> {
    this.#failure ??= toStoreError(error);
    return Promise.reject(this.#failure);
  }
}
