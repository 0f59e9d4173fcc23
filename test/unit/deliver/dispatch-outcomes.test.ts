import assert from "node:assert/strict";
import { test } from "node:test";
import { openDispatch, enqueue, reached, row, TestTarget } from "./dispatching.ts";

test("messages to one chat are sent one at a time, in order, by any process", async (t) => {
  const { store, openAnother, dispatch } = await openDispatch(t);
  const other = await openAnother();
  const sent: string[] = [];
  let now = 0;
  let most = 0;
  const target = () =>
    new TestTarget(async ({ id }) => {
      most = Math.max(most, (now += 1));
      sent.push(id);
      await new Promise((resolve) => setImmediate(resolve));
      now -= 1;
      return { status: "delivered" };
    });
  await Promise.all([dispatch([target()]).start(), dispatch([target()], { store: other }).start()]);
  const ids: string[] = [];
  for (let i = 0; i < 30; i++) ids.push(await enqueue(i % 2 ? store : other));
  for (const id of ids) await reached(store, id, "delivered");
  assert.deepEqual([sent, most], [ids, 1]);
});

test("while a chat waits for a retry its later messages wait too, and other chats do not", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = new TestTarget(({ address, attempt }) =>
    address === "bad" && attempt === 1 && target.sent.length < 2
      ? { status: "retry", error: "503" }
      : { status: "delivered" },
  );
  const [one, two] = [
    await enqueue(store, { target: "test:bad" }),
    await enqueue(store, { target: "test:bad" }),
  ];
  const never = 1_000_000_000;
  await dispatch([target], { leaseMs: never, sendTimeoutMs: never }).start();
  await clock.waitedFor(1_000);
  await reached(store, await enqueue(store, { target: "test:good" }), "delivered");
  assert.equal((await row(store, two)).attempts, 0);
  // A look may be under way that read the time already: it is moved on until the next one.
  while ((await row(store, one)).status !== "delivered") {
    clock.tick(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await reached(store, two, "delivered");
  const bad = target.sent.filter(({ address }) => address === "bad").map(({ id }) => id);
  assert.deepEqual(bad, [one, one, two]);
});

test("an uncertain message gets status unknown on a platform that does not deduplicate, and the next one is sent", async (t) => {
  const { store, dispatch, logged } = await openDispatch(t);
  const settled: unknown[] = [];
  const target = new TestTarget((delivery) =>
    delivery.ref === "doubt" ? { status: "unknown", error: "no answer" } : { status: "delivered" },
  );
  const note = async (_tx: unknown, { id }: { id: string }, end: unknown) => void settled.push([id, end]);
  await dispatch([target], { settled: note }).start();
  const [first, second] = [await enqueue(store, { ref: "doubt" }), await enqueue(store)];
  const { last_error: error, done_at: doneAt } = await reached(store, first, "unknown");
  assert.deepEqual([error, doneAt !== null], ["no answer", true]);
  await reached(store, second, "delivered");
  assert.deepEqual(settled, [
    [first, { status: "unknown", error: "no answer" }],
    [second, { status: "delivered" }],
  ]);
  await logged("may have arrived");
});

test("a timed-out attempt gives a message status unknown on a platform that does not deduplicate", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = new TestTarget(() => new Promise(() => {}));
  await dispatch([target], { sendTimeoutMs: 20_000 }).start();
  const id = await enqueue(store);
  await target.count(1);
  clock.tick(20_000);
  const { last_error: error, attempts } = await reached(store, id, "unknown");
  assert.deepEqual(
    [error, attempts],
    ["The attempt had no outcome within 20 s. The message may have arrived.", 1],
  );
});

test("arrived parts are recorded before the next one and not sent again", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const kept: number[] = [];
  const parts: string[] = [];
  const target = new TestTarget(async ({ id, attempt, partsSent }, { progress }) => {
    for (const part of ["a", "b", "c", "d"].slice(partsSent)) {
      if (part === "c" && attempt === 1) return { status: "retry", error: "429" };
      parts.push(part);
      await progress(parts.length);
      kept.push((await row(store, id)).parts_sent);
    }
    return { status: "delivered" };
  });
  await dispatch([target]).start();
  const id = await enqueue(store);
  await clock.waitedFor(1_000);
  clock.tick(1_000);
  await reached(store, id, "delivered");
  assert.deepEqual([parts.join(""), kept], ["abcd", [1, 2, 3, 4]]);
});

