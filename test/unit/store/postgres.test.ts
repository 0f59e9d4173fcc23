import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import postgres from "postgres";
import type { JournalEvent } from "../../../src/store/journal/journal.ts";
import { openStore } from "../../../src/store/open.ts";
import { FLOOR_KEY } from "../../../src/store/feed/feed.ts";
import type { Store } from "../../../src/store/store.ts";
import { startDatabaseProxy } from "../../harness/database-proxy.ts";
import { storedChanges } from "../../harness/changes.ts";
import { createTestDatabase, openTestStore, testDialect } from "../../harness/store.ts";
import { deltas, seed, sessionRow } from "./rows.ts";

const only = { skip: testDialect === "postgres" ? false : "PostgreSQL only" };

/** Cuts every connection of this database's users that matches, as a restarting server does. */
async function cutConnections(url: string, like = "%"): Promise<number> {
  const [server = ""] = url.split("?");
  const schema = new URLSearchParams(url.split("?")[1]).get("schema");
  const admin = postgres(server, { max: 1, connection: { application_name: "admin" } });
  // Other suites share the server: only backends that touched this schema, by their last statement or its search path.
  const cut = await admin`
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = ${`agentd-${schema}`} and query like ${like}`;
  await admin.end();
  return cut.length;
}

/** A URL whose connections can be told apart from those of other suites. */
async function openNamed(t: Parameters<typeof openTestStore>[0]) {
  const database = await createTestDatabase();
  const schema = new URLSearchParams(database.url.split("?")[1]).get("schema");
  const url = `${database.url}&application_name=agentd-${schema}`;
  const problems: string[] = [];
  const stores: Store[] = [];
  t.after(async () => {
    for (const store of stores) await store.close();
    await database.drop();
  });
  const open = async () => {
    const store = await openStore({ url, onProblem: (message) => problems.push(message) });
    stores.push(store);
    return store;
  };
  return { store: await open(), other: await open(), open, url, problems };
}

test(
  "a transaction that is committed is in the server's log: nobody switches synchronous_commit off",
  only,
  async (t) => {
    const { store } = await openTestStore(t);
    const { rows } = await store.write((tx) =>
      sql<{ level: string }>`select current_setting('synchronous_commit') as level`.execute(tx.db),
    );
    assert.equal(rows.length, 1);
    assert.notEqual(rows[0]?.level, "off");
  },
);

test("reads and writes go on after the server cut all connections while they were idle", only, async (t) => {
  const { store, url } = await openNamed(t);
  const { sessionId, runId } = await seed(store);
  for (let round = 1; round <= 3; round++) {
    await Promise.all(Array.from({ length: 20 }, () => store.journal.read({ sessionId })));
    assert.ok((await cutConnections(url)) > 0);
    const [event] = await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 1)));
    assert.equal(event!.seq, round);
    assert.equal((await store.journal.read({ sessionId })).length, round);
    const runs = await store.read.selectFrom("runs").select("id").execute();
    assert.deepEqual(runs, [{ id: runId }]);
  }
});

test(
  "a connection that is cut inside a transaction fails its works, and the next ones succeed",
  only,
  async (t) => {
    const { store, url } = await openNamed(t);
    const cut = store.write(async (tx) => {
      await tx.insert("sessions", [sessionRow({ title: "lost" })]);
      await tx.find("sessions", { id: "nobody" });
      await cutConnections(url);
      await tx.find("sessions", { id: "nobody" });
      await tx.find("sessions", { id: "nobody" });
    });
    await assert.rejects(cut, { code: "state_store_unavailable" });
    await store.write((tx) => tx.insert("sessions", [sessionRow({ title: "kept" })]));
    assert.deepEqual(await store.read.selectFrom("sessions").select("title").execute(), [{ title: "kept" }]);
  },
);

test("a read whose connection is cut is retried", only, async (t) => {
  const { store, url } = await openNamed(t);
  const { sql } = await import("kysely");
  const slow = sql<{ one: number }>`select 1 as one from pg_sleep(0.5)`.execute(store.read);
  while ((await cutConnections(url, "%pg_sleep%")) === 0) await Promise.resolve();
  assert.deepEqual((await slow).rows, [{ one: 1 }]);
});

test("followers miss nothing when the connection that listens is cut", only, async (t) => {
  const { store, other, url } = await openNamed(t);
  const { sessionId, runId } = await seed(store);
  const seen: JournalEvent[] = [];
  const following = (async () => {
    for await (const events of other.journal.follow({ sessionId })) {
      seen.push(...events);
      if (seen.length >= 60) return;
    }
  })();
  for (let i = 0; i < 60; i++) {
    if (i % 20 === 10) await cutConnections(url, "listen%");
    await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 1)));
  }
  await following;
  assert.deepEqual(
    seen.map((event) => event.seq),
    Array.from({ length: 60 }, (_, i) => i + 1),
  );
});

