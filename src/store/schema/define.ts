/** Defines tables that mean the same in both databases. Pure. */

export type Dialect = "sqlite" | "postgres";

type Kind = "text" | "integer";
/** A column's kind; a trailing `?` allows null. */
type Column = Kind | `${Kind}?`;
type Columns = Readonly<Record<string, Column>>;

export interface Index<Name extends string = string> {
  readonly columns: readonly Name[];
  /** Makes the index partial. */
  readonly where?: string;
  readonly isUnique?: true;
}

export interface Table<C extends Columns = Columns> {
  /** In the order in which statements name them. */
  readonly columns: C;
  /** The primary key. */
  readonly key: readonly string[];
  readonly indexes: Readonly<Record<string, Index>>;
  /** Rows are often longer than about 1,000 bytes. */
  readonly hasLongRows: boolean;
}

/** The row of a table, as both databases return it. */
export type RowOf<T extends Table> = { -readonly [Name in keyof T["columns"]]: ValueOf<T["columns"][Name]> };

type ValueOf<C extends Column> = C extends "text"
  ? string
  : C extends "text?"
    ? string | null
    : C extends "integer"
      ? number
      : number | null;

/** Defines a table. Row types, column lists and the migration derive from it. */
export function table<const C extends Columns>(
  columns: C,
  key: readonly (keyof C & string)[],
  indexes: Readonly<Record<string, Index<keyof C & string>>> = {},
  { hasLongRows = false }: { readonly hasLongRows?: boolean } = {},
): Table<C> {
  return { columns, key, indexes, hasLongRows };
}

/** Returns the statements that create the table `name` and its indexes. */
export function createStatements(
  name: string,
  { columns, key, indexes, hasLongRows }: Table,
  dialect: Dialect,
): string[] {
  const list = Object.entries(columns).map(([column, kind]) => `${column} ${typeOf(kind, dialect)}`);
  // Strict: SQLite refuses a wrong type, as PostgreSQL does. Without rowid: rows are stored in the order of their key,
  // which is also the order of insertion, so an insert writes one B-tree instead of two. Long rows have a rowid: to find a
  // key among rows without one, SQLite reads the whole of each row that it compares, and inner pages hold whole rows.
  const tail = dialect === "postgres" ? "" : hasLongRows ? " strict" : " strict, without rowid";
  const primary = `constraint ${name}_pk primary key (${key.join(", ")})`;
  return [
    `create table ${name} (${[...list, primary].join(", ")})${tail}`,
    ...Object.entries(indexes).map(
      ([index, { columns: on, where, isUnique }]) =>
        `create ${isUnique ? "unique " : ""}index ${name}_${index} on ${name} (${on.join(", ")})` +
        (where === undefined ? "" : ` where ${where}`),
    ),
  ];
}

// Binary collation: both databases sort text by its bytes, so cursors over keys mean the same.
const TYPES = {
  sqlite: { text: "text", integer: "integer" },
  postgres: { text: 'text collate "C"', integer: "bigint" },
} as const;

function typeOf(column: Column, dialect: Dialect): string {
  const type = TYPES[dialect][column.startsWith("text") ? "text" : "integer"];
  return column.endsWith("?") ? type : `${type} not null`;
}
