/** A transaction, what drivers implement of it, and the statements that it runs. */
import {
  type CompiledQuery,
  type DatabaseConnection,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  type RawBuilder,
  type SqlBool,
  sql as fragment,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TableMetadata,
} from "kysely";
import type { Change } from "../feed/change.ts";
import type { Dialect } from "../schema/define.ts";
import { tables, type SessionRow, type Tables } from "../schema/tables.ts";

/**
 * One open transaction. Valid only inside its `work`; used later, it rejects. A failed statement fails the work, even
 * if the work catches the error.
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
  /** Records a change for the feed, written with the others of the transaction; dropped when the work fails. */
  record(change: Change): void;
  /**
   * Adds to the counters of the row with the key of `row`, which is created when it does not exist: all columns outside of
   * the key are counters. Written before the commit, once for all works of the transaction; dropped when the work fails.
   */
  count<K extends CountedTable>(table: K, row: Tables[K]): void;
}

/** Tables whose columns outside of the key are counters. */
export type CountedTable = "spending" | "usage_days";

/** A value that both databases can store in a column. */
export type Value = string | number | null;

/** A transaction for the store's own files: any statement, with `?` for its values, prepared once per text. */
export interface RawTx extends Tx {
  readonly dialect: Dialect;
  /** Returns the rows of a select, or of a writing statement with RETURNING. */
  all(sql: string, values: readonly Value[]): Promise<readonly Row[]>;
  /** Like `increment`, for the counters of `texts`, which are built once; undefined without a row. */
  step(
    texts: StepTexts,
    by: readonly number[],
    values: { readonly where: readonly Value[]; readonly set?: readonly Value[] },
  ): Promise<readonly number[] | undefined>;
  /** Resolves to the number of changed rows. */
  run(sql: string, values: readonly Value[]): Promise<number>;
}

/** Texts that increment counters of a row: SQLite reads and writes them, PostgreSQL does both in one statement. */
export interface StepTexts {
  readonly columns: readonly string[];
  /** Takes the values of `where`. */
  readonly read: string;
  /** Takes the new values, those of `set`, those of `where`. */
  readonly write: string;
  /** Takes the steps, the values of `set`, those of `where`. */
  readonly move: string;
}

export type Row = Record<string, Value>;

/** Returns the same transaction with the store's own methods. Only drivers create transactions, so each has them. */
export function rawTx(tx: Tx): RawTx {
  if (!("all" in tx))
    throw new TypeError("This is not a transaction of the store: pass the one that `write` provides.");
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

/**
 * Returns the condition that a column has one of these values, which are sent as one: the statement is prepared once for
 * any number of them. PostgreSQL counts on about ten, so it looks up each by the index of the column.
 */
export function isOneOf(tx: Tx, column: string, values: readonly string[]): RawBuilder<SqlBool> {
  const json = JSON.stringify(values);
  return rawTx(tx).dialect === "sqlite"
    ? fragment`${fragment.ref(column)} in (select value from json_each(${json}))`
    : fragment`${fragment.ref(column)} = any (array(select json_array_elements_text(${json}::text::json)))`;
}

/** The columns of a row without a lease. */
export const UNLEASED = { lease_owner: null, lease_until: 0 } as const;

/**
 * Returns the columns of a row that `owner` leases for `leaseMs` from now. Set them together with what else changes in the
 * row: a lease needs no statement of its own.
 */
export function leaseFor({ nowMs }: Pick<Tx, "nowMs">, owner: string, leaseMs: number) {
  return { lease_owner: owner, lease_until: nowMs + leaseMs };
}

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
  /** See {@link Store.epoch}. Absent: it was not read yet. */
  readonly epoch?: string;
  readonly read: Kysely<Tables>;
  /**
   * Returns committed rows, by a prepared statement with `?` for its values. A driver that steps through rows MUST stop
   * after the first for which `isLast` is true, so it never loads the rest; others ignore `isLast`.
   */
  query(sql: string, values: readonly Value[], isLast?: (row: Row) => boolean): Promise<readonly Row[]>;
  /**
   * Returns a committed session as a query at this moment would, frozen. Each call about a session reads it, far more often
   * than anything is committed. Absent: this driver keeps none.
   */
  session?(id: string): Promise<SessionRow | undefined>;
  /** Opens a transaction. `durable`: its commit resolves after the rows are on disk. */
  begin(durable: boolean): Promise<OpenTransaction> | OpenTransaction;
  /**
   * Calls `wake` whenever another process may have committed events, until the returned function is called.
   * `scopes` names what changed (see `scopeKey`); undefined means that anything may have.
   */
  watch(wake: (scopes: readonly string[] | undefined) => void): () => void;
  /**
   * Notifies other processes, soon and in one message for many, that these scopes have new events; undefined: any scope.
   * Absent: other processes look for themselves.
   */
  announce?(scopes: readonly string[] | undefined): void;
  /** Closes the database. No transaction is open. */
  close(): Promise<void>;
}

