import assert from "node:assert/strict";
import { test } from "node:test";
import { noSpan, type Tracer } from "../../../src/base/observe.ts";
import type { SendOptions, SendOutcome, Delivery } from "../../../src/deliver/target.ts";
import { createWebhookTarget } from "../../../src/deliver/targets/webhook.ts";
import { openReceiver } from "../../harness/receiver.ts";
import { breakable, openDispatch, enqueue, reached, row, TestTarget } from "./dispatching.ts";

test("messages enqueued in this process are sent at once, and older ones at the start", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = new TestTarget();
  const before = await enqueue(store, { target: "test" });
  const dispatcher = dispatch([target]);
  await dispatcher.start();
  await target.count(1);
  const id = await enqueue(store, { target: "test:room:7", payload: { text: "hello" }, ref: "run_1" });
  const [first, second] = await target.count(2);
  assert.deepEqual([first?.id, first?.address, first?.ref], [before, "", undefined]);
  const createdAtMs = clock.now();
  assert.deepEqual(second, {
    id,
    address: "room:7",
    payload: { text: "hello" },
    ref: "run_1",
    attempt: 1,
    partsSent: 0,
    createdAtMs,
  });
  const { attempts, done_at: doneAt } = await reached(store, id, "delivered");
  assert.deepEqual([attempts, doneAt !== null], [1, true]);
});

test("a message is due at its instant, not before", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = new TestTarget();
  await dispatch([target]).start();
  await enqueue(store, { availableAtMs: clock.now() + 60_000 });
  await clock.waitedFor(60_000);
  clock.tick(59_999);
  assert.equal(target.sent.length, 0);
  clock.tick(1);
  await target.count(1);
});

test("a failing message gets 5 attempts with growing delays, then status dead", async (t) => {
  const { store, clock, dispatch, logged } = await openDispatch(t);
  const target = new TestTarget(() => ({ status: "retry", error: "503 from there" }));
  await dispatch([target]).start();
  const id = await enqueue(store);
  for (const pauseMs of [1_000, 4_000, 16_000, 64_000]) {
    await clock.waitedFor(pauseMs);
    clock.tick(pauseMs);
  }
  const dead = await reached(store, id, "dead");
  assert.deepEqual([dead.attempts, dead.last_error], [5, "503 from there"]);
  assert.deepEqual(
    target.sent.map(({ id: sent, attempt }) => [sent, attempt]),
    [1, 2, 3, 4, 5].map((attempt) => [id, attempt]),
  );
  await logged("no attempt is left");
});

test("a target's own delays and number of attempts are used", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = new TestTarget(() => ({ status: "retry", error: "429", afterMs: 77_000 }));
  await dispatch([target]).start();
  const id = await enqueue(store, { maxAttempts: 2 });
  await clock.waitedFor(77_000);
  clock.tick(77_000);
  assert.equal((await reached(store, id, "dead")).attempts, 2);
});

test("a permanent failure makes a message dead at once", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  await dispatch([new TestTarget(() => ({ status: "permanent", error: "410" }))]).start();
  const { attempts, last_error: error } = await reached(store, await enqueue(store), "dead");
  assert.deepEqual([attempts, error], [1, "410"]);
});

test("a target that throws is retried, and no secret of its error is stored or logged", async (t) => {
  const { store, clock, dispatch, lines, logged } = await openDispatch(t);
  const target = new TestTarget(() => {
    throw new Error(
      `https://bot:hunter2hunter2@example.com said no to sk-${"a".repeat(40)} ${"x".repeat(9_000)}`,
    );
  });
  await dispatch([target]).start();
  const id = await enqueue(store);
  await clock.waitedFor(1_000);
  const { last_error: error } = await row(store, id);
  assert.match(error ?? "", /The attempt failed: .*example\.com said no to \[redacted\]/);
  assert.ok((error ?? "").length <= 500);
  await logged("yet");
  assert.doesNotMatch(`${error}${JSON.stringify(lines)}`, /hunter2|sk-a/);
});

