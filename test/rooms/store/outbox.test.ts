import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";

async function open(t: Parameters<typeof openTestStore>[0]) {
  const clock = { nowMs: 1_000_000 };
  const now = () => clock.nowMs;
  const { store, openAnother } = await openTestStore(t, { now });
  return { store, other: await openAnother({ now }), clock };
}

const owe = (store: Store, maxAttempts?: number) =>
  store.write((tx) =>
    store.outbox.owe(tx, {
      target: "log",
      payload: { text: "hi" },
      ref: "run_1",
      ...(maxAttempts && { maxAttempts }),
    }),
  );
const claim = (store: Store, limit = 10) =>
  store.write((tx) => store.outbox.claim(tx, { limit, leaseMs: 1_000 }));

test("what is owed is claimed once, by one of many senders, and delivered", async (t) => {
  const { store, other } = await open(t);
  const ids = await Promise.all(Array.from({ length: 100 }, () => owe(store)));
  const claims = await Promise.all(Array.from({ length: 40 }, (_, i) => claim(i % 2 ? store : other, 7)));
  const taken = claims.flat();
  assert.deepEqual(taken.map((row) => row.id).sort(), ids.sort());
  const [first] = taken;
  assert.deepEqual([first?.target, first?.payload, first?.ref], ["log", '{"text":"hi"}', "run_1"]);
  const owner = first?.lease_owner === store.owner ? store : other;
  assert.equal(await owner.write((tx) => owner.outbox.delivered(tx, first!.id)), true);
  const row = await store.read
    .selectFrom("outbox")
    .selectAll()
    .where("id", "=", first!.id)
    .executeTakeFirstOrThrow();
  assert.deepEqual([row.status, row.done_at, row.lease_owner], ["delivered", 1_000_000, null]);
});

test("a message is owed with the work that owes it, or not at all", async (t) => {
  const { store } = await open(t);
  const failing = store.write(async (tx) => {
    await store.outbox.owe(tx, { target: "log", payload: {} });
    throw new Error("no");
  });
  await assert.rejects(failing, /no/);
  assert.deepEqual(await claim(store), []);
});

test("a retry comes due at its instant; the last attempt leaves a dead letter", async (t) => {
  const { store, clock } = await open(t);
  const id = await owe(store, 2);
  const retry = () =>
    store.write((tx) => store.outbox.retryAt(tx, id, { error: "503", atMs: clock.nowMs + 100 }));
  assert.equal((await claim(store)).length, 1);
  assert.equal(await retry(), true);
  assert.equal(await retry(), false, "a message that waits is nobody's");
  assert.deepEqual(await claim(store), []);
  clock.nowMs += 100;
  assert.equal((await claim(store))[0]?.attempts, 2);
  assert.equal(await retry(), true);
  const row = await store.read.selectFrom("outbox").selectAll().executeTakeFirstOrThrow();
  assert.deepEqual([row.status, row.last_error], ["dead", "503"]);
});

test("a sender that lost its lease changes nothing", async (t) => {
  const { store, other, clock } = await open(t);
  const id = await owe(store);
  await claim(store);
  clock.nowMs += 1_000;
  assert.equal((await claim(other)).length, 1);
  assert.equal(await store.write((tx) => store.outbox.renew(tx, id, 1_000)), false);
  assert.equal(await store.write((tx) => store.outbox.delivered(tx, id)), false);
  assert.equal(await store.write((tx) => store.outbox.dead(tx, id, "x")), false);
  assert.equal(await other.write((tx) => other.outbox.dead(tx, id, "gone")), true);
});