// What a driver implements

/** A transaction that the units of work in one group share, one after the other. */
export interface OpenTransaction {
  /** The transaction as one work sees it. */
  enter(): WorkTx;
  /** Whether works may overlap: statements are sent without waiting for the answers to those of others. */
  readonly mayOverlap?: boolean;
  /** Returns whether the transaction is full: the next unit of work goes into another one. */
  isFull(): boolean;
  /** MUST not leave a transaction open when it fails. */
  commit(): Promise<void> | void;
  /** MUST NOT reject: a transaction that cannot be rolled back has ended. */
  rollback(): Promise<void> | void;
  /** Callbacks to run after the commit, in order. */
  readonly afterCommit: readonly (() => void)[];
  /** Changes that the works recorded, in order. */
  readonly changes: readonly Change[];
  /** What the works counted. */
  readonly counts: Counts;
}

/** State that the units of work in one transaction share, in both drivers. */
export interface SharedWork {
  readonly nowMs: number;
  readonly afterCommit: (() => void)[];
  readonly changes: Change[];
  readonly counts: Counts;
}

export function shareWork(nowMs: number): SharedWork {
  return { nowMs, afterCommit: [], changes: [], counts: new Counts() };
}

export interface WorkTx extends RawTx {
  /**
   * Ends the work's part: waits for statements that the work did not await; later calls on it reject. Rejects with the
   * first failure of its statements, even if the work caught it: on PostgreSQL a failed statement aborts the
   * transaction, so the work fails on both databases.
   */
  finish(): Promise<void>;
}

// Statements

/** SQL with `?` for its values, and the values. */
export interface Statement {
  readonly sql: string;
  readonly values: readonly Value[];
}

type Table = keyof Tables;
type Columns = Readonly<Record<string, unknown>>;

/** Keeps the parameters of an insert far below the lowest limit, SQLite's 32,766. */
const MAX_ROWS = 64;

// Texts are built once per shape; few shapes exist, since callers name columns in source code.
const texts = new Map<string, string>();

function text(shape: string, build: () => string): string {
  let sql = texts.get(shape);
  if (sql === undefined) texts.set(shape, (sql = build()));
  return sql;
}

/**
 * Returns inserts that together write `rows`. Their lengths are powers of two, so few texts are prepared for any number
 * of rows; a row in a statement of many is cheaper than its own statement.
 */
export function insertStatements(table: Table, rows: readonly object[]): readonly Statement[] {
  const statements: Statement[] = [];
  const columns = columnsOf(table);
  for (let start = 0; start < rows.length;) {
    const count = powerOfTwoWithin(Math.min(rows.length - start, MAX_ROWS));
    const values: Value[] = [];
    for (let i = start; i < start + count; i++) pushRow(columns, rows[i] as Columns, values);
    statements.push({ sql: insertText(table, count), values });
    start += count;
  }
  return statements;
}

const insertTexts = new Map<Table, string[]>();

function insertText(table: Table, count: number): string {
  let texts = insertTexts.get(table);
  if (!texts) insertTexts.set(table, (texts = []));
  return (texts[count] ??= buildInsert(table, count));
}

function buildInsert(table: Table, count: number): string {
  const columns = columnsOf(table);
  const row = `(${columns.map(() => "?").join(", ")})`;
  return `insert into ${table} (${columns.join(", ")}) values ${Array(count).fill(row).join(", ")}`;
}

function pushRow(columns: readonly string[], row: Columns, into: Value[]): void {
  // An iterator would cost more than all else here.
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i] as string;
    into.push(toValue(row[column], column));
  }
}

const powerOfTwoWithin = (count: number): number => 2 ** Math.floor(Math.log2(count));

export function updateStatement(table: Table, where: object, set: object): Statement {
  const values: Value[] = [];
  for (const [column, value] of Object.entries(set)) values.push(toValue(value, column));
  const sql = text(`update ${table} ${names(set)} ${shapeOf(where)}`, () => {
    const sets = assertColumns(table, Object.keys(set)).map((column) => `${column} = ?`);
    return `update ${table} set ${sets.join(", ")} where ${conditions(table, where)}`;
  });
  pushWhere(where, values);
  return { sql, values };
}

/**
 * Returns texts that increment `columns` in the row that equals `where`, set the columns of `set`, and make `assignments`,
 * which see the row as it was. Only the names and the nulls of `where` matter.
 */
