import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { openStore } from "../../../src/store/open.ts";
import { tables, type Tables } from "../../../src/store/schema/tables.ts";
import { columnsOf } from "../../../src/store/tx/tx.ts";
import { createTestDatabase, openTestStore, testDialect } from "../../harness/store.ts";
import { startChild } from "./child.ts";
import { seed } from "./rows.ts";

test("processes that start together on an empty database all start, on one schema and one epoch", async (t) => {
  const database = await createTestDatabase({ bare: true });
  t.after(() => database.drop());
  const children = Array.from({ length: 5 }, () => startChild("./child-open.ts", [database.url]));
  const here = Promise.all(Array.from({ length: 3 }, () => openStore({ url: database.url })));
  const epochs = new Set<unknown>();
  for (const child of children) {
    for await (const epoch of child.lines) epochs.add(epoch);
    assert.equal(await child.exit, 0);
  }
  for (const store of await here) {
    epochs.add(store.epoch);
    await store.close();
  }
  assert.equal(epochs.size, 1);
});

test("opening a database again keeps its rows", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const { sessionId } = await seed(store);
  const again = await openAnother();
  const rows = await again.read.selectFrom("sessions").select("id").execute();
  assert.deepEqual(rows, [{ id: sessionId }]);
});

test("a database with a step of a newer version is refused and not changed", async (t) => {
  const { store, url } = await openTestStore(t);
  await seed(store);
  await store.write((tx) =>
    sql`insert into kysely_migration (name, timestamp) values ('0999_future', '2999-01-01')`.execute(tx.db),
  );
  await assert.rejects(openStore({ url }), (error: Error & { code?: string }) => {
    assert.equal(error.code, "state_store_unavailable");
    assert.match(error.message, /0999_future/);
    assert.match(error.message, /newer agentd/);
    return true;
  });
  assert.equal((await store.read.selectFrom("sessions").select("id").execute()).length, 1);
});

test("the database has exactly the defined tables and columns", async (t) => {
  const { store } = await openTestStore(t);
  const query =
    testDialect === "sqlite"
      ? sql<{ name: string }>`select name from sqlite_schema where type = 'table' and name not like 'sqlite%'`
      : sql<{ name: string }>`select table_name as name from information_schema.tables
          where table_schema = current_schema()`;
  const names = (await query.execute(store.read)).rows.map(({ name }) => name);
  const ours = names.filter((name) => !name.startsWith("kysely_")) as (keyof Tables)[];
  assert.deepEqual(ours.toSorted(), Object.keys(tables).toSorted());
  for (const table of ours) {
    // Kysely's own way would look at the schemas of other tests, which come and go.
    const columns =
      testDialect === "sqlite"
        ? sql<{ name: string }>`select name from pragma_table_info(${table})`
        : sql<{ name: string }>`select column_name as name from information_schema.columns
            where table_schema = current_schema() and table_name = ${table}`;
    const { rows } = await columns.execute(store.read);
    assert.deepEqual(rows.map(({ name }) => name).sort(), [...columnsOf(table)].sort(), table);
  }
});