test(
  "a commit that touches very many sessions still wakes the followers of other processes",
  only,
  async (t) => {
    const { store, openAnother } = await openTestStore(t);
    const other = await openAnother();
    const seeds = await Promise.all(Array.from({ length: 300 }, () => seed(store)));
    const last = seeds.at(-1)!;
    const following = other.journal.follow({ sessionId: last.sessionId })[Symbol.asyncIterator]();
    const next = following.next();
    await store.write(async (tx) => {
      for (const { sessionId, runId } of seeds) await store.journal.append(tx, sessionId, deltas(runId, 1));
    });
    assert.equal((await next).value?.length, 1);
  },
);

test("foreign notifications on the channel do not harm followers", only, async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const { sessionId, runId } = await seed(store);
  const following = other.journal.follow({ sessionId })[Symbol.asyncIterator]();
  const next = following.next();
  const { sql } = await import("kysely");
  for (const payload of ["not json", "{}", "[1]", ""]) {
    await sql`select pg_notify(${`agentd_${store.epoch}`}, ${payload})`.execute(store.read);
  }
  await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 1)));
  assert.equal((await next).value?.length, 1);
});

test("two replicas that lock the same rows in opposite order both succeed", only, async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const [a, b] = [await seed(store), await seed(store)];
  const both = (first: string, second: string) => async (one: Store) =>
    one.write(async (tx) => {
      await tx.increment("sessions", { id: first }, "queued", 1);
      await tx.db.selectNoFrom((e) => e.fn("pg_sleep", [e.val(0.05)]).as("slept")).execute();
      await tx.increment("sessions", { id: second }, "queued", 1);
    });
  for (let i = 0; i < 3; i++) {
    await Promise.all([both(a.sessionId, b.sessionId)(store), both(b.sessionId, a.sessionId)(other)]);
  }
  const rows = await store.read.selectFrom("sessions").select("queued").execute();
  assert.deepEqual(rows, [{ queued: 6 }, { queued: 6 }]);
});

test(
  "a schema of any name keeps its tables apart, whether named by schema or by search_path",
  only,
  async (t) => {
    const [server = ""] = (await createTestDatabase()).url.split("?");
    const names = ['test_A b"c', "test_plain_path"];
    const admin = postgres(server, { max: 1, onnotice: () => {} });
    t.after(async () => {
      for (const name of names) await admin`drop schema if exists ${admin(name)} cascade`;
      await admin.end();
    });
    const urls = [`${server}?schema=${encodeURIComponent(names[0]!)}`, `${server}?search_path=${names[1]}`];
    const epochs = new Set<string>();
    for (const [i, url] of urls.entries()) {
      const store = await openStore({ url });
      await seed(store);
      const found =
        await admin`select tablename from pg_tables where schemaname = ${names[i]!} and tablename = 'sessions'`;
      assert.equal(found.length, 1);
      epochs.add(store.epoch);
      await store.close();
    }
    assert.equal(epochs.size, 2);
  },
);

test(
  "followers of this process and of others get events whose commit was not answered, after the next commit",
  only,
  async () => {
    const database = await createTestDatabase();
    await using proxy = await startDatabaseProxy(database.url);
    const store = await openStore({ url: proxy.url });
    const other = await openStore({ url: database.url });
    try {
      const { sessionId, runId } = await seed(store);
      const followers = [store, other].map((each) => each.journal.follow({ runId })[Symbol.asyncIterator]());
      const first = followers.map((follower) => follower.next());
      await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 1)));
      await Promise.all(first);
      const second = followers.map((follower) => follower.next());
      proxy.loseAt(1, "commit");
      const lost = store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 1)));
      await assert.rejects(lost, { code: "state_store_unavailable" });
      await store.write(() => {});
      for (const { value } of await Promise.all(second)) {
        const [event] = value as readonly JournalEvent[];
        assert.equal(event?.runSeq, 2);
      }
    } finally {
      await store.close();
      await other.close();
      await database.drop();
    }
  },
);

/** What a dump of a server brings along that has made many more transactions than this one. */
async function addForeignChanges({ write }: Store): Promise<void> {
  const far = 900_000_000_000_000;
  const rest = { count: 1, owner: "ann", created_at: 1, entries: '[["job.updated","foreign",{},null]]' };
  await write(async (tx) => {
    await tx.insert(
      "changes",
      [1, 2].map((n) => ({ tx: far + n, id: 1, ...rest })),
    );
    await tx.insert("metadata", [{ key: FLOOR_KEY, value: JSON.stringify({ tx: far, id: 1 }) }]);
  });
}

const recordJob = (store: Store, ref: string) =>
  store.write((tx) => tx.record({ type: "job.updated", ref, owner: "ann", data: {} }));

