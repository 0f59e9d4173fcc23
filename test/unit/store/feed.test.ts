import assert from "node:assert/strict";
import { test } from "node:test";
import { Counts } from "../../../src/store/tx/tx.ts";
import { GroupCommitter } from "../../../src/store/tx/group.ts";
import type { Change } from "../../../src/store/feed/change.ts";
import {
  changesIn,
  Feed,
  type ChangeRow,
  type FeedPosition,
  type WrittenChanges,
} from "../../../src/store/feed/feed.ts";
import { sweep } from "../../../src/store/retention.ts";
import type { Tables } from "../../../src/store/schema/tables.ts";
import type { Store } from "../../../src/store/store.ts";
import { storedChanges } from "../../harness/changes.ts";
import { openTestStore, testDialect } from "../../harness/store.ts";
import { sessionRow } from "./rows.ts";

const START = { tx: 0, id: 0 };
const change = (ref: string): Change => ({ type: "job.updated", ref, owner: "ann", data: {} });
const never = () => () => {};

const refs = async (feed: Feed, after: FeedPosition = START): Promise<string[]> =>
  (await feed.read({ after, limit: 1_000 })).map(({ ref }) => ref);

const rowOf = (id: number): ChangeRow => {
  return { ...change(String(id)), tx: 0, id, created_at: id, actor: null, owner: "ann" };
};

const packOf = ({ tx, id, owner, type, ref, data, actor, created_at }: ChangeRow) => {
  return { tx, id, count: 1, owner, created_at, entries: JSON.stringify([[type, ref, data, actor]]) };
};

/** Follows until `count` changes came. */
async function follow(store: Store, after: FeedPosition, count: number): Promise<readonly ChangeRow[]> {
  const rows: ChangeRow[] = [];
  const stop = new AbortController();
  // The timers of the feed do not keep a process alive; in a service, its listener does.
  const alive = setInterval(() => {}, 60_000);
  try {
    for await (const page of store.feed.follow(after, { signal: stop.signal, idle: never })) {
      rows.push(...page.rows);
      if (rows.length >= count) stop.abort();
    }
  } finally {
    clearInterval(alive);
  }
  return rows;
}

test("a change rolled back is never in the feed, and those committed beside it are", async (t) => {
  const { store } = await openTestStore(t);
  const works = ["a", "fails", "b", "c"].map((ref) =>
    store.write((tx) => {
      tx.record(change(ref));
      if (ref === "fails") throw new Error("no");
    }),
  );
  const outcomes = await Promise.allSettled(works);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled", "fulfilled"],
  );
  // In PostgreSQL rows appear once every older transaction of the server has ended.
  assert.deepEqual(
    (await follow(store, START, 3)).map(({ ref }) => ref),
    ["a", "b", "c"],
  );
});

test("a work that throws after its statements leaves no change, and the next one has a position of its own", async (t) => {
  const { store } = await openTestStore(t);
  const row = sessionRow({ id: "s" });
  await assert.rejects(
    store.write(async (tx) => {
      await tx.insert("sessions", [row]);
      tx.record(change("lost"));
      throw new Error("no");
    }),
    /no/,
  );
  await store.write((tx) => tx.record(change("kept")));
  const rows = await follow(store, START, 1);
  assert.deepEqual(
    rows.map(({ ref }) => ref),
    ["kept"],
  );
});

test("followers that start anywhere get every change once and in one order, while two stores write", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const stores = [store, other];
  const total = 300;
  const early = [follow(store, START, total), follow(other, START, total)];
  const writing = Array.from({ length: total }, async (_, index) => {
    await stores[index % 2]!.write((tx) => tx.record(change(String(index))));
  });
  const [first, second] = await Promise.all(early);
  await Promise.all(writing);
  const order = first!.map(({ ref }) => ref);
  assert.equal(new Set(order).size, total);
  assert.deepEqual(
    second!.map(({ ref }) => ref),
    order,
  );
  for (const index of [0, 1, 150, total - 2]) {
    const rest = await follow(store, first![index]!, total - 1 - index);
    assert.deepEqual(
      rest.map(({ ref }) => ref),
      order.slice(index + 1),
    );
  }
});

test(
  "on PostgreSQL a transaction that commits late is not skipped by a follower",
  { skip: testDialect === "sqlite" ? "SQLite has one writer at a time" : false },
  async (t) => {
    const { store, openAnother } = await openTestStore(t);
    const other = await openAnother();
    const begun = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const late = store.write(async (tx) => {
      await tx.insert("sessions", [sessionRow({ id: "s" })]);
      // Its id is taken now.
      await tx.find("sessions", { id: "s" });
      tx.record(change("late"));
      begun.resolve();
      await gate.promise;
    });
    await begun.promise;
    await other.write((tx) => tx.record(change("early")));
    assert.deepEqual(await refs(other.feed), [], "the committed change waits for the older transaction");
    const following = follow(other, await other.feed.head(), 2);
    gate.resolve();
    await late;
    assert.deepEqual(
      (await following).map(({ ref }) => ref),
      ["late", "early"],
    );
  },
);

