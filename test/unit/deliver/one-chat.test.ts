import assert from "node:assert/strict";
import { test } from "node:test";
import { enqueue, openDispatch, reached, row, TestTarget } from "./dispatching.ts";

test("each message of one chat costs one transaction, which also begins the request of the next", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  const startedBefore: boolean[] = [];
  const target = new TestTarget(async ({ id }) => {
    startedBefore.push((await row(store, id)).started_at !== null);
    return { status: "delivered" };
  });
  const ids: string[] = [];
  for (let n = 0; n < 20; n++) ids.push(await enqueue(store));
  let transactions = 0;
  const counted = {
    ...store,
    owner: store.owner,
    write: ((...args: Parameters<typeof store.write>) => {
      transactions += 1;
      return store.write(...args);
    }) as typeof store.write,
  } as typeof store;
  await dispatch([target], { store: counted }).start();
  await reached(store, ids.at(-1)!, "delivered");
  assert.deepEqual(
    target.sent.map(({ id }) => id),
    ids,
  );
  assert.equal(startedBefore.filter(Boolean).length, ids.length);
  assert.equal(target.most, 1);
  // Besides: the reclaim of the start, the first claim, and polls that find nothing.
  assert.ok(transactions <= ids.length + 5, `${transactions} transactions`);
});

test("a long line of messages to one chat does not hold up other chats of a platform without a free slot", async (t) => {
  const { clock, store, dispatch } = await openDispatch(t);
  const target = Object.assign(new TestTarget(), { concurrency: 1 });
  for (let n = 0; n < 3; n++) await enqueue(store, { target: "test:long" });
  clock.tick(10);
  await enqueue(store, { target: "test:other" });
  clock.tick(10);
  await dispatch([target]).start();
  const sent = await target.count(4);
  assert.deepEqual(
    sent.map(({ address }) => address),
    ["long", "other", "long", "long"],
  );
});

test("a shutdown while a message is recorded leaves the next one of its chat due, without an attempt", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  const gate = Promise.withResolvers<void>();
  const recording = Promise.withResolvers<void>();
  const slow = {
    ...store,
    owner: store.owner,
    outbox: {
      ...store.outbox,
      end: async (...args: Parameters<typeof store.outbox.end>) => {
        recording.resolve();
        await gate.promise;
        return store.outbox.end(...args);
      },
    },
    write: store.write.bind(store),
  } as typeof store;
  const target = new TestTarget();
  const [first, second] = [await enqueue(store), await enqueue(store)];
  const dispatcher = dispatch([target], { store: slow });
  await dispatcher.start();
  await recording.promise;
  const closed = dispatcher.close({ graceMs: 0 });
  gate.resolve();
  await closed;
  assert.equal((await row(store, first)).status, "delivered");
  const left = await row(store, second);
  assert.deepEqual([left.status, left.attempts, target.sent.length], ["due", 0, 1]);
});
