import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import { isDuplicateKey } from "../../../src/store/tx/group.ts";
import { openStore } from "../../../src/store/open.ts";
import type { Store, Tx } from "../../../src/store/store.ts";
import { createTestDatabase, openTestStore, testDialect } from "../../harness/store.ts";
import { runRow, seed, sessionRow } from "./rows.ts";

const titles = async (store: Store) =>
  (await store.read.selectFrom("sessions").select("title").orderBy("title").execute()).map(
    (row) => row.title,
  );

const titled = (title: string) => sessionRow({ id: `s-${title}`, title });

test("write resolves with the work's value once its rows are committed", async (t) => {
  const { store } = await openTestStore(t);
  const value = await store.write(async (tx) => {
    await tx.insert("sessions", [titled("a")]);
    return { answer: 42 };
  });
  assert.deepEqual(value, { answer: 42 });
  assert.deepEqual(await titles(store), ["a"]);
  assert.equal(store.dialect, testDialect);
});

test("rows come back as plain objects with the values that went in", async (t) => {
  const { store } = await openTestStore(t);
  const row = sessionRow({
    title: "\u{1f600} \\ \" ' % ? $1 \n",
    lease_until: Number.MAX_SAFE_INTEGER,
    session_key: "",
  });
  await store.write((tx) => tx.insert("sessions", [row]));
  assert.deepEqual(await store.read.selectFrom("sessions").selectAll().execute(), [row]);
  assert.deepEqual({ ...(await store.find("sessions", { id: row.id, owner: row.owner })) }, row);
  assert.equal(await store.find("sessions", { id: row.id, owner: "another" }), undefined);
  assert.deepEqual({ ...(await store.write((tx) => tx.find("sessions", { id: row.id }))) }, row);
});

test("a NUL in a text is stored as U+FFFD, since PostgreSQL rejects it", async (t) => {
  const { store } = await openTestStore(t);
  await store.write((tx) => tx.insert("sessions", [titled("a\0b")]));
  assert.deepEqual(await titles(store), ["a\ufffdb"]);
  const found = await store.read.selectFrom("sessions").select("id").where("title", "=", "a\0b").execute();
  assert.equal(found.length, 1, "what is looked for is read as what was kept");
});

test("works of one turn share a transaction and still see what the ones before them wrote", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId } = await seed(store);
  // A group that takes long is cut in two.
  t.mock.method(performance, "now", () => 0);
  const clocks = await Promise.all(
    Array.from({ length: 50 }, () =>
      store.write(async (tx) => {
        const session = await tx.find("sessions", { id: sessionId });
        await tx.update("sessions", { id: sessionId }, { queued: Number(session?.queued) + 1 });
        return tx.nowMs;
      }),
    ),
  );
  assert.equal(new Set(clocks).size, 1, "one transaction has one clock");
  const session = await store.read.selectFrom("sessions").selectAll().executeTakeFirstOrThrow();
  assert.equal(session.queued, 50, "no update was lost between works");
});

test("works commit and settle in the order in which they were written", async (t) => {
  const { store } = await openTestStore(t);
  const order: number[] = [];
  const writes = Array.from({ length: 600 }, (_, i) =>
    store
      .write((tx) => tx.afterCommit(() => order.push(i)), { durable: i % 3 === 0 })
      .then(() => order.push(1000 + i)),
  );
  await Promise.all(writes);
  assert.deepEqual(
    order.filter((n) => n < 1000),
    Array.from({ length: 600 }, (_, i) => i),
  );
  assert.deepEqual(
    order.filter((n) => n >= 1000),
    Array.from({ length: 600 }, (_, i) => 1000 + i),
  );
});

