import { sql } from "kysely";
import type { CreateTableBuilder, Kysely, RawBuilder } from "kysely";
import type { Tables } from "../tables.ts";
import type { Dialect } from "../../tx/tx.ts";

export interface Index {
  readonly columns: readonly string[];
  /** Makes it partial. */
  readonly where?: RawBuilder<boolean>;
  readonly isUnique?: boolean;
}

type Kind = "text" | "integer";

/** `name: kind` in the order of the columns; a trailing `?` allows null. */
export type Shape = Readonly<Record<string, Kind | `${Kind}?`>>;

/** Makes tables, columns and indexes that mean the same on both databases. */
export class SchemaBuilder {
  readonly db: Kysely<Tables>;
  readonly isSqlite: boolean;

  constructor(db: Kysely<unknown>, dialect: Dialect) {
    this.db = db as Kysely<Tables>;
    this.isSqlite = dialect === "sqlite";
  }

  async table(table: keyof Tables, shape: Shape, key: readonly string[]): Promise<void> {
    let builder: CreateTableBuilder<string, string> = this.db.schema.createTable(table);
    for (const [name, kind] of Object.entries(shape)) {
      const isNullable = kind.endsWith("?");
      const type = this.#type(kind.startsWith("text") ? "text" : "integer");
      builder = builder.addColumn(name, type, (column) => (isNullable ? column : column.notNull()));
    }
    builder = builder.addPrimaryKeyConstraint(`${table}_pk`, [...key]);
    // Strict: a wrong type is refused, as PostgreSQL refuses it. Without rowid: rows lie in the order of their key, which
    // here is the order in which they come, so an insert writes one tree and not two.
    await (this.isSqlite ? builder.modifyEnd(sql`strict, without rowid`) : builder).execute();
  }

  async index(table: keyof Tables, name: string, { columns, where, isUnique }: Index): Promise<void> {
    let builder = this.db.schema
      .createIndex(`${table}_${name}`)
      .on(table)
      .columns([...columns]);
    if (isUnique) builder = builder.unique();
    await (where ? builder.where(where) : builder).execute();
  }

  async dropIndex(table: keyof Tables, name: string): Promise<void> {
    await this.db.schema.dropIndex(`${table}_${name}`).execute();
  }

  /** Adds columns that may be null, or that have a default for the rows there are. */
  async columns(
    table: keyof Tables,
    shape: Shape,
    defaults: Readonly<Record<string, number | string>> = {},
  ): Promise<void> {
    for (const [name, kind] of Object.entries(shape)) {
      const type = this.#type(kind.startsWith("text") ? "text" : "integer");
      const value = defaults[name];
      await this.db.schema
        .alterTable(table)
        .addColumn(name, type, (column) => (value === undefined ? column : column.notNull().defaultTo(value)))
        .execute();
    }
  }

  // Binary collation: both databases sort text by its bytes, so cursors over keys mean the same.
  #type(kind: Kind): RawBuilder<unknown> {
    if (this.isSqlite) return kind === "text" ? sql`text` : sql`integer`;
    return kind === "text" ? sql`text collate "C"` : sql`bigint`;
  }
}