export function stepTexts(
  table: Table,
  where: object,
  {
    columns,
    set = [],
    assignments = [],
  }: {
    readonly columns: readonly string[];
    readonly set?: readonly string[];
    readonly assignments?: readonly string[];
  },
): StepTexts {
  const counters = assertColumns(table, columns);
  const named = set.length === 0 ? [] : assertColumns(table, set).map((name) => `${name} = ?`);
  const others = [...named, ...assignments];
  const rows = `where ${conditions(table, where)}`;
  const values = [...counters.map((name) => `${name} = ?`), ...others].join(", ");
  const steps = [...counters.map((name) => `${name} = ${name} + ?`), ...others].join(", ");
  return {
    columns: counters,
    read: `select ${counters.join(", ")} from ${table} ${rows} limit 1`,
    write: `update ${table} set ${values} ${rows}`,
    move: `update ${table} set ${steps} ${rows} returning ${counters.join(", ")}`,
  };
}

const increments = new Map<string, StepTexts>();

/** Returns the texts of `increment`, and the values of its `where`. */
export function incrementTexts(
  table: Table,
  where: object,
  column: string,
): { texts: StepTexts; values: readonly Value[] } {
  const shape = `${table} ${column} ${shapeOf(where)}`;
  let texts = increments.get(shape);
  if (!texts) increments.set(shape, (texts = stepTexts(table, where, { columns: [column] })));
  const values: Value[] = [];
  pushWhere(where, values);
  return { texts, values };
}

export function findStatement(table: Table, where: object): Statement {
  const values: Value[] = [];
  const sql = text(`find ${table} ${shapeOf(where)}`, () => {
    return `select ${columnsOf(table).join(", ")} from ${table} where ${conditions(table, where)} limit 1`;
  });
  pushWhere(where, values);
  return { sql, values };
}

/**
 * Returns text that can be bound. NUL becomes U+FFFD: PostgreSQL rejects NUL, and Deno's SQLite cuts the text there.
 */
export function withoutNul(text: string): string {
  return text.includes("\0") ? text.replaceAll("\0", "\ufffd") : text;
}

const lists = new Map<string, readonly string[]>(
  Object.entries(tables).map(([name, { columns }]) => [name, Object.freeze(Object.keys(columns))]),
);

/** Returns the table's columns in the order in which statements name them. */
export function columnsOf(name: keyof Tables): readonly string[] {
  const list = lists.get(name);
  if (!list) throw new TypeError(`The table ${JSON.stringify(name)} does not exist.`);
  return list;
}

/** A column name is the one thing in a statement that cannot be a parameter. */
function hasColumn(name: keyof Tables, column: string): boolean {
  return columnsOf(name).includes(column);
}

/** Returns a value that a driver can bind. */
export function toValue(value: unknown, name: string): Value {
  if (typeof value === "string") return withoutNul(value);
  if (typeof value === "number") return value;
  if (value === null || value === undefined) return null;
  throw new TypeError(`Column ${name} takes text, a number or null, not ${typeof value}.`);
}

function names(columns: object): string {
  let text = "";
  for (const column in columns) text += `${column},`;
  return text;
}

// `= null` is never true, so null is part of the text and not a value.
function shapeOf(where: object): string {
  let text = "";
  for (const column in where) text += (where as Columns)[column] === null ? `${column}!,` : `${column},`;
  return text;
}

function conditions(table: Table, where: object): string {
  const columns = assertColumns(table, Object.keys(where));
  return columns
    .map((column) => (isNull(where, column) ? `${column} is null` : `${column} = ?`))
    .join(" and ");
}

function pushWhere(where: object, into: Value[]): void {
  for (const [column, value] of Object.entries(where)) {
    if (value === undefined) throw new TypeError(`where.${column} is undefined: name a value, or null.`);
    if (value !== null) into.push(toValue(value, column));
  }
}

const isNull = (where: object, column: string) => (where as Columns)[column] === null;

function assertColumns(table: Table, list: readonly string[]): readonly string[] {
  if (list.length === 0) throw new TypeError(`A statement on ${table} must name at least one column.`);
  const unknown = list.find((column) => !hasColumn(table, column));
  if (unknown !== undefined) throw new TypeError(`Table ${table} has no column ${JSON.stringify(unknown)}.`);
  return list;
}

// What the units of work of one transaction add to counters: one statement for each row, however many works add to it.

type Counted = Record<string, string | number>;

interface CountedRow {
  readonly table: CountedTable;
  readonly row: Counted;
}

/** The counts of one transaction. */
export class Counts {
  readonly #rows = new Map<string, CountedRow>();

  get isEmpty(): boolean {
    return this.#rows.size === 0;
  }

  add<K extends CountedTable>(table: K, row: Tables[K]): void {
    const added: Counted = row;
    let name: string = table;
    for (const column of tables[table].key) name += `\n${added[column]}`;
    const known = this.#rows.get(name);
    if (!known) return void this.#rows.set(name, { table, row: { ...added } });
    for (const column of textsOf(table).counters) {
      known.row[column] = Number(known.row[column]) + Number(added[column]);
    }
  }

