import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { openTestStore } from "../../harness/store.ts";
import { sessionRow } from "./rows.ts";

test("a commit that fails rejects every work of its group, and the next group commits", async (t) => {
  const { store } = await openTestStore(t);
  // Checked when the transaction commits, and not before.
  const reference = sql.raw("session text references sessions (id) deferrable initially deferred");
  await store.write((tx) => sql`create table late (${reference})`.execute(tx.db));
  const outcomes = await Promise.allSettled([
    store.write((tx) => tx.insert("sessions", [sessionRow()])),
    store.write((tx) => sql`insert into late values ('nobody')`.execute(tx.db)),
  ]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  const { id } = sessionRow();
  await store.write((tx) => tx.insert("sessions", [sessionRow({ id })]));
  assert.deepEqual(await store.read.selectFrom("sessions").select("id").execute(), [{ id }]);
});
