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
  // A slow first work would have a transaction to itself.
  const stopped = t.mock.method(performance, "now", () => 0);
  const outcomes = await Promise.allSettled([
    store.write((tx) => tx.insert("sessions", [sessionRow()])),
    store.write((tx) => sql`insert into late values ('nobody')`.execute(tx.db)),
  ]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  stopped.mock.restore();
  const { id } = sessionRow();
  await store.write((tx) => tx.insert("sessions", [sessionRow({ id })]));
  assert.deepEqual(await store.read.selectFrom("sessions").select("id").execute(), [{ id }]);
});

test("on SQLite many long works yield the event loop in between, and keep their order", async (t) => {
  const { store } = await openTestStore(t);
  if (store.dialect !== "sqlite") return t.skip("the database works in a process of its own");
  const ended: number[] = [];
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  const works = Array.from({ length: 20 }, (_, index) =>
    store.write(async (tx) => {
      await tx.insert("sessions", [sessionRow()]);
      const untilMs = performance.now() + 10;
      while (performance.now() < untilMs);
      // Others are served before the first and after the last work in any case.
      if (index === 0) setImmediate(count);
      ended.push(index);
    }),
  );
  await Promise.all(works);
  isOver = true;
  assert.deepEqual(
    ended,
    works.map((_, index) => index),
  );
  assert.ok(turns >= 3, `${turns} turns of the loop`);
  const { rows } = await store.read
    .selectFrom("sessions")
    .select((of) => of.fn.countAll().as("rows"))
    .executeTakeFirstOrThrow();
  assert.equal(Number(rows), 20);
});