  /** Writes the rows in the order of their keys, so that two processes never wait for each other. */
  async write(tx: Pick<RawTx, "run">): Promise<void> {
    const names = [...this.#rows.keys()].sort();
    for (const name of names) {
      const { table, row } = this.#rows.get(name) as CountedRow;
      const { sql, columns } = textsOf(table);
      await tx.run(
        sql,
        columns.map((column) => row[column] ?? null),
      );
    }
  }
}

interface CountTexts {
  readonly sql: string;
  readonly columns: readonly string[];
  readonly counters: readonly string[];
}

const countTexts = new Map<CountedTable, CountTexts>();

function textsOf(table: CountedTable): CountTexts {
  let known = countTexts.get(table);
  if (!known) countTexts.set(table, (known = buildCount(table)));
  return known;
}

function buildCount(table: CountedTable): CountTexts {
  const { columns: kinds, key } = tables[table];
  const columns = Object.keys(kinds);
  const counters = columns.filter((column) => !(key as readonly string[]).includes(column));
  const sets = counters.map((column) => `${column} = ${table}.${column} + excluded.${column}`);
  const values = columns.map(() => "?").join(", ");
  const sql =
    `insert into ${table} (${columns.join(", ")}) values (${values}) ` +
    `on conflict (${key.join(", ")}) do update set ${sets.join(", ")}`;
  return { sql, columns, counters };
}

// Kysely over a driver

/** Runs one compiled statement. `changes` is undefined for statements that only read. */
type Execute = (
  sql: string,
  values: readonly unknown[],
) => Promise<{ readonly rows: readonly object[]; readonly changes?: number }>;

/**
 * Creates Kysely over one function. The drivers choose the connection of a statement; Kysely only builds its text.
 * (kysely-postgres-js is not used: it returns a dead connection to the pool of postgres.js 3.4, whose next query then
 * never ends and throws from a timer.) With `transactions`, `begin` and `commit` are sent as statements: for the
 * migrator, which has a single connection.
 */
export function createKysely(
  dialect: Dialect,
  execute: Execute,
  { transactions = false } = {},
): Kysely<Tables> {
  const control = async (sql: string) => {
    if (!transactions) throw new TypeError("Transactions are opened by store.write, not by Kysely.");
    await execute(sql, []);
  };
  const connection = toConnection(execute);
  const driver = {
    init: async () => {},
    acquireConnection: async () => connection,
    beginTransaction: () => control("begin"),
    commitTransaction: () => control("commit"),
    rollbackTransaction: () => control("rollback"),
    releaseConnection: async () => {},
    destroy: async () => {},
  };
  const isSqlite = dialect === "sqlite";
  return new Kysely<Tables>({
    dialect: {
      createDriver: () => driver,
      createAdapter: () => (isSqlite ? new SqliteAdapter() : new PostgresAdapter()),
      createIntrospector: (db) => (isSqlite ? new SqliteIntrospector(db) : new TableIntrospector(db)),
      createQueryCompiler: () => (isSqlite ? new SqliteQueryCompiler() : new PostgresQueryCompiler()),
    },
  });
}

function toConnection(execute: Execute): DatabaseConnection {
  return {
    async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
      // Values are compared in the form in which they are stored.
      const values = query.parameters.map((value) => (typeof value === "string" ? withoutNul(value) : value));
      const { rows, changes } = await execute(query.sql, values);
      const numAffectedRows = changes === undefined ? undefined : BigInt(changes);
      return { rows: rows as R[], ...(numAffectedRows !== undefined && { numAffectedRows }) };
    },
    // A cursor would occupy a connection for as long as its reader wants.
    streamQuery() {
      throw new TypeError("Streams are not offered: read pages with `limit` and a key.");
    },
  };
}

/** The part of pg_catalog that is read here. */
type Catalog = {
  readonly pg_tables: { readonly schemaname: string; readonly tablename: string };
};

/**
 * Lists the tables for the migrator, by name only. Kysely's own introspection reads the columns of every schema in the
 * database, which is slow beside large schemas, and fails when another one drops a table meanwhile.
 */
class TableIntrospector extends PostgresIntrospector {
  readonly #db: ConstructorParameters<typeof PostgresIntrospector>[0];

  constructor(db: ConstructorParameters<typeof PostgresIntrospector>[0]) {
    super(db);
    this.#db = db;
  }

  override async getTables(): Promise<TableMetadata[]> {
    const rows = await this.#db
      .withSchema("pg_catalog")
      .$extendTables<Catalog>()
      .selectFrom("pg_tables")
      .select(["schemaname", "tablename"])
      .execute();
    return rows.map(({ schemaname: schema, tablename: name }) => {
      return { schema, name, isView: false, isForeign: false, columns: [] };
    });
  }
}
