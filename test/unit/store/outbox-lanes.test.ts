import assert from "node:assert/strict";
import { test } from "node:test";
import { orderingKeyOf, queueOf } from "../../../src/store/outbox/ordering-key.ts";
import type { NewMessage } from "../../../src/store/outbox/outbox.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";

const LEASE_MS = 1_000;

async function open(t: Parameters<typeof openTestStore>[0]) {
  const clock = { nowMs: 1_000_000 };
  const now = () => clock.nowMs;
  const { store, openAnother } = await openTestStore(t, { now });
  return { store, openAnother: () => openAnother({ now }), clock };
}

const enqueue = (store: Store, message: Partial<NewMessage> = {}) =>
  store.write((tx) => store.outbox.enqueue(tx, { target: "chat:a", payload: {}, ...message }));
const claim = async (store: Store, ids?: readonly string[]) => {
  const rows = await store.write((tx) =>
    store.outbox.claim(tx, { limit: 10, leaseMs: LEASE_MS, ...(ids ? { ids } : {}) }),
  );
  return rows.map(({ id }) => id);
};
const waiting = async (store: Store) => {
  const except = { targets: [], platforms: [] };
  const rows = await store.write((tx) => store.outbox.waiting(tx, { except }));
  return rows.map(({ id }) => id);
};
const find = (store: Store, id: string) => store.find("outbox", { id });

test("of a lane the oldest alone is to be had, until it has come to an end", async (t) => {
  const { store, openAnother } = await open(t);
  const other = await openAnother();
  const [a1, a2, a3] = [await enqueue(store), await enqueue(other), await enqueue(store)];
  const b1 = await enqueue(store, { target: "chat:b" });
  assert.deepEqual(await waiting(store), [a1, b1]);
  assert.deepEqual(await claim(other, [a2, a3]), []);
  assert.deepEqual(await claim(other, [a1]), [a1]);
  assert.deepEqual(await claim(store, [a2, a3]), [], "it is on its way");
  await other.write((tx) => other.outbox.delivered(tx, a1));
  assert.deepEqual(await waiting(store), [b1, a2].sort());
  await claim(store, [a2]);
  await store.write((tx) => store.outbox.unknown(tx, a2, "no answer"));
  assert.deepEqual(await claim(other, [a3]), [a3]);
  await other.write((tx) => other.outbox.dead(tx, a3, "gone"));
  assert.deepEqual(await waiting(store), [b1]);
  const rows = await Promise.all([a1, a2, a3].map((id) => find(store, id)));
  assert.deepEqual(
    rows.map((row) => row?.status),
    ["delivered", "unknown", "dead"],
  );
});

test("those behind one that waits for its retry wait with it, and are not looked at", async (t) => {
  const { store, clock } = await open(t);
  const [first, second] = [await enqueue(store), await enqueue(store)];
  await claim(store);
  await store.write((tx) => store.outbox.retryAt(tx, first, { error: "503", atMs: clock.nowMs + 60_000 }));
  assert.deepEqual(await claim(store), []);
  assert.deepEqual(await waiting(store), [first]);
  clock.nowMs += 60_000;
  assert.deepEqual(await claim(store), [first]);
  await store.write((tx) => store.outbox.delivered(tx, first));
  const next = await find(store, second);
  assert.equal(next?.available_at, clock.nowMs, "it appears where those who look have not passed");
  assert.deepEqual(await claim(store), [second]);
});

test("one that is due later keeps its instant when its turn comes", async (t) => {
  const { store, clock } = await open(t);
  const first = await enqueue(store);
  const later = await enqueue(store, { availableAtMs: clock.nowMs + 5_000 });
  await claim(store);
  await store.write((tx) => store.outbox.delivered(tx, first));
  assert.equal((await find(store, later))?.available_at, clock.nowMs + 5_000);
  assert.deepEqual(await claim(store), []);
});

test("a sender that is lost holds its lane until its lease ends; then the same one comes again", async (t) => {
  const { store, openAnother, clock } = await open(t);
  const other = await openAnother();
  const [first, second] = [await enqueue(store), await enqueue(store)];
  await claim(other);
  assert.deepEqual(await claim(store), []);
  clock.nowMs += LEASE_MS;
  assert.deepEqual(await claim(store), [first]);
  clock.nowMs += LEASE_MS;
  const lost = await store.write((tx) => store.outbox.lost(tx, first, { status: "unknown", error: "lost" }));
  assert.deepEqual([lost?.status, lost?.last_error], ["unknown", "lost"]);
  assert.equal(
    await store.write((tx) => store.outbox.lost(tx, first, { status: "unknown", error: "lost" })),
    undefined,
  );
  assert.deepEqual(await claim(store), [second]);
});

