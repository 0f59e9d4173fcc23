import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../../src/store/store.ts";
import { findMessage, retryMessage } from "../../../src/store/outbox/messages.ts";
import { addAttempt, readAttemptLog, type AttemptRecord } from "../../../src/store/outbox/outbox.ts";
import { breakable, openDispatch, enqueue, reached, row, TestTarget } from "./dispatching.ts";

async function attemptLogOf(store: Store, id: string): Promise<readonly AttemptRecord[]> {
  return (await findMessage(store, id))?.attemptLog ?? [];
}

const knowing = (send: ConstructorParameters<typeof TestTarget>[0]) =>
  Object.assign(new TestTarget(send), { supportsIdempotency: true });

test("each attempt is recorded with its start, its outcome and its error", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const beganMs = clock.now();
  const target = new TestTarget(({ attempt }) =>
    attempt === 1 ? { status: "retry", error: "It answered 503." } : { status: "delivered" },
  );
  await dispatch([target]).start();
  const id = await enqueue(store);
  await clock.waitedFor(1_000);
  clock.tick(1_000);
  await reached(store, id, "delivered");
  const [first, second, ...more] = await attemptLogOf(store, id);
  assert.deepEqual([first?.outcome, first?.error, first?.tookMs], ["retry", "It answered 503.", 0]);
  assert.deepEqual([second?.outcome, second?.error], ["delivered", undefined]);
  assert.ok(first!.atMs >= beganMs && second!.atMs > first!.atMs);
  assert.deepEqual(more, []);
});

test("an attempt after an uncertain one gets its start time, until a manual retry", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const doubts: (number | undefined)[] = [];
  const target = knowing(({ attempt, uncertainSinceMs }) => {
    doubts.push(uncertainSinceMs);
    if (doubts.length === 1) return { status: "unknown", error: "no answer" };
    if (doubts.length === 2) return { status: "retry", error: "503" };
    return attempt === 3 ? { status: "unknown", isFinal: true, error: "too late" } : { status: "delivered" };
  });
  await dispatch([target], { retryDelaysMs: [1_000, 1_000, 1_000] }).start();
  const id = await enqueue(store);
  for (const count of [1, 2]) {
    await target.count(count);
    await clock.waitedFor(1_000);
    clock.tick(1_100);
  }
  await reached(store, id, "unknown");
  const [first] = await attemptLogOf(store, id);
  assert.deepEqual(doubts, [undefined, first!.atMs, first!.atMs]);
  assert.equal(await retryMessage(store, id), "retried");
  assert.equal((await row(store, id)).uncertain_at, null);
});

test("an attempt whose process ended is uncertain and recorded as lost", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const id = await enqueue(store);
  const lostAtMs = clock.now();
  await store.write((tx) => store.outbox.claim(tx, { ids: [id], limit: 1, leaseMs: 1_000 }));
  clock.tick(5_000);
  const doubts: (number | undefined)[] = [];
  const target = knowing(({ uncertainSinceMs }) => {
    doubts.push(uncertainSinceMs);
    return { status: "delivered" };
  });
  await dispatch([target]).start();
  await reached(store, id, "delivered");
  assert.deepEqual(doubts, [lostAtMs]);
  const attemptLog = await attemptLogOf(store, id);
  assert.deepEqual(
    attemptLog.map(({ outcome, atMs }) => [outcome, atMs]),
    [
      ["lost", lostAtMs],
      ["delivered", lostAtMs + 5_000],
    ],
  );
});

test("an arrived part clears its uncertainty, and the next part starts without one", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  const target = knowing(async ({ attempt }, { progress }) => {
    if (attempt > 1) return { status: "delivered" };
    await progress(1);
    return { status: "retry", error: "503" };
  });
  await dispatch([target]).start();
  const id = await enqueue(store);
  await target.count(1);
  await reached(store, id, "due");
  assert.equal((await row(store, id)).uncertain_at, null);
  assert.equal((await row(store, id)).parts_sent, 1);
});

test("an attempt that a shutdown cut is uncertain and recorded", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  const target = knowing(() => new Promise(() => {}));
  const dispatcher = dispatch([target]);
  await dispatcher.start();
  const id = await enqueue(store);
  await target.count(1);
  await dispatcher.close({ graceMs: 0 });
  const { status, uncertain_at: doubtMs, attempted_at: triedMs } = await row(store, id);
  assert.deepEqual([status, doubtMs], ["due", triedMs]);
  assert.deepEqual(
    (await attemptLogOf(store, id)).map(({ outcome }) => outcome),
    ["stopped"],
  );
});

test("each attempt whose process was killed is recorded once", async (t) => {
  const { store, clock, openAnother, dispatch } = await openDispatch(t);
  const id = await enqueue(store, { maxAttempts: 9 });
  const other = await openAnother();
  for (let kills = 0; kills < 4; kills++) {
    const target = knowing(() => new Promise(() => {}));
    const cut = breakable(other);
    const dispatcher = dispatch([target], { store: cut, sendTimeoutMs: 600_000, leaseMs: 1_000 });
    await dispatcher.start();
    await target.count(1);
    cut.isBroken = true;
    await dispatcher.close({ graceMs: 0 });
    clock.tick(2_000);
  }
  const target = knowing(() => ({ status: "delivered" }));
  await dispatch([target]).start();
  assert.equal((await reached(store, id, "delivered")).attempts, 5);
  const attemptLog = await attemptLogOf(store, id);
  assert.deepEqual(
    attemptLog.map(({ outcome }) => outcome),
    ["lost", "lost", "lost", "lost", "delivered"],
  );
  assert.match(attemptLog[0]?.error ?? "", /may have arrived/);
});

test("the attempt log keeps the latest twenty attempts", () => {
  let attemptLog: string | null = null;
  for (let atMs = 1; atMs <= 25; atMs++)
    attemptLog = addAttempt(attemptLog, { atMs, outcome: "retry", error: "503" });
  const kept = readAttemptLog(attemptLog);
  assert.deepEqual([kept.length, kept[0]?.atMs, kept.at(-1)?.atMs], [20, 6, 25]);
});
