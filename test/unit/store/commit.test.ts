import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import type { Tx } from "../../../src/store/store.ts";
import { isDuplicateKey } from "../../../src/store/tx/group.ts";
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

test("on PostgreSQL works for different sessions overlap: none waits for the answers to another's statements", async (t) => {
  const { store } = await openTestStore(t);
  if (store.dialect === "sqlite") return t.skip("SQLite answers at once");
  const begun = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  const meet = (own: 0 | 1) =>
    store.write(
      async (tx) => {
        await tx.find("sessions", { id: "none" });
        begun[own].resolve();
        // Only another work that is in the middle of its statements can resolve it.
        await begun[1 - own]?.promise;
        await tx.insert("sessions", [sessionRow()]);
      },
      { session: String(own) },
    );
  await Promise.all([meet(0), meet(1)]);
  const rows = await store.read.selectFrom("sessions").select("id").execute();
  assert.equal(rows.length, 2);
});

test("works for one session never overlap, and a work without a session overlaps with none", async (t) => {
  const { store } = await openTestStore(t);
  const open = new Set<string>();
  const ended: string[] = [];
  const sessions = ["a", "a", "b", undefined, "b", "a", undefined, undefined, "b", "a"];
  const works = sessions.map((session, index) =>
    store.write(
      async (tx) => {
        const others = [...open].filter(
          (name) => session === undefined || name === session || name === "alone",
        );
        assert.deepEqual(others, []);
        open.add(session ?? "alone");
        for (let i = 0; i < 3; i++) await tx.find("sessions", { id: "none" });
        open.delete(session ?? "alone");
        ended.push(`${session ?? "alone"} ${index}`);
      },
      { session },
    ),
  );
  await Promise.all(works);
  const endsOf = (name: string) => ended.filter((one) => one.startsWith(`${name} `));
  assert.deepEqual(endsOf("a"), ["a 0", "a 1", "a 5", "a 9"]);
  assert.deepEqual(endsOf("b"), ["b 2", "b 4", "b 8"]);
  assert.deepEqual(
    endsOf("alone").map((one) => ended.indexOf(one)),
    [3, 6, 7],
  );
});

test("a work that fails beside works for other sessions fails alone, with its own error, and they are committed once", async (t) => {
  const { store } = await openTestStore(t);
  const taken = sessionRow();
  await store.write((tx) => tx.insert("sessions", [taken]));
  const committed: string[] = [];
  const add = (id: string, session: string) =>
    store.write(
      async (tx) => {
        await tx.find("sessions", { id });
        await tx.insert("sessions", [sessionRow({ id })]);
        tx.count("spending", { owner: "me", day: "2026-01-01", key: "", tokens: 1, cost_nano: 0 });
        tx.afterCommit(() => committed.push(id));
      },
      { session },
    );
  const refuse = async (tx: Tx) => {
    await tx.find("sessions", { id: "none" });
    throw new Error("refused");
  };
  const outcomes = await Promise.allSettled([
    add("one", "1"),
    store.write(refuse, { session: "2" }),
    add("three", "3"),
    add(taken.id, "4"),
    add("five", "5"),
  ]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled", "rejected", "fulfilled"],
  );
  const [, refused, , double] = outcomes as PromiseRejectedResult[];
  assert.match(String(refused?.reason), /refused/);
  assert.ok(isDuplicateKey(double?.reason), String(double?.reason));
  assert.deepEqual(committed.sort(), ["five", "one", "three"]);
  const counted = await store.read.selectFrom("spending").select("tokens").execute();
  assert.deepEqual(counted, [{ tokens: 3 }]);
});
