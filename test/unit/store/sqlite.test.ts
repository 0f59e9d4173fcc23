import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { openStore } from "../../../src/store/open.ts";
import { openTestStore, testDialect } from "../../harness/store.ts";
import { deltas, seed, sessionRow } from "./rows.ts";

const only = { skip: testDialect === "sqlite" ? false : "SQLite only" };

test("the file, its folder and the files beside it are private", only, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "agentd-test-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "made", "state.db");
  const store = await openStore({ url: path });
  await seed(store);
  assert.equal(statSync(join(folder, "made")).mode & 0o777, 0o700);
  for (const file of readdirSync(join(folder, "made"))) {
    assert.equal(statSync(join(folder, "made", file)).mode & 0o077, 0, file);
  }
  await store.close();
  assert.deepEqual(readdirSync(join(folder, "made")), ["state.db"], "nothing is left beside it");
});

test(":memory: is a database of its own that goes when it is closed", only, async () => {
  const before = memoryFolders();
  const [one, two] = [await openStore({ url: ":memory:" }), await openStore({ url: ":memory:" })];
  await seed(one);
  assert.equal((await two.read.selectFrom("sessions").selectAll().execute()).length, 0);
  const outside = await one.write(async (tx) => {
    await tx.insert("sessions", [sessionRow()]);
    return (await one.read.selectFrom("sessions").selectAll().execute()).length;
  });
  assert.equal(outside, 1, "a read does not see the open transaction");
  await one.close();
  await two.close();
  assert.deepEqual(
    memoryFolders().filter((name) => !before.includes(name)),
    [],
  );
});

test("a file that is not a database is refused and not changed", only, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "agentd-test-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "notes.txt");
  writeFileSync(path, "these are my notes, please keep them. ".repeat(200));
  await assert.rejects(openStore({ url: path }), { code: "state_store_unavailable" });
  assert.equal(statSync(path).size, "these are my notes, please keep them. ".length * 200);
});

test(
  "a migration that a crash cut leaves nothing behind, and the next start makes it whole",
  only,
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "agentd-test-"));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "state.db");
    const crashed = new DatabaseSync(path);
    crashed.exec("pragma journal_mode = wal; begin immediate; create table sessions (id text)");
    crashed.close();
    const store = await openStore({ url: path });
    const { runId } = await seed(store);
    assert.deepEqual(await store.read.selectFrom("runs").select("id").execute(), [{ id: runId }]);
    await store.close();
  },
);

test("a writer waits for another process's transaction, up to the busy timeout", only, async (t) => {
  const { store, url } = await openTestStore(t);
  const { sessionId } = await seed(store);
  const rival = new DatabaseSync(url);
  rival.exec("begin immediate; update sessions set queued = 7");
  await assert.rejects(
    store.write((tx) => tx.increment("sessions", { id: sessionId }, "queued", 1)),
    {
      code: "state_store_unavailable",
    },
  );
  rival.exec("commit");
  rival.close();
  assert.equal(await store.write((tx) => tx.increment("sessions", { id: sessionId }, "queued", 1)), 8);
});

test("groups of streaming deltas skip the sync to disk, all others have it", only, async (t) => {
  const { store, url } = await openTestStore(t);
  // A group that takes long is cut in two.
  t.mock.method(performance, "now", () => 0);
  const levels: unknown[] = [];
  const level = () =>
    store.write(
      async (tx) => {
        const { sql } = await import("kysely");
        const { rows } = await sql<{ synchronous: number }>`pragma synchronous`.execute(tx.db);
        levels.push(rows[0]?.synchronous);
      },
      { durable: false },
    );
  await level();
  await Promise.all([level(), store.write(() => undefined)]);
  await level();
  assert.deepEqual(levels, [1, 2, 1]);
  assert.ok(existsSync(`${url}-wal`));
});

test("a transaction takes on no further work once it has two megabytes of text", only, async (t) => {
  let transactions = 0;
  const { store } = await openTestStore(t, { now: () => (transactions += 1) });
  // A group that takes long is cut as well.
  t.mock.method(performance, "now", () => 0);
  const first = transactions;
  const inTransaction = (megabytes: number) =>
    store.write(async (tx) => {
      await tx.insert("sessions", [sessionRow({ title: "x".repeat(megabytes * 1_048_576) })]);
      return tx.nowMs - first;
    });
  const works = [1, 1, 1, 1, 5, 1, 0, 0].map(inTransaction);
  assert.deepEqual(await Promise.all(works), [1, 1, 2, 2, 3, 4, 4, 4]);
});

