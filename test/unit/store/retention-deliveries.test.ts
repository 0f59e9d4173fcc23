/** How long the record of webhooks is kept. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createId } from "../../../src/base/text.ts";
import { sweep } from "../../../src/store/retention.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { deliveryRow } from "./rows.ts";

const DAY_MS = 86_400_000;
const NOW_MS = 100 * DAY_MS;

/** A row made so many days ago; an open one has no end. */
async function record(store: Store, days: number, isOpen = false): Promise<string> {
  const atMs = NOW_MS - days * DAY_MS;
  const row = deliveryRow({
    id: createId("dlv", atMs),
    status: isOpen ? "accepted" : "ignored",
    created_at: atMs,
    ended_at: isOpen ? null : atMs,
  });
  await store.write(async (tx) => {
    await tx.insert("deliveries", [row]);
    await tx.insert("delivery_bodies", [{ id: row.id, payload: "{}", rendered: null }]);
  });
  return row.id;
}

/** Each with its body. */
async function kept(store: Store): Promise<readonly string[]> {
  const rows = await store.read.selectFrom("deliveries").select("id").orderBy("id").execute();
  const bodies = await store.read.selectFrom("delivery_bodies").select("id").orderBy("id").execute();
  assert.deepEqual(bodies, rows);
  return rows.map(({ id }) => id);
}

test("deliveries older than their retention are deleted, open ones never", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const open = await record(store, 90, true);
  for (const days of [80, 60, 31, 30.001]) await record(store, days);
  const exact = await record(store, 30);
  const fresh = await record(store, 1);
  const swept = await sweep(store, { retention: { deliveriesMs: 30 * DAY_MS }, batchSize: 2 });
  assert.equal(swept.deliveries, 4);
  assert.deepEqual(await kept(store), [open, exact, fresh]);
});

test("of too many deliveries the oldest are deleted, open ones never", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const open = await record(store, 9, true);
  for (const days of [8, 7, 6, 5]) await record(store, days);
  const newest = [];
  for (const days of [3, 2, 1]) newest.push(await record(store, days));
  const retention = { deliveriesMs: 30 * DAY_MS, maxDeliveries: 3 };
  assert.equal((await sweep(store, { retention, batchSize: 2 })).deliveries, 4);
  assert.deepEqual(await kept(store), [open, ...newest]);
  assert.equal((await sweep(store, { retention })).deliveries, 0);
});

test("a delivery that ends while its kind is swept does not leave its body behind", async (t) => {
  const { store } = await openTestStore(t, { now: () => NOW_MS });
  const open = await record(store, 90, true);
  await record(store, 80);
  // It ends as soon as the body of the other one is gone.
  const between: Store = {
    ...store,
    write: async (work, options) => {
      const result = await store.write(work, options);
      const bodies = await store.read.selectFrom("delivery_bodies").select("id").execute();
      if (bodies.length === 1) {
        await store.write((tx) => tx.update("deliveries", { id: open }, { ended_at: NOW_MS }));
      }
      return result;
    },
  };
  await sweep(between, { retention: { deliveriesMs: 30 * DAY_MS } });
  await kept(store);
  await sweep(store, { retention: { deliveriesMs: 30 * DAY_MS } });
  assert.deepEqual(await kept(store), []);
});
