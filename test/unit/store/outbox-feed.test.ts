import assert from "node:assert/strict";
import { test } from "node:test";
import { dropMessage, retryMessage } from "../../../src/store/outbox/messages.ts";
import type { Store } from "../../../src/store/store.ts";
import { storedChanges } from "../../harness/changes.ts";
import { openTestStore } from "../../harness/store.ts";

/** Every change of a message that the feed has, as `type status`. */
async function changesOf(store: Store, id: string): Promise<readonly string[]> {
  const rows = await storedChanges(store);
  return rows.flatMap(({ type, ref, data, owner, actor }) => {
    if (ref !== id) return [];
    const { platform, status, ref: run, ...more } = data;
    assert.deepEqual([owner, platform, run, more], ["ann", "sms", "run_1", {}]);
    return [`${type} ${String(status)}${actor === null ? "" : ` by ${actor}`}`];
  });
}

const message = { owner: "ann", target: "sms:+15550100", payload: { text: "private" }, ref: "run_1" };

test("each new status of a message is one change of the feed, in its transaction and with its owner", async (t) => {
  const { store } = await openTestStore(t);
  const { outbox } = store;
  const id = await store.write((tx) => outbox.enqueue(tx, message));
  const claim = () => store.write((tx) => outbox.claim(tx, { ids: [id], limit: 1, leaseMs: 60_000 }));
  await claim();
  await store.write(async (tx) => {
    await outbox.start(tx, id);
    await outbox.renew(tx, id, 60_000);
    await outbox.recordProgress(tx, id, 1);
    await outbox.retryAt(tx, id, { error: "503", atMs: tx.nowMs });
  });
  await claim();
  await store.write((tx) => outbox.release(tx, id));
  await claim();
  await store.write((tx) => outbox.dead(tx, id, "410"));
  assert.equal(await retryMessage(store, id, { owner: "bob" }), "missing");
  assert.equal(await retryMessage(store, id, { dryRun: true }), "retried");
  assert.equal(await retryMessage(store, id, { actor: "laptop" }), "retried");
  await assert.rejects(
    store.write(async (tx) => {
      await outbox.claim(tx, { ids: [id], limit: 1, leaseMs: 60_000 });
      throw new Error("rolled back");
    }),
    /rolled back/,
  );
  await claim();
  await store.write((tx) => outbox.unknown(tx, id, "no answer"));
  assert.equal(await store.write((tx) => outbox.delivered(tx, id)), false, "the lease is gone");
  assert.equal(await retryMessage(store, id, { acceptsDuplicate: false }), "uncertain");
  assert.equal(await dropMessage(store, id, { actor: "laptop" }), "dropped");
  assert.deepEqual(
    await changesOf(store, id),
    [
      "created due",
      "updated sending",
      "updated due",
      "updated sending",
      "updated due",
      "updated sending",
      "updated dead",
      "updated due by laptop",
      "updated sending",
      "updated unknown",
      "updated dropped by laptop",
    ].map((change) => `message.${change}`),
  );
});

test("a message that its target got at once is one change of the feed", async (t) => {
  const { store } = await openTestStore(t);
  const id = await store.write((tx) => store.outbox.addDelivered(tx, message));
  assert.deepEqual(await changesOf(store, id), ["message.created delivered"]);
});