test("what followers get at once is what is stored, from either of two stores and for texts that are not valid UTF-16", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const other = await openAnother();
  const texts = ["plain", "a\0b", "half of a pair \ud83d", "\u2028 and a whole one \u{1f600}"];
  const total = 3 * texts.length;
  const following = [follow(store, START, total), follow(other, START, total)];
  for (const text of texts) {
    const each: Change = { ...change(text), owner: text, actor: text, data: { of: text } };
    await store.write((tx) => tx.record(each));
    await store.write((tx) => tx.record({ ...each, actor: null }));
    await other.write((tx) => tx.record(each));
  }
  const [first, second] = (await Promise.all(following)).map((rows) => rows.map((row) => ({ ...row })));
  const stored = (await store.feed.read({ after: START, limit: 1_000 })).map((row) => ({ ...row }));
  assert.equal(stored.length, total);
  assert.deepEqual(first, stored);
  assert.deepEqual(second, stored);
});

test("the changes of one transaction are read from any position in it, by owner and by type", async (t) => {
  const { store } = await openTestStore(t);
  const total = 150;
  const made = Array.from({ length: total }, (_, index): Change => {
    const owner = index % 3 === 0 ? "bob" : "ann";
    return { ...change(String(index)), owner, type: index % 50 === 0 ? "job.deleted" : "job.updated" };
  });
  await store.write((tx) => made.forEach((each) => tx.record(each)));
  const all = await follow(store, START, total);
  const of = (owner: string) => made.flatMap((each) => (each.owner === owner ? each.ref : []));
  // Those of an owner are in the order in which they were recorded.
  for (const owner of ["bob", "ann"]) {
    assert.deepEqual(
      all.flatMap((row) => (row.owner === owner ? row.ref : [])),
      of(owner),
    );
    const theirs = await store.feed.read({ after: START, limit: total, owner });
    assert.deepEqual(
      theirs.map(({ ref }) => ref),
      of(owner),
    );
  }
  for (const index of [0, 1, 62, 63, 64, 99, total - 2]) {
    const rest = await store.feed.read({ after: all[index]!, limit: 7 });
    assert.deepEqual(rest, all.slice(index + 1, index + 8));
  }
  const types = ["job.deleted"];
  assert.deepEqual(
    (await store.feed.read({ after: all[1]!, limit: total, types })).map(({ ref }) => ref),
    all.slice(2).flatMap((row) => (types.includes(row.type) ? row.ref : [])),
  );
});

test("changes of a type that is rare are found behind thousands of others", async (t) => {
  const { store } = await openTestStore(t);
  for (let n = 0; n < 20; n++) {
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        store.write((tx) => tx.record({ ...change(String(index)), owner: `owner ${index}` })),
      ),
    );
  }
  await store.write((tx) => tx.record({ ...change("rare"), type: "key.deleted" }));
  const all = await follow(store, START, 401);
  assert.equal(all.length, 401);
  const rare = await store.feed.read({ after: START, limit: 10, types: ["key.deleted"] });
  assert.deepEqual(
    rare.map(({ ref }) => ref),
    ["rare"],
  );
  assert.equal((await store.feed.read({ after: START, limit: 350 })).length, 350);
});

test("retention keeps at least the number of changes that it is set to, and whole transactions", async (t) => {
  const { store } = await openTestStore(t);
  for (const size of [3, 4, 5]) {
    await store.write((tx) => {
      for (let index = 0; index < size; index++) tx.record(change(`${size}.${index}`));
    });
  }
  const all = await follow(store, START, 12);
  assert.deepEqual(await store.feed.first(), { tx: all[0]!.tx, id: all[0]!.id });
  const swept = await sweep(store, { retention: { maxChanges: 6 } });
  assert.equal(swept.changes, 3);
  assert.deepEqual(await storedChanges(store), all.slice(3));
  assert.deepEqual(await store.feed.floor(), { tx: all[2]!.tx, id: all[2]!.id });
  assert.deepEqual(await store.feed.first(), { tx: all[3]!.tx, id: all[3]!.id });
  assert.equal((await sweep(store, { retention: { maxChanges: 0 } })).changes, 4);
  assert.deepEqual(await storedChanges(store), all.slice(7));
});

