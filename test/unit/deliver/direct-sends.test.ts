/** Attempts whose senders wait to hear how they went. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { offTracer } from "../../../src/base/observe.ts";
import { DirectSends } from "../../../src/deliver/outbox/attempt.ts";
import { createTargets } from "../../../src/deliver/target.ts";
import { openTestStore } from "../../harness/store.ts";

test("a target that is not ready gets no request, and the attempt does not count", async (t) => {
  const clock = new FakeClock();
  const { store } = await openTestStore(t, { now: () => clock.now() });
  let isReady = false;
  let sent = 0;
  const target = {
    name: "telegram",
    isReady: () => isReady,
    send: async () => {
      sent += 1;
      return { status: "delivered" } as const;
    },
  };
  const sends = new DirectSends({
    targets: createTargets([target]),
    clock,
    tracer: offTracer,
    store,
    retryDelaysMs: [60_000],
  });
  const [row] = await store.write(async (tx) => {
    const message = {
      owner: "default",
      target: "telegram:42",
      payload: { text: "Hello", extra: {} },
      orderingKey: null,
    };
    const id = await store.outbox.enqueue(tx, message);
    return store.outbox.claim(tx, { ids: [id], limit: 1, leaseMs: 30_000 });
  });
  assert.ok(row);
  const end = await sends.send(row, 8_000);
  assert.equal(sent, 0);
  assert.ok(end.status === "retry" && end.isThrottled);
  assert.match(end.error, /telegram accepts no messages from this process for now/);
  await store.write((tx) => sends.record(tx, row, end));
  const owed = await store.find("outbox", { id: row.id });
  assert.deepEqual([owed?.status, owed?.attempts], ["due", 0]);
  isReady = true;
  clock.tick(600_000);
  const [again] = await store.write((tx) =>
    store.outbox.claim(tx, { ids: [row.id], limit: 1, leaseMs: 30_000 }),
  );
  assert.ok(again);
  assert.deepEqual(await sends.send(again, 8_000), { status: "delivered" });
});
