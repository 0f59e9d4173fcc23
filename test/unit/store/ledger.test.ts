import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";

const name = { scope: "delivery:push", key: "d-1" };
const request = { ...name, fingerprint: "f", leaseMs: 1_000 };

/** Stores whose clock the test moves. */
async function open(t: Parameters<typeof openTestStore>[0]) {
  const clock = { nowMs: 1_000_000 };
  const now = () => clock.nowMs;
  const { store, openAnother } = await openTestStore(t, { now });
  return { store, other: await openAnother({ now }), clock };
}

const claim = (store: Store, set: Partial<typeof request> = {}) =>
  store.write((tx) => store.ledger.claim(tx, { ...request, ...set }));
const finish = (store: Store, keepMs = 5_000) =>
  store.write((tx) => store.ledger.finish(tx, name, { result: { ok: true }, keepMs }));

test("of 50 concurrent claims from two stores one wins, and the others see its row", async (t) => {
  const { store, other } = await open(t);
  const claims = await Promise.all(
    Array.from({ length: 50 }, (_, i) => claim(i % 2 ? store : other, { fingerprint: `f${i}` })),
  );
  const winner = claims.findIndex((one) => one.claimed);
  assert.equal(claims.filter((one) => one.claimed).length, 1);
  for (const one of claims) if (!one.claimed) assert.equal(one.row.fingerprint, `f${winner}`);
});

test("the same key in another scope is another claim", async (t) => {
  const { store } = await open(t);
  assert.deepEqual(await claim(store), { claimed: true });
  assert.deepEqual(await claim(store, { scope: "delivery:pull" }), { claimed: true });
});

test("the second caller sees the input, the owner and the result of the first", async (t) => {
  const { store, other } = await open(t);
  await claim(store);
  const during = await claim(other, { fingerprint: "another" });
  assert.ok(!during.claimed);
  assert.deepEqual(
    [during.row.fingerprint, during.row.status, during.row.owner],
    ["f", "claimed", store.owner],
  );
  assert.equal(await finish(store), true);
  const after = await claim(other);
  assert.ok(!after.claimed);
  assert.deepEqual([after.row.status, after.row.result], ["done", '{"ok":true}']);
});

test("a claim of a failed work does not exist", async (t) => {
  const { store } = await open(t);
  const failing = store.write(async (tx) => {
    await store.ledger.claim(tx, request);
    throw new Error("no");
  });
  await assert.rejects(failing, /no/);
  assert.equal((await claim(store)).claimed, true);
});

test("an expired claim can be claimed again, and its first owner can no longer finish or release it", async (t) => {
  const { store, other, clock } = await open(t);
  await claim(store);
  clock.nowMs += 999;
  assert.equal((await claim(other)).claimed, false, "the lease holds to its end");
  clock.nowMs += 1;
  assert.equal((await claim(other, { fingerprint: "new" })).claimed, true);
  assert.equal(await finish(store), false);
  assert.equal(await store.write((tx) => store.ledger.release(tx, name)), false);
  assert.equal(await finish(other), true);
});

test("of 50 concurrent claims of an expired key one wins", async (t) => {
  const { store, other, clock } = await open(t);
  await claim(store);
  clock.nowMs += 1_000;
  const claims = await Promise.all(Array.from({ length: 50 }, (_, i) => claim(i % 2 ? store : other)));
  assert.equal(claims.filter((one) => one.claimed).length, 1);
});

test("a finished claim is kept for the requested time", async (t) => {
  const { store, other, clock } = await open(t);
  const find = () => store.write((tx) => store.ledger.find(tx, name));
  await claim(store);
  await finish(store, 5_000);
  clock.nowMs += 4_999;
  assert.equal((await claim(other)).claimed, false);
  assert.equal((await find())?.status, "done");
  clock.nowMs += 1;
  assert.equal(await find(), undefined);
  assert.equal((await claim(other)).claimed, true);
  assert.equal((await find())?.result, null, "nothing of the old row is left");
});

test("a released claim is free at once", async (t) => {
  const { store, other } = await open(t);
  await claim(store);
  assert.equal(await store.write((tx) => store.ledger.release(tx, name)), true);
  assert.equal(await store.write((tx) => store.ledger.release(tx, name)), false);
  assert.equal((await claim(other)).claimed, true);
});

test("a finished claim cannot be finished or released again", async (t) => {
  const { store } = await open(t);
  await claim(store);
  assert.equal(await finish(store), true);
  assert.equal(await finish(store), false);
  assert.equal(await store.write((tx) => store.ledger.release(tx, name)), false);
});

test("a claim that is recorded at once is done: others see it, and it expires", async (t) => {
  const { store, other, clock } = await open(t);
  const work = { ...name, fingerprint: "f", result: { ok: true }, keepMs: 5_000 };
  const record = (by: Store) => by.write((tx) => by.ledger.record(tx, work));
  const [first, second] = await Promise.all([record(store), record(other)]);
  assert.deepEqual([first.claimed, second.claimed].toSorted(), [false, true]);
  const row = await store.write((tx) => store.ledger.find(tx, name));
  assert.deepEqual([row?.status, row?.result, row?.fingerprint], ["done", '{"ok":true}', "f"]);
  assert.equal(await finish(store), false);
  clock.nowMs += 5_000;
  assert.deepEqual(await record(other), { claimed: true });
});