test("changes that follow the newest known one need no read, and those behind another process are read", async () => {
  const rows: ChangeRow[] = [];
  let reads = 0;
  const driver = {
    dialect: "sqlite",
    watch: () => () => {},
    query: async (text: string, [, after]: readonly number[]) => {
      if (text.includes("order by tx desc")) return rows.slice(-1);
      reads++;
      return rows.filter(({ id }) => id > Number(after)).map(packOf);
    },
  };
  const feed = new Feed(driver as never);
  const commit = (count: number): WrittenChanges => {
    const after = rows.length;
    const made = Array.from({ length: count }, (_, index) => rowOf(after + index + 1));
    rows.push(...made);
    return { packs: made.map(packOf), after };
  };
  const stop = new AbortController();
  const seen: number[] = [];
  let arrived = () => {};
  const following = (async () => {
    for await (const page of feed.follow(START, { signal: stop.signal, idle: never })) {
      seen.push(...page.rows.map(({ id }) => id));
      arrived();
    }
  })();
  const until = async (count: number) => {
    while (seen.length < count) await new Promise<void>((resolve) => (arrived = resolve));
  };
  while (reads < 1) await new Promise((resolve) => setImmediate(resolve));
  const before = reads;
  for (let count = 1; count <= 2_100; count += 100) {
    feed.take(commit(100));
    await until(seen.length + 1);
  }
  assert.equal(reads, before);
  commit(3);
  feed.take(commit(2));
  await until(rows.length);
  assert.equal(reads, before + 1);
  assert.deepEqual(
    seen,
    rows.map(({ id }) => id),
  );
  const late = feed.follow({ tx: 0, id: rows.length - 7 }, { signal: stop.signal, idle: never });
  const page = (await late.next()).value as { readonly rows: readonly ChangeRow[] };
  assert.deepEqual(
    page.rows.map(({ id }) => id),
    rows.slice(-7).map(({ id }) => id),
  );
  assert.equal(reads, before + 1);
  await late.return(undefined);
  stop.abort();
  await following;
});

test("a group of works is one insert of changes, in the order of the works", async () => {
  const sent: string[] = [];
  const share = {
    nowMs: 1,
    changes: [] as Change[],
    afterCommit: [] as (() => void)[],
    counts: new Counts(),
  };
  const tx = {
    dialect: "sqlite",
    nowMs: 1,
    all: async () => [],
    insert: async (table: string, rows: readonly Tables["changes"][]) =>
      void sent.push(`${table} ${rows.flatMap(changesIn).map(({ ref }) => ref)}`),
    record: (each: Change) => void share.changes.push(each),
    afterCommit: (run: () => void) => void share.afterCommit.push(run),
    finish: async () => {},
  };
  const driver = {
    begin: () => ({ ...share, enter: () => tx, isFull: () => false, commit: () => void sent.push("commit") }),
  };
  let notified = 0;
  const group = new GroupCommitter(
    driver as never,
    assert.fail,
    () => {},
    () => void notified++,
  );
  await Promise.all(["a", "b", "c"].map((ref) => group.write((each) => each.record(change(ref)))));
  assert.deepEqual(sent, ["changes a,b,c", "commit"]);
  assert.equal(notified, 1);
});

test("with the feed the webhook bench keeps 95 % of its rate: followers of a process share one read for each change", async () => {
  const rows: ChangeRow[] = [];
  let reads = 0;
  const driver = {
    dialect: "sqlite",
    watch: () => () => {},
    query: async (text: string, [, after, limit]: readonly number[]) => {
      if (text.includes("order by tx desc")) return rows.slice(-1);
      reads++;
      return rows
        .filter(({ id }) => id > Number(after))
        .slice(0, limit)
        .map(packOf);
    },
  };
  const feed = new Feed(driver as never);
  const stop = new AbortController();
  const seen = Array.from({ length: 32 }, () => 0);
  let waiters: (() => void)[] = [];
  const following = seen.map(async (_, index) => {
    for await (const page of feed.follow(START, { signal: stop.signal, idle: never })) {
      seen[index]! += page.rows.length;
      for (const wake of waiters.splice(0)) wake();
    }
  });
  const all = async (count: number) => {
    while (seen.some((each) => each < count)) await new Promise<void>((resolve) => waiters.push(resolve));
  };
  // Each of them reads once to find that nothing is there.
  while (reads < 1) await new Promise((resolve) => setImmediate(resolve));
  const before = reads;
  for (let id = 1; id <= 50; id++) {
    rows.push(rowOf(id));
    feed.look();
    await all(id);
  }
  stop.abort();
  waiters = [];
  await Promise.all(following);
  assert.ok(reads - before <= 2 * 50, `${reads - before} reads for 50 changes`);
});
