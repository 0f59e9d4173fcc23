import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { Sessions } from "../../../src/agent/session/sessions.ts";
import { openTestStore, testDialect } from "../../harness/store.ts";
import { sessionRow } from "../store/rows.ts";

const OWNER = "tests";

/** How SQLite would go about `sql`. */
function planOf(path: string, sql: string, values: readonly (string | number)[]): readonly string[] {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return database
      .prepare(`explain query plan ${sql}`)
      .all(...values)
      .map((row) => String(row["detail"]));
  } finally {
    database.close();
  }
}

test(
  "every page of saved sessions is read from the index in its order, and never by sorting all sessions",
  { skip: testDialect !== "sqlite" && "the plans of SQLite" },
  async (t) => {
    const { store, url } = await openTestStore(t);
    await store.write(async (tx) => {
      for (let n = 0; n < 300; n++) await tx.insert("sessions", [sessionRow({ updated_at: n >> 1 })]);
    });
    const statements: { sql: string; values: readonly (string | number)[] }[] = [];
    const read = store.read.withPlugin({
      transformQuery: ({ node }) => {
        const { sql, parameters } = store.read.getExecutor().compileQuery(node, { queryId: "plan" });
        statements.push({ sql, values: parameters as readonly (string | number)[] });
        return node;
      },
      transformResult: async ({ result }) => result,
    });
    const sessions = new Sessions({ ...store, read });
    const first = await sessions.list({ owner: OWNER });
    const second = await sessions.list({ owner: OWNER, cursor: first.nextCursor ?? "" });
    const of = await sessions.list({ owner: OWNER, source: "embed" });
    const ofSome = { owner: OWNER, sources: ["embed", "tui"], folders: ["/work", null] };
    const some = await sessions.list(ofSome);
    const prompted = await sessions.list({ ...ofSome, prompted: true, cursor: first.nextCursor ?? "" });
    const late = await sessions.list({ ...ofSome, afterMs: 100 });
    assert.deepEqual(
      [first, second, of, some, prompted, late].map((page) => page.sessions.length),
      [50, 50, 50, 50, 0, 50],
    );
    const lists = statements.filter(({ sql }) => sql.includes('from "sessions"'));
    assert.equal(lists.length, 6);
    for (const { sql, values } of lists) {
      const plan = planOf(url, sql, values);
      assert.match(plan.join("\n"), /USING INDEX sessions_by_update/, sql);
      assert.doesNotMatch(plan.join("\n"), /TEMP B-TREE/, sql);
    }
  },
);
