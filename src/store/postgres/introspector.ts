import { PostgresIntrospector, type TableMetadata } from "kysely";

/** Of pg_catalog, as far as it is read here. */
type Catalog = {
  readonly pg_tables: { readonly schemaname: string; readonly tablename: string };
};

/**
 * Tells the migrator which tables there are, by their names alone. Kysely's own look at them takes the columns of every
 * schema in the database, which is slow beside large neighbours, and fails when a neighbour drops a table meanwhile.
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
