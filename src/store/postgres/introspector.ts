import { PostgresIntrospector, type TableMetadata } from "kysely";

/** The part of pg_catalog that is read here. */
type Catalog = {
  readonly pg_tables: { readonly schemaname: string; readonly tablename: string };
};

/**
 * Lists the tables for the migrator, by name only. Kysely's own introspection reads the columns of every schema in the
 * database, which is slow beside large schemas, and fails when another one drops a table meanwhile.
 */
export class TableIntrospector extends PostgresIntrospector {
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