test("a target that breaks its contract is retried", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = new TestTarget(({ attempt }) =>
    attempt === 1 ? (undefined as unknown as SendOutcome) : { status: "delivered" },
  );
  await dispatch([target]).start();
  const id = await enqueue(store);
  await clock.waitedFor(1_000);
  clock.tick(1_000);
  assert.equal((await reached(store, id, "delivered")).attempts, 2);
});

test("an unknown target and an invalid payload do not block other messages", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = new TestTarget();
  const unknown = await enqueue(store, { target: "pigeon:post", maxAttempts: 2 });
  const garbled = await enqueue(store);
  await store.write(async (tx) => void (await tx.update("outbox", { id: garbled }, { payload: "{" })));
  await dispatch([target]).start();
  await reached(store, await enqueue(store), "delivered");
  assert.equal((await reached(store, garbled, "dead")).last_error, "The message is not valid JSON.");
  await clock.waitedFor(1_000);
  clock.tick(1_000);
  assert.match((await reached(store, unknown, "dead")).last_error ?? "", /no delivery target pigeon/);
});

test("messages to a platform that is not ready are left to other processes and sent later", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  let isReady = false;
  const single = Object.assign(new TestTarget(undefined, "single"), { isReady: () => isReady });
  await dispatch([single, new TestTarget()], { pollMs: 5_000 }).start();
  await enqueue(store, { target: "single:x" });
  await reached(store, await enqueue(store), "delivered");
  await clock.waitedFor(5_000);
  assert.deepEqual(single.sent, []);
  isReady = true;
  clock.tick(5_000);
  await single.count(1);
});

test("two dispatchers on one store send each message once", async (t) => {
  const { store, openAnother, dispatch } = await openDispatch(t);
  const other = await openAnother();
  const [here, there] = [new TestTarget(), new TestTarget()];
  const total = 200;
  await Promise.all([dispatch([here]).start(), dispatch([there], { store: other }).start()]);
  const ids = await Promise.all(
    Array.from({ length: total }, (_, i) => enqueue(i % 2 ? store : other, { target: `test:${i % 10}` })),
  );
  for (const id of ids) await reached(store, id, "delivered");
  const sent = [...here.sent, ...there.sent].map(({ id }) => id);
  assert.deepEqual(sent.toSorted(), ids.toSorted());
});

test("a hanging platform or address blocks no other, and attempts are bounded", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  const hang = (_: Delivery, { signal }: SendOptions) =>
    new Promise<SendOutcome>((_resolve, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
    );
  const stuck = new TestTarget(hang, "stuck");
  const half = new TestTarget((delivery, options) =>
    delivery.address === "bad" ? hang(delivery, options) : { status: "delivered" },
  );
  for (let i = 0; i < 150; i++) await enqueue(store, { target: `stuck:${i}` });
  for (let i = 0; i < 150; i++) await enqueue(store, { target: "test:bad" });
  const good = await Promise.all(Array.from({ length: 20 }, () => enqueue(store, { target: "test:good" })));
  const dispatcher = dispatch([stuck, half]);
  await dispatcher.start();
  for (const id of good) await reached(store, id, "delivered");
  assert.equal(stuck.most, 8);
  assert.equal(half.sent.filter(({ address }) => address === "bad").length, 1);
  // What is delivered may not have ended yet.
  while (dispatcher.inFlight > 9) await new Promise((go) => setImmediate(go));
  assert.equal(dispatcher.inFlight, 9);
});

test("after a crash between sending and recording, the message is sent again with the same webhook-id", async (t) => {
  const { store, clock, openAnother, dispatch } = await openDispatch(t);
  const crashing = breakable(store);
  const receiver = await openReceiver(t, (response) => {
    crashing.isBroken = true;
    response.writeHead(204).end();
  });
  const target = () =>
    createWebhookTarget({
      clock,
      version: "1",
      secret: "0123456789abcdef",
      allowedPrivateHosts: ["127.0.0.1"],
    });
  const payload = { id: "evt_1", url: receiver.url, body: "{}" };
  const id = await enqueue(store, { target: `webhook:${receiver.host}`, payload });
  const first = dispatch([target()], { store: crashing });
  await first.start();
  await receiver.count(1);
  const other = await openAnother();
  await dispatch([target()], { store: other, leaseMs: 30_000 }).start();
  await clock.waitedFor(30_000);
  assert.equal(receiver.received.length, 1);
  clock.tick(30_000);
  const [one, two] = await receiver.count(2);
  assert.equal(one?.headers["webhook-id"], "evt_1");
  assert.equal(two?.headers["webhook-id"], "evt_1");
  assert.notEqual(one?.headers["webhook-timestamp"], two?.headers["webhook-timestamp"]);
  assert.equal((await reached(store, id, "delivered")).attempts, 2);
});