test("when one work throws, its rows are gone, its promise rejects with that error, and the others commit", async (t) => {
  const { store } = await openTestStore(t);
  const boom = new Error("boom");
  const calls = new Map<string, number>();
  const put = (title: string, fails: boolean) =>
    store.write(async (tx) => {
      calls.set(title, (calls.get(title) ?? 0) + 1);
      await tx.insert("sessions", [titled(title)]);
      if (fails) throw boom;
      return title;
    });
  const names = Array.from({ length: 20 }, (_, i) => `w${String(i).padStart(2, "0")}`);
  const bad = new Set(["w00", "w07", "w08", "w19"]);
  // A group ends after some time of work, which a busy machine spends on a few of them.
  const time = t.mock.method(performance, "now", () => 0);
  const outcomes = await Promise.allSettled(names.map((name) => put(name, bad.has(name))));
  time.mock.restore();
  for (const [i, outcome] of outcomes.entries()) {
    if (bad.has(names[i]!)) assert.equal(outcome.status === "rejected" && outcome.reason, boom);
    else assert.equal(outcome.status === "fulfilled" && outcome.value, names[i]);
  }
  assert.deepEqual(
    await titles(store),
    names.filter((name) => !bad.has(name)),
  );
  assert.equal(calls.get("w01"), 2, "works before the failing one were called again");
  assert.ok(
    Math.max(...calls.values()) <= 4,
    "but a failure does not make everyone start over again and again",
  );
});

test("a work that throws synchronously fails alone", async (t) => {
  const { store } = await openTestStore(t);
  const bad = store.write(() => {
    throw new RangeError("at once");
  });
  const good = store.write((tx) => tx.insert("sessions", [titled("a")]));
  await assert.rejects(bad, RangeError);
  await good;
  assert.deepEqual(await titles(store), ["a"]);
});

