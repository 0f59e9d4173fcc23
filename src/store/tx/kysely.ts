import {
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";
import type { CompiledQuery, DatabaseConnection, QueryResult, TableMetadata } from "kysely";
import { withoutNul } from "./statement.ts";
import type { Tables } from "../schema/tables.ts";
import type { Dialect } from "../schema/define.ts";

/** Runs one compiled statement. `changes` is undefined for statements that only read. */
export type Execute = (
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
      // As in statement.ts: values are compared in the form in which they are stored.
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
