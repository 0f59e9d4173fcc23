import { columnsOf, hasColumn } from "../schema/tables.ts";
import type { Tables } from "../schema/tables.ts";
import type { StepTexts, Value } from "./tx.ts";

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
  for (let start = 0; start < rows.length;) {
    const count = powerOfTwoWithin(Math.min(rows.length - start, MAX_ROWS));
    const values: Value[] = [];
    for (let i = start; i < start + count; i++) pushRow(table, rows[i] as Columns, values);
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

function pushRow(table: Table, row: Columns, into: Value[]): void {
  for (const column of columnsOf(table)) into.push(toValue(row[column], column));
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
 * Returns texts that increment `column` in the row that equals `where` and set the columns of `set`. Only the names and
 * the nulls of `where` matter.
 */
export function stepTexts(
  table: Table,
  where: object,
  { column, set = [] }: { readonly column: string; readonly set?: readonly string[] },
): StepTexts {
  const [counter = "", ...others] = assertColumns(table, [column, ...set]);
  const also = others.map((name) => `, ${name} = ?`).join("");
  const rows = `where ${conditions(table, where)}`;
  return {
    column,
    read: `select ${counter} from ${table} ${rows} limit 1`,
    write: `update ${table} set ${counter} = ?${also} ${rows}`,
    move: `update ${table} set ${counter} = ${counter} + ?${also} ${rows} returning ${counter}`,
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
  if (!texts) increments.set(shape, (texts = stepTexts(table, where, { column })));
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