/** Returns the ids that the next changes name. */
async function nextRefs({ feed }: Store, count: number): Promise<readonly string[]> {
  const refs: string[] = [];
  const stop = new AbortController();
  // The timers of the feed do not keep a process alive; in a service, its listener does.
  const alive = setInterval(() => {}, 60_000);
  for await (const { rows } of feed.follow({ tx: 0, id: 0 }, { signal: stop.signal, idle: () => () => {} })) {
    refs.push(...rows.map(({ ref }) => ref));
    if (refs.length >= count) stop.abort();
  }
  clearInterval(alive);
  return refs;
}

test(
  "a dump of a server with more transactions begins a new epoch, with an empty feed that works from then on",
  only,
  async (t) => {
    const { store, openAnother } = await openTestStore(t);
    await recordJob(store, "before");
    await addForeignChanges(store);
    const restored = await openAnother();
    assert.notEqual(restored.epoch, store.epoch);
    assert.match(restored.epoch, /^[0-9a-f]{32}$/);
    assert.deepEqual(await storedChanges(restored), []);
    assert.deepEqual(await restored.feed.floor(), { tx: 0, id: 0 });
    await recordJob(restored, "after");
    assert.deepEqual(await nextRefs(restored, 1), ["after"]);
    assert.equal((await openAnother()).epoch, restored.epoch);
    assert.deepEqual(await nextRefs(restored, 1), ["after"]);
  },
);

test(
  "a start keeps the epoch and every change while others write beside an older transaction",
  only,
  async (t) => {
    const { store, openAnother, url } = await openTestStore(t);
    const older = postgres(url.split("?")[0] ?? "", { max: 1 });
    t.after(() => older.end());
    await older.unsafe("begin; select pg_current_xact_id()");
    const floor = { tx: 1, id: 1 };
    await store.write((tx) => tx.insert("metadata", [{ key: FLOOR_KEY, value: JSON.stringify(floor) }]));
    let isDone = false;
    const written: string[] = [];
    const writing = (async () => {
      while (!isDone) {
        const refs = Array.from({ length: 8 }, (_, n) => `${written.length + n}`);
        written.push(...refs);
        await Promise.all(refs.map((ref) => recordJob(store, ref)));
      }
    })();
    const epochs = new Set<string>();
    for (let n = 0; n < 10; n++) {
      await recordJob(store, `before ${n}`);
      written.push(`before ${n}`);
      const other = await openAnother();
      epochs.add(other.epoch);
      await other.close();
    }
    isDone = true;
    await writing;
    assert.deepEqual([...epochs], [store.epoch]);
    assert.deepEqual((await storedChanges(store)).map(({ ref }) => ref).toSorted(), written.toSorted());
    assert.deepEqual(await store.feed.floor(), floor);
  },
);

test(
  "of processes that start together on a restored dump one renews the epoch, and no change of the others is lost",
  only,
  async (t) => {
    const { store, url, open } = await openNamed(t);
    const schema = new URLSearchParams(url.split("?")[1]).get("schema") ?? "";
    await addForeignChanges(store);
    const [server = ""] = url.split("?");
    const admin = postgres(server, { max: 2, onnotice: () => {} });
    t.after(() => admin.end());
    const waiting = async () =>
      (
        await admin`select 1 from pg_stat_activity
          where application_name = ${`agentd-${schema}`} and wait_event_type = 'Lock'`
      ).length;
    const starts: Promise<string>[] = [];
    await admin.begin(async (lock) => {
      await lock`select 1 from ${lock(schema)}.metadata where key = 'epoch' for update`;
      for (let n = 0; n < 4; n++) {
        starts.push(
          open().then(async (started) => {
            await recordJob(started, String(n));
            return started.epoch;
          }),
        );
      }
      while ((await waiting()) < starts.length);
    });
    const epochs = new Set(await Promise.all(starts));
    assert.equal(epochs.size, 1);
    assert.ok(!epochs.has(store.epoch));
    const refs = (await storedChanges(store)).map(({ ref }) => ref);
    assert.deepEqual(refs.toSorted(), ["0", "1", "2", "3"]);
  },
);

test("a schema that a test changed is not given to another one", only, async () => {
  const changes = [
    "alter table sessions add column more text",
    "alter table sessions alter column title set not null",
    "alter table sessions add constraint titled check (title <> 'x')",
    "alter table sessions rename to others",
    "alter index sessions_leased rename to leased",
    "drop index sessions_leased",
    "create table more (id text)",
    "create function nothing() returns trigger language plpgsql as 'begin return null; end'",
    "create trigger same before update on sessions execute function suppress_redundant_updates_trigger()",
    "insert into kysely_migration (name, timestamp) values ('0999_future', '2999-01-01')",
  ];
  for (const change of ["select 1", ...changes]) {
    const database = await createTestDatabase({ isOwn: true });
    const admin = postgres(database.url.replace("?schema=", "?search_path="), { max: 1 });
    const [schema] = await admin.unsafe("select current_schema() as name");
    await admin.unsafe(change);
    await database.drop();
    const isThere = (await admin`select 1 from pg_namespace where nspname = ${schema!["name"]}`).length > 0;
    await admin.end();
    assert.equal(isThere, change === "select 1", change);
  }
});
