/** Messages in flight when their process ends, on platforms that cannot recognise a repeat. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { findMessage } from "../../../src/store/outbox/messages.ts";
import { openDispatch, enqueue, reached, row, TestTarget } from "./dispatching.ts";

const LEASE_MS = 30_000;

test("a message whose process is killed during its request is unknown, and is not sent again", async (t) => {
  const { store, clock, openAnother, dispatch, logged } = await openDispatch(t);
  const other = await openAnother();
  const [id, next] = [await enqueue(store), await enqueue(store)];
  await other.write(async (tx) => {
    await other.outbox.claim(tx, { ids: [id], limit: 1, leaseMs: LEASE_MS });
    await other.outbox.start(tx, id);
  });
  clock.tick(LEASE_MS);
  const target = new TestTarget();
  const settled: string[] = [];
  const note = async (_tx: unknown, message: { id: string }, end: { status: string }) =>
    void settled.push(`${message.id} ${end.status}`);
  await dispatch([target], { settled: note }).start();
  assert.match((await reached(store, id, "unknown")).last_error ?? "", /may have arrived/);
  await reached(store, next, "delivered");
  await logged("may have arrived");
  assert.deepEqual(
    target.sent.map((delivery) => delivery.id),
    [next],
  );
  assert.deepEqual(settled, [`${id} unknown`, `${next} delivered`]);
  const { attempts, attemptLog } = (await findMessage(store, id)) ?? {};
  assert.deepEqual([attempts, attemptLog?.map(({ outcome }) => outcome)], [1, ["lost"]]);
});

test("a message whose process is killed before its request began is sent, and the attempt does not count", async (t) => {
  const { store, clock, openAnother, dispatch } = await openDispatch(t);
  const other = await openAnother();
  const id = await enqueue(store, { maxAttempts: 1 });
  await other.write((tx) => other.outbox.claim(tx, { limit: 1, leaseMs: LEASE_MS }));
  clock.tick(LEASE_MS);
  const target = new TestTarget();
  await dispatch([target]).start();
  assert.equal((await reached(store, id, "delivered")).attempts, 1);
  assert.deepEqual(
    target.sent.map(({ attempt, uncertainSinceMs }) => [attempt, uncertainSinceMs]),
    [[1, undefined]],
  );
  const attemptLog = (await findMessage(store, id))?.attemptLog ?? [];
  assert.deepEqual(
    attemptLog.map(({ outcome }) => outcome),
    ["lost", "delivered"],
  );
  assert.match(attemptLog[0]?.error ?? "", /before it sent it/);
});

test("the start of a request is recorded before it only for targets that do not deduplicate", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  const seen: [string, boolean][] = [];
  const look =
    (name: string) =>
    async ({ id }: { id: string }) => {
      seen.push([name, (await row(store, id)).started_at !== null]);
      return { status: "delivered" } as const;
    };
  const plain = new TestTarget(look("plain"), "plain");
  const knowing = Object.assign(new TestTarget(look("knowing"), "knowing"), { supportsIdempotency: true });
  const mixed = Object.assign(new TestTarget(look("mixed"), "mixed"), {
    supportsIdempotencyFor: ({ address }: { address: string }) => address === "page",
  });
  await dispatch([plain, knowing, mixed]).start();
  for (const target of ["plain:a", "knowing:a", "mixed:page", "mixed:phone"]) {
    await reached(store, await enqueue(store, { target }), "delivered");
  }
  assert.deepEqual(seen, [
    ["plain", true],
    ["knowing", false],
    ["mixed", false],
    ["mixed", true],
  ]);
});

test("a process that lost its lease before its request sends nothing", async (t) => {
  const { store, dispatch, logged } = await openDispatch(t);
  const target = new TestTarget();
  const id = await enqueue(store);
  const stolen = {
    ...store,
    owner: store.owner,
    outbox: {
      ...store.outbox,
      claim: async (...args: Parameters<typeof store.outbox.claim>) => {
        const rows = await store.outbox.claim(...args);
        await args[0].update("outbox", { id }, { lease_owner: "b:1:0" });
        return rows;
      },
    },
    write: store.write.bind(store),
  } as typeof store;
  await dispatch([target], { store: stolen }).start();
  await logged("lost the lease");
  assert.deepEqual(target.sent, []);
});

test("a request that a shutdown cuts is unknown, and one that has not started stays due", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  const target = new TestTarget(() => new Promise(() => {}));
  const dispatcher = dispatch([target]);
  await dispatcher.start();
  const id = await enqueue(store);
  await target.count(1);
  await dispatcher.close({ graceMs: 0 });
  const cut = await row(store, id);
  assert.equal(cut.status, "unknown");
  assert.match(cut.last_error ?? "", /service stopped during the attempt/);

  const gate = Promise.withResolvers<void>();
  const reachedStart = Promise.withResolvers<void>();
  const slow = {
    ...store,
    outbox: {
      ...store.outbox,
      start: async (...args: Parameters<typeof store.outbox.start>) => {
        reachedStart.resolve();
        await gate.promise;
        return store.outbox.start(...args);
      },
    },
    write: (async (...args: Parameters<typeof store.write>) => store.write(...args)) as typeof store.write,
  } as typeof store;
  const unsent = await enqueue(store);
  const second = new TestTarget();
  const closing = dispatch([second], { store: slow });
  await closing.start();
  await reachedStart.promise;
  const closed = closing.close({ graceMs: 0 });
  gate.resolve();
  await closed;
  const left = await row(store, unsent);
  assert.deepEqual([left.status, left.attempts, second.sent], ["due", 0, []]);
});