test("what has no lane waits for nobody, and neither do webhooks, the log and files", async (t) => {
  const { store } = await open(t);
  const ids = [await enqueue(store), await enqueue(store, { lane: null })];
  for (const target of ["webhook:a", "webhook:a", "log", "log", "local", "local"]) {
    ids.push(await enqueue(store, { target }));
  }
  assert.deepEqual(await claim(store), ids.sort());
});

test("two that were owed in one transaction, or one millisecond, or before a clock was put back, keep their order", async (t) => {
  const { store, clock } = await open(t);
  const ids = await store.write(async (tx) => {
    const made: string[] = [];
    for (let i = 0; i < 50; i++) made.push(await store.outbox.enqueue(tx, { target: "chat:a", payload: i }));
    return made;
  });
  ids.push(...(await Promise.all(Array.from({ length: 50 }, () => enqueue(store)))));
  clock.nowMs -= 500_000;
  for (let i = 0; i < 5; i++) ids.push(await enqueue(store));
  assert.deepEqual(ids, ids.toSorted());
  const sent: string[] = [];
  clock.nowMs += 500_000;
  for (let [id] = await claim(store); id !== undefined; [id] = await claim(store)) {
    sent.push(id);
    await store.write((tx) => store.outbox.delivered(tx, id!));
  }
  assert.deepEqual(sent, ids);
});

test("messages of one ordering key from two processes are sent once each, one at a time", async (t) => {
  // Time stands still, so that no lease ends while a slow machine is sending.
  const { store, openAnother } = await open(t);
  const stores = [store, await openAnother()];
  const owed = 60;
  const sent: string[] = [];
  let atOnce = 0;
  const owing = stores.map(async (each) => {
    for (let i = 0; i < owed / 2; i++) await enqueue(each);
  });
  const sending = stores.map(async (each) => {
    while (sent.length < owed) {
      await each.write((tx) => each.outbox.advance(tx));
      for (const id of await claim(each)) {
        assert.equal((atOnce += 1), 1);
        sent.push(id);
        await each.write((tx) => {
          atOnce = 0;
          return each.outbox.delivered(tx, id);
        });
      }
    }
  });
  await Promise.all([...owing, ...sending]);
  assert.equal(new Set(sent).size, owed);
});

test("parts that arrived are kept by whoever holds the lease, and stay over attempts", async (t) => {
  const { store, openAnother, clock } = await open(t);
  const other = await openAnother();
  const id = await enqueue(store);
  assert.equal(await store.write((tx) => store.outbox.progress(tx, id, 1)), false, "nobody is sending it");
  await claim(store);
  assert.equal(await store.write((tx) => store.outbox.progress(tx, id, 2)), true);
  assert.equal(await other.write((tx) => other.outbox.progress(tx, id, 9)), false);
  await store.write((tx) => store.outbox.retryAt(tx, id, { error: "503", atMs: clock.nowMs }));
  await claim(other);
  assert.equal((await find(store, id))?.parts_sent, 2);
});

test("a lane is the address; of a platform alone, what else says where it goes", () => {
  for (const [target, extra, lane] of [
    ["telegram:5:7", { chat_id: "9" }, "telegram:5:7"],
    ["telegram", { chat_id: 9, text: "x" }, "telegram:9"],
    ["telegram", { chat_id: {} }, "telegram"],
    ["github_comment", { repo: "a/b", pr_number: 3 }, "github_comment:a/b:3"],
    ["sms", undefined, "sms"],
    ["webhook:host", {}, null],
    ["log", {}, null],
    ["local", null, null],
  ] as const) {
    assert.equal(orderingKeyOf(target, extra), lane);
  }
  assert.equal(queueOf("telegram:5", "telegram:5"), "telegram");
  assert.equal(queueOf("webhook:host", null), "webhook:host");
  const long = `matrix:${"👋".repeat(5_000)}`;
  assert.equal(queueOf(long, null), orderingKeyOf(long, {}));
  assert.equal(orderingKeyOf(`matrix:${"👋".repeat(5_000)}`, {})?.length, 7 + 393 * 2);
});