test("a duplicate key fails the work that inserted it last, and only that one", async (t) => {
  const { store } = await openTestStore(t);
  const outcomes = await Promise.allSettled([
    store.write((tx) => tx.insert("sessions", [titled("a")])),
    store.write((tx) => tx.insert("sessions", [titled("a")])),
    store.write((tx) => tx.insert("sessions", [titled("b")])),
  ]);
  assert.deepEqual(
    outcomes.map((o) => o.status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  assert.ok(outcomes[1]!.status === "rejected" && isDuplicateKey(outcomes[1]!.reason));
  assert.deepEqual(await titles(store), ["a", "b"]);
});

test("a work fails when a statement of it failed, also when it caught that", async (t) => {
  const { store } = await openTestStore(t);
  await store.write((tx) => tx.insert("sessions", [titled("a")]));
  for (const way of ["insert", "db"] as const) {
    const work = store.write(async (tx) => {
      await tx.insert("sessions", [titled("z")]);
      const again = () =>
        way === "insert"
          ? tx.insert("sessions", [titled("a")])
          : tx.db.insertInto("sessions").values(titled("a")).execute();
      await Promise.resolve(again()).catch(() => undefined);
      return "pretends that all is well";
    });
    await assert.rejects(work, isDuplicateKey);
  }
  assert.deepEqual(await titles(store), ["a"]);
});

test("write rejects with what a work throws in place of a statement's failure", async (t) => {
  const { store } = await openTestStore(t);
  await store.write((tx) => tx.insert("sessions", [titled("a")]));
  const work = store.write(async (tx) => {
    try {
      await tx.db.insertInto("sessions").values(titled("a")).execute();
    } catch {
      throw new ServiceError("session_busy", "There is one already.");
    }
  });
  await assert.rejects(work, { code: "session_busy" });
});

test("afterCommit runs after the commit, in order, and not for a work that failed", async (t) => {
  const { store } = await openTestStore(t);
  const ran: string[] = [];
  const put = (name: string, fails = false) =>
    store.write((tx) => {
      tx.afterCommit(() => ran.push(`${name}1`));
      tx.afterCommit(() => ran.push(`${name}2`));
      if (fails) throw new Error("no");
    });
  await Promise.allSettled([put("a"), put("b", true), put("c")]);
  assert.deepEqual(ran, ["a1", "a2", "c1", "c2"]);
});

test("a callback that throws after the commit harms neither the work nor the other callbacks", async (t) => {
  const problems: unknown[] = [];
  const { store } = await openTestStore(t, { onProblem: (_message, error) => problems.push(error) });
  let ran = false;
  const boom = new Error("late");
  await store.write((tx) => {
    tx.afterCommit(() => {
      throw boom;
    });
    tx.afterCommit(() => (ran = true));
  });
  assert.equal(ran, true);
  assert.deepEqual(problems, [boom]);
});

test("a transaction that is used after its work rejects and writes nothing", async (t) => {
  const { store } = await openTestStore(t);
  let leaked: Tx | undefined;
  await store.write((tx) => void (leaked = tx));
  const { db } = await store.write((tx) => ({ db: tx.db }));
  await assert.rejects(async () => leaked!.insert("sessions", [titled("a")]), /over/);
  await assert.rejects(async () => leaked!.update("sessions", { id: "x" }, { title: "x" }), /over/);
  await assert.rejects(db.insertInto("sessions").values(titled("a")).execute(), /over/);
  assert.throws(() => leaked!.db, /over/);
  assert.throws(() => leaked!.afterCommit(() => {}), /over/);
  assert.deepEqual(await titles(store), []);
});

test("statements that a work did not wait for still belong to it", async (t) => {
  const { store } = await openTestStore(t);
  const floating = store.write((tx) => {
    void tx.insert("sessions", [titled("a")]).catch(() => undefined);
    void tx.insert("sessions", [titled("a")]).catch(() => undefined);
  });
  const other = store.write((tx) => tx.insert("sessions", [titled("b")]));
  await assert.rejects(floating, isDuplicateKey);
  await other;
  assert.deepEqual(await titles(store), ["b"]);
});

test("reads do not see the rows of a transaction that is open", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const seen = await store.write(async (tx) => {
    await tx.insert("sessions", [titled("a")]);
    const inside = await tx.db.selectFrom("sessions").select("title").execute();
    return { inside, outside: await titles(store), elsewhere: await titles(other) };
  });
  assert.deepEqual(seen, { inside: [{ title: "a" }], outside: [], elsewhere: [] });
  assert.deepEqual(await titles(other), ["a"]);
});

test("the reading connection cannot write", async (t) => {
  const { store } = await openTestStore(t);
  await assert.rejects(
    store.read.transaction().execute(async () => {}),
    /store\.write/,
  );
  if (store.dialect === "sqlite") {
    await assert.rejects(store.read.insertInto("sessions").values(titled("a")).execute());
  }
});

test("update sets columns of the rows that equal where, null as IS NULL, and counts them", async (t) => {
  const { store } = await openTestStore(t);
  await store.write((tx) =>
    tx.insert("sessions", [
      sessionRow({ id: "1", lease_owner: "me", queued: 0 }),
      sessionRow({ id: "2", lease_owner: null, queued: 0 }),
      sessionRow({ id: "3", lease_owner: null, queued: 2 }),
    ]),
  );
  const counts = await store.write(async (tx) => [
    await tx.update("sessions", { lease_owner: null }, { title: "free" }),
    await tx.update("sessions", { lease_owner: "me", queued: 0 }, { lease_owner: null, title: null }),
    await tx.update("sessions", { id: "nobody" }, { title: "x" }),
  ]);
  assert.deepEqual(counts, [2, 1, 0]);
  const rows = await store.read
    .selectFrom("sessions")
    .select(["id", "title", "lease_owner"])
    .orderBy("id")
    .execute();
  assert.deepEqual(rows, [
    { id: "1", title: null, lease_owner: null },
    { id: "2", title: "free", lease_owner: null },
    { id: "3", title: "free", lease_owner: null },
  ]);
});

test("increment resolves to the new value, and to undefined without a row", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId } = await seed(store);
  const values = await store.write(async (tx) => [
    await tx.increment("sessions", { id: sessionId }, "queued", 3),
    await tx.increment("sessions", { id: sessionId, lease_owner: null }, "queued", -1),
    await tx.increment("sessions", { id: "nobody" }, "queued", 1),
  ]);
  assert.deepEqual(values, [3, 2, undefined]);
});

test("find resolves to the row, and to undefined without one", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  const found = await store.write(async (tx) => [
    (await tx.find("runs", { id: runId, session_id: sessionId }))?.id,
    await tx.find("runs", { id: runId, session_id: "another" }),
    (await tx.find("runs", { id: runId, ended_at: null }))?.status,
  ]);
  assert.deepEqual(found, [runId, undefined, "running"]);
});

