/** What the units of work of one transaction add to counters: one statement for each row, however many works add to it. */
import { tables, type Tables } from "../schema/tables.ts";

/** Tables whose columns outside of the key are counters. */
export type CountedTable = "spending" | "usage_days";

/** The part of a transaction that counts are written with. */
interface Runner {
  run(sql: string, values: readonly (string | number | null)[]): Promise<number>;
}

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
  async write(tx: Runner): Promise<void> {
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

interface Texts {
  readonly sql: string;
  readonly columns: readonly string[];
  readonly counters: readonly string[];
}

const texts = new Map<CountedTable, Texts>();

function textsOf(table: CountedTable): Texts {
  let known = texts.get(table);
  if (!known) texts.set(table, (known = buildTexts(table)));
  return known;
}

function buildTexts(table: CountedTable): Texts {
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