test("the lease of a message is renewed during its attempt", async (t) => {
  const { store, clock, openAnother, dispatch } = await openDispatch(t);
  const gate = Promise.withResolvers<SendOutcome>();
  const slow = new TestTarget(() => gate.promise);
  const other = new TestTarget();
  await dispatch([slow], { leaseMs: 30_000, sendTimeoutMs: 600_000 }).start();
  const id = await enqueue(store);
  await slow.count(1);
  const rival = dispatch([other], { store: await openAnother() });
  await rival.start();
  for (let i = 0; i < 9; i++) {
    const { available_at: until } = await row(store, id);
    await clock.waitedFor(10_000);
    clock.tick(10_000);
    while ((await row(store, id)).available_at <= until) await new Promise((go) => setImmediate(go));
  }
  gate.resolve({ status: "delivered" });
  assert.equal((await reached(store, id, "delivered")).attempts, 1);
  assert.deepEqual(other.sent, []);
});

test("an attempt whose lease was lost is cut and changes nothing", async (t) => {
  const { store, clock, openAnother, dispatch, logged } = await openDispatch(t);
  const cut = Promise.withResolvers<void>();
  const knowing = { supportsIdempotency: true };
  const stuck = new TestTarget((_, { signal }) => {
    signal.addEventListener("abort", () => cut.resolve(), { once: true });
    return new Promise(() => {});
  });
  const slow = Object.assign(stuck, knowing);
  const target = Object.assign(new TestTarget(), knowing);
  const sleeper = breakable(store);
  await dispatch([slow], { store: sleeper, sendTimeoutMs: 600_000 }).start();
  const id = await enqueue(store);
  await slow.count(1);
  sleeper.isBroken = true;
  clock.tick(30_000);
  await dispatch([target], { store: await openAnother() }).start();
  await reached(store, id, "delivered");
  sleeper.isBroken = false;
  clock.tick(10_000);
  clock.tick(10_000);
  await logged("cannot renew");
  await clock.waitedFor(10_000);
  clock.tick(10_000);
  await cut.promise;
  await logged("lost the lease");
  assert.equal((await row(store, id)).status, "delivered");
});

test("an attempt without an outcome times out, and is retried on a platform that deduplicates", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = new TestTarget(({ attempt }) =>
    attempt === 1 ? new Promise(() => {}) : { status: "delivered" },
  );
  const knowing = Object.assign(target, { supportsIdempotency: true });
  await dispatch([knowing], { sendTimeoutMs: 20_000 }).start();
  const id = await enqueue(store);
  await target.count(1);
  clock.tick(20_000);
  await clock.waitedFor(1_000);
  assert.match((await row(store, id)).last_error ?? "", /had no outcome within 20 s/);
  clock.tick(1_000);
  await reached(store, id, "delivered");
});

test("a shutdown waits for running attempts and cuts the rest, which stay pending without a counted attempt", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const gate = Promise.withResolvers<SendOutcome>();
  const signals: AbortSignal[] = [];
  const plain = new TestTarget(({ address }, { signal }) => {
    signals.push(signal);
    return address === "slow" ? gate.promise : new Promise(() => {});
  });
  const target = Object.assign(plain, { supportsIdempotency: true });
  const dispatcher = dispatch([target]);
  await dispatcher.start();
  const [slow, stuck] = [
    await enqueue(store, { target: "test:slow" }),
    await enqueue(store, { target: "test:stuck" }),
  ];
  await target.count(2);
  const closed = dispatcher.close({ graceMs: 3_000 });
  gate.resolve({ status: "delivered" });
  await reached(store, slow, "delivered");
  const unsent = await enqueue(store);
  clock.tick(3_000);
  await closed;
  assert.equal(signals.filter(({ aborted }) => aborted).length, 1);
  const { status, attempts, lease_owner: holder } = await row(store, stuck);
  assert.deepEqual([status, attempts, holder], ["due", 0, null]);
  assert.equal(target.closed, 1);
  await dispatcher.close();
  const next = new TestTarget();
  await dispatch([next]).start();
  await reached(store, stuck, "delivered");
  await reached(store, unsent, "delivered");
});