test("an unknown column name is refused: names are never data", async (t) => {
  const { store } = await openTestStore(t);
  const hostile = { "id = id; drop table sessions; --": "x" } as never;
  for (const attempt of [
    (tx: Tx) => tx.update("sessions", hostile, { title: "x" }),
    (tx: Tx) => tx.update("sessions", { id: "x" }, hostile),
    (tx: Tx) => tx.increment("sessions", { id: "x" }, "nope" as never, 1),
    (tx: Tx) => tx.find("sessions", hostile),
    (tx: Tx) => tx.insert("nope" as never, [titled("a")] as never),
    (tx: Tx) => tx.update("sessions", {}, { title: "everybody" }),
    (tx: Tx) => tx.update("sessions", { id: undefined } as never, { title: "x" }),
  ]) {
    await assert.rejects(
      store.write((tx) => attempt(tx) as Promise<unknown>),
      TypeError,
    );
  }
});

test("many rows go in with one insert", async (t) => {
  const { store } = await openTestStore(t);
  const { sessionId } = await seed(store);
  const runs = Array.from({ length: 333 }, () => runRow(sessionId));
  await store.write((tx) => tx.insert("runs", runs));
  await store.write((tx) => tx.insert("runs", []));
  const ids = (await store.read.selectFrom("runs").select("id").execute()).map((row) => row.id);
  for (const run of runs) assert.ok(ids.includes(run.id));
  assert.equal(ids.length, 334);
});

test("a row without a needed value, or with a value of a wrong type, is refused", async (t) => {
  const { store } = await openTestStore(t);
  for (const bad of [
    { owner: null },
    { owner: undefined },
    { queued: "many" },
    { queued: true },
    { meta: {} },
  ]) {
    const row = { ...sessionRow(), ...bad } as never;
    await assert.rejects(
      store.write((tx) => tx.insert("sessions", [row])),
      JSON.stringify(bad),
    );
  }
  assert.deepEqual(await titles(store), []);
});

test("nowMs is the injected clock when there is one", async (t) => {
  const { store } = await openTestStore(t, { now: () => 1234 });
  assert.equal(await store.write((tx) => tx.nowMs), 1234);
});

test("nowMs is milliseconds since the epoch", async (t) => {
  const { store } = await openTestStore(t);
  const nowMs = await store.write((tx) => tx.nowMs);
  assert.ok(Number.isInteger(nowMs) && Math.abs(nowMs - Date.now()) < 60_000);
});

test("the epoch survives restarts and differs for another database", async () => {
  const [one, two] = [await createTestDatabase({ bare: true }), await createTestDatabase({ bare: true })];
  const epochOf = async (url: string) => {
    const store = await openStore({ url });
    await store.close();
    return store.epoch;
  };
  const epoch = await epochOf(one.url);
  assert.match(epoch, /^[0-9a-f]{16,32}$/);
  assert.equal(await epochOf(one.url), epoch);
  assert.notEqual(await epochOf(two.url), epoch);
  await Promise.all([one.drop(), two.drop()]);
});

test("close waits for open groups and can be called again; later calls reject", async () => {
  const database = await createTestDatabase();
  const store = await openStore({ url: database.url });
  const writes = Array.from({ length: 300 }, (_, i) =>
    store.write((tx) => tx.insert("sessions", [titled(`w${i}`)])),
  );
  await Promise.all([store.close(), store.close()]);
  await Promise.all(writes);
  await assert.rejects(
    store.write(() => 1),
    { code: "state_store_unavailable" },
  );
  await assert.rejects(store.journal.read({ sessionId: "x" }), { code: "state_store_unavailable" });
  await assert.rejects(titles(store), { code: "state_store_unavailable" });
  const again = await openStore({ url: database.url });
  assert.equal((await titles(again)).length, 300);
  await again.close();
  await database.drop();
});

test("a database that cannot be opened is state_store_unavailable", async () => {
  const urls = ["/dev/null/state.db", "", "postgres://nobody:x@127.0.0.1:1/none"];
  for (const url of urls) await assert.rejects(openStore({ url }), { code: "state_store_unavailable" }, url);
});