test("no further part is sent after the lease is lost or the attempt is over", async (t) => {
  const { store, clock, dispatch, logged } = await openDispatch(t);
  const thrown: string[] = [];
  const late = Promise.withResolvers<void>();
  const target = new TestTarget(async ({ address, id }, { progress, signal }) => {
    if (address === "lost") await store.write((tx) => tx.update("outbox", { id }, { lease_owner: "b:1:0" }));
    else await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    const note = progress(1).catch((error: Error) => void thrown.push(error.message));
    await note;
    if (address === "late") late.resolve();
    return { status: "delivered" };
  });
  await dispatch([target], { sendTimeoutMs: 20_000 }).start();
  const lost = await enqueue(store, { target: "test:lost" });
  await logged("lost the lease");
  const over = await enqueue(store, { target: "test:late" });
  await target.count(2);
  clock.tick(20_000);
  await late.promise;
  await reached(store, over, "unknown");
  assert.deepEqual(thrown, ["The message's lease was lost.", "The attempt is over."]);
  assert.deepEqual([(await row(store, lost)).parts_sent, (await row(store, over)).parts_sent], [0, 0]);
});

test("a throttled attempt does not count", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  let count = 0;
  const target = new TestTarget(() =>
    (count += 1) <= 7
      ? { status: "retry", error: "429", isThrottled: true, afterMs: 3_000 }
      : { status: "delivered" },
  );
  await dispatch([target]).start();
  const id = await enqueue(store);
  for (let i = 0; i < 7; i++) {
    await clock.waitedFor(3_000);
    clock.tick(3_000);
  }
  assert.equal((await reached(store, id, "delivered")).attempts, 1);
});

test("a bare platform means its home channel, and the target's own delays take precedence", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = Object.assign(new TestTarget(() => ({ status: "retry", error: "503" })), {
    home: "C1:7",
    retryDelaysMs: [7_000],
  });
  await dispatch([target]).start();
  const id = await enqueue(store, { target: "test" });
  await clock.waitedFor(7_000);
  clock.tick(7_000);
  assert.equal((await reached(store, id, "dead")).attempts, 2);
  assert.deepEqual(
    target.sent.map(({ address }) => address),
    ["C1:7", "C1:7"],
  );
});

test("a message whose process is lost in its last attempt gets status unknown, with a log line", async (t) => {
  const { store, clock, openAnother, dispatch, logged } = await openDispatch(t);
  const other = await openAnother();
  const id = await enqueue(store, { maxAttempts: 1 });
  const next = await enqueue(store);
  await other.write((tx) => other.outbox.claim(tx, { limit: 1, leaseMs: 30_000 }));
  const settled: unknown[] = [];
  const target = Object.assign(new TestTarget(), { supportsIdempotency: true });
  const note = async (_tx: unknown, message: { id: string; status: string }, end: { status: string }) =>
    void settled.push([message.id, end.status]);
  await dispatch([target], { settled: note }).start();
  await clock.waitedFor(30_000);
  clock.tick(30_000);
  assert.match((await reached(store, id, "unknown")).last_error ?? "", /ended during the attempt/);
  await reached(store, next, "delivered");
  await logged("may have arrived");
  assert.deepEqual(settled, [
    [id, "unknown"],
    [next, "delivered"],
  ]);
});

test("a message scheduled days ahead by a wrong clock is sent within a minute once the clock is right", async (t) => {
  const { store, clock, dispatch, logged } = await openDispatch(t);
  const DAYS_MS = 3 * 86_400_000;
  let isUp = false;
  const target = new TestTarget(() => (isUp ? { status: "delivered" } : { status: "retry", error: "503" }));
  clock.tick(DAYS_MS);
  await dispatch([target]).start();
  const id = await enqueue(store);
  await clock.waitedFor(1_000);
  isUp = true;
  clock.tick(-DAYS_MS);
  await enqueue(store, { target: "test:c" });
  await logged("the clock was ahead");
  await clock.waitedFor(60_000);
  clock.tick(60_000);
  await reached(store, id, "delivered");
});