test("long texts leave the log in a turn of their own, before the log is long", only, async (t) => {
  const { store, url } = await openTestStore(t);
  const write = (megabytes: number) =>
    store.write((tx) => tx.insert("sessions", [sessionRow({ title: "x".repeat(megabytes * 1_048_576) })]));
  await write(3);
  await write(2);
  const sizeBytes = () => statSync(url).size;
  assert.ok(sizeBytes() < 1_048_576, "what was committed is in the log");
  let turns = 0;
  let turnOfMove: number | undefined;
  let isOver = false;
  const looking = (async () => {
    for (; !isOver; turns += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      if (sizeBytes() > 4_194_304) turnOfMove ??= turns;
    }
  })();
  const turnOfWork = await store.write(async (tx) => {
    await tx.insert("sessions", [sessionRow()]);
    return turns;
  });
  isOver = true;
  await looking;
  assert.ok(turnOfMove !== undefined && turnOfMove < turnOfWork, `${turnOfMove} < ${turnOfWork}`);
});

test("the queries of the hot paths and of the sweeps use an index", only, async (t) => {
  const { store, url } = await openTestStore(t);
  const { sessionId, runId } = await seed(store);
  await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 3)));
  const database = new DatabaseSync(url);
  t.after(() => database.close());
  const queries = [
    "select * from events where session_id = ? and seq > ? order by seq limit ?",
    "select * from events where run_id = ? and run_seq > ? order by run_seq limit ?",
    "select max(run_seq) as last from events where run_id = ?",
    "select * from events where run_id = ? and run_seq > ? and run_seq <= ? and type in (?, ?) order by run_seq",
    "select * from messages where session_id = ? order by seq",
    "select * from runs where session_id = ? order by created_at",
    "select id from runs where ended_at is not null and ended_at <= ? order by ended_at limit ?",
    "select * from sessions where owner = ? and session_key = ? order by created_at desc limit 1",
    "select * from sessions where lease_owner = ?",
    "select * from sessions where transient = 0 order by updated_at desc limit 20",
    "select * from questions where session_id = ? and status = 'open'",
    "select * from questions where run_id = ?",
    "select * from ledger where expires_at <= ? limit ?",
    "select min(queue) from outbox where status in ('due', 'leased') and blocked = 0 and queue > ?",
    "select id from outbox where status in ('due', 'leased') and blocked = 0 and queue = ? order by available_at, id limit ?",
    "select id from outbox where ordering_key = ? and status in ('due', 'leased') order by id limit 1",
    "select 1 from outbox where ordering_key = ? and status = 'leased' and available_at > ? and id <> ?",
    "select * from outbox where ref = ?",
    "select id from outbox where done_at is not null and done_at <= ? limit ?",
  ];
  for (const query of queries) {
    const plan = database.prepare(`explain query plan ${query}`).all() as { detail: string }[];
    const details = plan.map((step) => step.detail).join("; ");
    assert.match(details, /USING (COVERING )?(INDEX|PRIMARY KEY)/, `${query}: ${details}`);
  }
});

test("a look-up of a key reads no long rows but its own", only, async (t) => {
  const { url } = await openTestStore(t);
  const database = new DatabaseSync(url);
  t.after(() => database.close());
  const list = database.prepare("select name from pragma_table_list where wr = 0 and name not like ?");
  const withRowid = list.all("sqlite%").map(({ name }) => String(name));
  // The key of a table without rowid is found by comparing whole rows, also those that fill many pages.
  const long = ["changes", "deliveries", "delivery_bodies", "outbox", "pending_events", "responses", "runs"];
  assert.deepEqual(withRowid.filter((name) => !name.startsWith("kysely_")).toSorted(), long);
});

const memoryFolders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("agentd-memory-"));

test(
  "a session that was read is read again after a commit of this store or of another program",
  only,
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "agentd-test-"));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "state.db");
    const [store, other] = [await openStore({ url: path }), await openStore({ url: path })];
    const titleOf = async () => (await store.find("sessions", { id }))?.title;
    const { id } = sessionRow();
    assert.equal(await store.find("sessions", { id }), undefined);
    await other.write((tx) => tx.insert("sessions", [{ ...sessionRow(), id, title: "made" }]));
    assert.equal(await titleOf(), "made", "that it was missing is no longer known");
    await other.write((tx) => tx.update("sessions", { id }, { title: "theirs" }));
    assert.equal(await titleOf(), "theirs");
    // The title is read in the commit's own turn, right behind a read of the old one.
    const seen: unknown[] = [];
    await store.write(async (tx) => {
      seen.push(await titleOf());
      await tx.update("sessions", { id }, { title: "ours" });
      seen.push(await titleOf());
      tx.afterCommit(() => void titleOf().then((title) => seen.push(title)));
    });
    await titleOf();
    assert.deepEqual(seen, ["theirs", "theirs", "ours"], "an open transaction is not seen, its commit is");
    await other.write((tx) => tx.update("sessions", { id }, { title: "gone" }));
    assert.deepEqual(await Promise.all([titleOf(), titleOf()]), ["gone", "gone"]);
    await assert.rejects(async () => {
      const row: { title: string | null } | undefined = await store.find("sessions", { id });
      if (row) row.title = "changed by a reader";
    }, TypeError);
    await Promise.all([store.close(), other.close()]);
  },
);
