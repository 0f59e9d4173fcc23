import assert from "node:assert/strict";
import { test } from "node:test";
import { orderingKeyOf, queueOf, type NewMessage } from "../../../src/store/outbox/outbox.ts";
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
  store.write((tx) =>
    store.outbox.enqueue(tx, { owner: "default", target: "chat:a", payload: {}, ...message }),
  );
const claim = async (store: Store, ids?: readonly string[]) => {
  const rows = await store.write((tx) =>
    store.outbox.claim(tx, { limit: 10, leaseMs: LEASE_MS, ...(ids ? { ids } : {}) }),
  );
  return rows.map(({ id }) => id);
};
const pending = async (store: Store) => {
  const except = { targets: [], platforms: [] };
  const rows = await store.write((tx) => store.outbox.listPending(tx, { except }));
  return rows.map(({ id }) => id);
};
const find = (store: Store, id: string) => store.find("outbox", { id });

test("only the oldest message of an ordering key can be claimed, until it is delivered, dead or unknown", async (t) => {
  const { store, openAnother } = await open(t);
  const other = await openAnother();
  const [a1, a2, a3] = [await enqueue(store), await enqueue(other), await enqueue(store)];
  const b1 = await enqueue(store, { target: "chat:b" });
  assert.deepEqual(await pending(store), [a1, b1]);
  assert.deepEqual(await claim(other, [a2, a3]), []);
  assert.deepEqual(await claim(other, [a1]), [a1]);
  assert.deepEqual(await claim(store, [a2, a3]), [], "it is being sent");
  await other.write((tx) => other.outbox.delivered(tx, a1));
  assert.deepEqual(await pending(store), [b1, a2].sort());
  await claim(store, [a2]);
  await store.write((tx) => store.outbox.unknown(tx, a2, "no answer"));
  assert.deepEqual(await claim(other, [a3]), [a3]);
  await other.write((tx) => other.outbox.dead(tx, a3, "gone"));
  assert.deepEqual(await pending(store), [b1]);
  const rows = await Promise.all([a1, a2, a3].map((id) => find(store, id)));
  assert.deepEqual(
    rows.map((row) => row?.status),
    ["delivered", "unknown", "dead"],
  );
});

test("messages behind one that waits for its retry wait too, and are not listed", async (t) => {
  const { store, clock } = await open(t);
  const [first, second] = [await enqueue(store), await enqueue(store)];
  await claim(store);
  await store.write((tx) => store.outbox.retryAt(tx, first, { error: "503", atMs: clock.nowMs + 60_000 }));
  assert.deepEqual(await claim(store), []);
  assert.deepEqual(await pending(store), [first]);
  clock.nowMs += 60_000;
  assert.deepEqual(await claim(store), [first]);
  await store.write((tx) => store.outbox.delivered(tx, first));
  const next = await find(store, second);
  assert.equal(next?.available_at, clock.nowMs, "senders have not passed its instant yet");
  assert.deepEqual(await claim(store), [second]);
});

test("a message that is due later keeps its instant when it is unblocked", async (t) => {
  const { store, clock } = await open(t);
  const first = await enqueue(store);
  const later = await enqueue(store, { availableAtMs: clock.nowMs + 5_000 });
  await claim(store);
  await store.write((tx) => store.outbox.delivered(tx, first));
  assert.equal((await find(store, later))?.available_at, clock.nowMs + 5_000);
  assert.deepEqual(await claim(store), []);
});

test("a lost sender blocks its ordering key until its lease ends; then the same message is due again", async (t) => {
  const { store, openAnother, clock } = await open(t);
  const other = await openAnother();
  const [first, second] = [await enqueue(store), await enqueue(store)];
  await claim(other);
  assert.deepEqual(await claim(store), []);
  clock.nowMs += LEASE_MS;
  assert.deepEqual(await claim(store), [first]);
  clock.nowMs += LEASE_MS;
  const lost = await store.write((tx) =>
    store.outbox.settleLost(tx, first, { status: "unknown", error: "lost" }),
  );
  assert.deepEqual([lost?.status, lost?.last_error], ["unknown", "lost"]);
  assert.equal(
    await store.write((tx) => store.outbox.settleLost(tx, first, { status: "unknown", error: "lost" })),
    undefined,
  );
  assert.deepEqual(await claim(store), [second]);
});

test("messages without an ordering key are sent at any time, and so are webhooks, the log and files", async (t) => {
  const { store } = await open(t);
  const ids = [await enqueue(store), await enqueue(store, { orderingKey: null })];
  for (const target of ["webhook:a", "webhook:a", "log", "log", "local", "local"]) {
    ids.push(await enqueue(store, { target }));
  }
  assert.deepEqual(await claim(store), ids.sort());
});

test("messages of one transaction, of one millisecond, or from before a clock was set back keep their order", async (t) => {
  const { store, clock } = await open(t);
  const ids = await store.write(async (tx) => {
    const made: string[] = [];
    for (let i = 0; i < 50; i++)
      made.push(await store.outbox.enqueue(tx, { owner: "default", target: "chat:a", payload: i }));
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

test("many writers and senders of one ordering key: each message is sent once, one at a time, and none is lost", async (t) => {
  const { store, openAnother } = await openTestStore(t);
  const stores = [store, await openAnother()];
  const total = 60;
  const sent: string[] = [];
  let atOnce = 0;
  const enqueuing = stores.map(async (each) => {
    for (let i = 0; i < total / 2; i++) await enqueue(each);
  });
  const sending = stores.map(async (each) => {
    while (sent.length < total) {
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
  await Promise.all([...enqueuing, ...sending]);
  assert.equal(new Set(sent).size, total);
});

test("only the lease holder records parts that arrived, and later attempts keep them", async (t) => {
  const { store, openAnother, clock } = await open(t);
  const other = await openAnother();
  const id = await enqueue(store);
  assert.equal(
    await store.write((tx) => store.outbox.recordProgress(tx, id, 1)),
    false,
    "no process is sending it",
  );
  await claim(store);
  assert.equal(await store.write((tx) => store.outbox.recordProgress(tx, id, 2)), true);
  assert.equal(await other.write((tx) => other.outbox.recordProgress(tx, id, 9)), false);
  await store.write((tx) => store.outbox.retryAt(tx, id, { error: "503", atMs: clock.nowMs }));
  await claim(other);
  assert.equal((await find(store, id))?.parts_sent, 2);
});

test("the ordering key is the address; for a bare platform, the fields that name the chat are added", () => {
  for (const [target, extra, key] of [
    ["telegram:5:7", { chat_id: "9" }, "telegram:5:7"],
    ["telegram", { chat_id: 9, text: "x" }, "telegram:9"],
    ["telegram", { chat_id: {} }, "telegram"],
    ["github_comment", { repo: "a/b", pr_number: 3 }, "github_comment:a/b:3"],
    ["sms", undefined, "sms"],
    ["webhook:host", {}, null],
    ["log", {}, null],
    ["local", null, null],
  ] as const) {
    assert.equal(orderingKeyOf(target, extra), key);
  }
  assert.equal(queueOf("telegram:5", "telegram:5"), "telegram");
  assert.equal(queueOf("webhook:host", null), "webhook:host");
  const long = `matrix:${"👋".repeat(5_000)}`;
  assert.equal(queueOf(long, null), orderingKeyOf(long, {}));
  assert.equal(orderingKeyOf(`matrix:${"👋".repeat(5_000)}`, {})?.length, 7 + 393 * 2);
});