test("a shutdown is bounded when the store no longer answers", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const gone = breakable(store);
  const target = new TestTarget(() => new Promise(() => {}));
  const dispatcher = dispatch([target], { store: gone });
  await dispatcher.start();
  await enqueue(store);
  await target.count(1);
  (gone as { write: unknown }).write = () => new Promise(() => {});
  const closed = dispatcher.close({ graceMs: 1_000 });
  clock.tick(1_000);
  await clock.waitedFor(4_000);
  clock.tick(4_000);
  await closed;
});

test("polls of a failing store back off", async (t) => {
  const { store, clock, dispatch, logged } = await openDispatch(t);
  const broken = breakable(store);
  const target = new TestTarget();
  broken.isBroken = true;
  await dispatch([target], { store: broken }).start();
  await logged("cannot read");
  for (const waitMs of [1_000, 2_000]) {
    await clock.waitedFor(waitMs);
    clock.tick(waitMs);
  }
  await clock.waitedFor(4_000);
  broken.isBroken = false;
  await reached(store, await enqueue(store), "delivered");
});

test("messages of a dead process are reclaimed at the start", async (t) => {
  const { store, dispatch } = await openDispatch(t);
  const id = await enqueue(store);
  await store.write((tx) => store.outbox.claim(tx, { limit: 1, leaseMs: 600_000 }));
  const ghost = store.owner.replace(/:\d+:/, ":999999999:");
  await store.write(async (tx) => void (await tx.update("outbox", { id }, { lease_owner: ghost })));
  const target = Object.assign(new TestTarget(), { supportsIdempotency: true });
  await dispatch([target]).start();
  assert.equal((await reached(store, id, "delivered")).attempts, 2);
});

test("a message that a process claims after its successor has started, and then dies, waits one poll", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const target = Object.assign(new TestTarget(), { supportsIdempotency: true });
  await dispatch([target], { pollMs: 5_000 }).start();
  await clock.waitedFor(5_000);
  const ghost = store.owner.replace(/:\d+:/, ":999999999:");
  const id = await store.write(async (tx) => {
    const enqueued = await store.outbox.enqueue(tx, { owner: "default", target: "test:a", payload: {} });
    await store.outbox.claim(tx, { limit: 1, leaseMs: 600_000 });
    await tx.update("outbox", { id: enqueued }, { lease_owner: ghost });
    return enqueued;
  });
  await clock.waitedFor(5_000);
  clock.tick(5_000);
  assert.equal((await reached(store, id, "delivered")).attempts, 2);
});

test("each attempt is a span below the run that created the message, and its failure has no message text", async (t) => {
  const { store, clock, dispatch } = await openDispatch(t);
  const seen: unknown[] = [];
  const tracer: Tracer = {
    isOn: true,
    start(name, { parent, kind, attributes = {} } = {}) {
      seen.push([
        name,
        kind,
        parent,
        attributes["messaging.message.id"],
        attributes["agentd.delivery.attempt"],
      ]);
      return { ...noSpan, traceparent: parent, fail: (e) => seen.push(e), end: () => seen.push("end") };
    },
  };
  const passedOn: unknown[] = [];
  const target = new TestTarget(({ attempt }, { span }) => {
    passedOn.push(span.traceparent);
    return attempt === 1 ? { status: "retry", error: "private words" } : { status: "delivered" };
  });
  await dispatch([target], { tracer }).start();
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const id = await enqueue(store, { payload: { traceparent } });
  await clock.waitedFor(1_000);
  clock.tick(1_000);
  await reached(store, id, "delivered");
  const span = (attempt: number) => ["send test", "producer", traceparent, id, attempt];
  assert.deepEqual(seen, [span(1), "retry", "end", span(2), "end"]);
  assert.deepEqual(passedOn, [traceparent, traceparent]);
});
