import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { startChild } from "./child.ts";

async function open(t: Parameters<typeof openTestStore>[0]) {
  const clock = { nowMs: 1_000_000 };
  const now = () => clock.nowMs;
  const { store, openAnother, url } = await openTestStore(t, { now });
  return { store, other: await openAnother({ now }), clock, url };
}

const enqueue = (store: Store, maxAttempts?: number) =>
  store.write((tx) =>
    store.outbox.enqueue(tx, {
      owner: "default",
      target: "log",
      payload: { text: "hi" },
      ref: "run_1",
      ...(maxAttempts && { maxAttempts }),
    }),
  );
const claim = (store: Store, limit = 10) =>
  store.write((tx) => store.outbox.claim(tx, { limit, leaseMs: 1_000 }));

test("a message is claimed once, by one of many senders, and delivered", async (t) => {
  const { store, other } = await open(t);
  const ids = await Promise.all(Array.from({ length: 100 }, () => enqueue(store)));
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

test("a message is enqueued with the transaction that causes it, or not at all", async (t) => {
  const { store } = await open(t);
  const failing = store.write(async (tx) => {
    await store.outbox.enqueue(tx, { owner: "default", target: "log", payload: {} });
    throw new Error("no");
  });
  await assert.rejects(failing, /no/);
  assert.deepEqual(await claim(store), []);
});

test("a retry is due at its instant; an attempt that does not count leaves no trace", async (t) => {
  const { store, clock } = await open(t);
  const id = await enqueue(store);
  const retry = () =>
    store.write((tx) => store.outbox.retryAt(tx, id, { error: "503", atMs: clock.nowMs + 100 }));
  assert.equal((await claim(store)).length, 1);
  assert.equal(await retry(), true);
  assert.equal(await retry(), false, "a message that waits is not leased");
  assert.deepEqual(await claim(store), []);
  clock.nowMs += 100;
  assert.equal((await claim(store))[0]?.attempts, 2);
  const again = { error: "429", atMs: clock.nowMs + 100, isCounted: false };
  assert.equal(await store.write((tx) => store.outbox.retryAt(tx, id, again)), true);
  const row = await store.read.selectFrom("outbox").selectAll().executeTakeFirstOrThrow();
  assert.deepEqual([row.status, row.attempts, row.last_error], ["due", 1, "429"]);
});

test("a sender that lost its lease changes nothing", async (t) => {
  const { store, other, clock } = await open(t);
  const id = await enqueue(store);
  await claim(store);
  clock.nowMs += 1_000;
  assert.equal((await claim(other)).length, 1);
  assert.equal(await store.write((tx) => store.outbox.renew(tx, id, 1_000)), false);
  assert.equal(await store.write((tx) => store.outbox.delivered(tx, id)), false);
  assert.equal(await store.write((tx) => store.outbox.dead(tx, id, "x")), false);
  assert.equal(await other.write((tx) => other.outbox.dead(tx, id, "gone")), true);
});

test("messages can be claimed by their ids, and released without a trace", async (t) => {
  const { store } = await open(t);
  const [first, second] = [await enqueue(store), await enqueue(store)].sort();
  const taken = await store.write((tx) =>
    store.outbox.claim(tx, { limit: 10, leaseMs: 1_000, ids: [second!] }),
  );
  assert.deepEqual(
    taken.map((row) => row.id),
    [second],
  );
  assert.equal(await store.write((tx) => store.outbox.release(tx, second!)), true);
  assert.equal(await store.write((tx) => store.outbox.release(tx, second!)), false);
  const again = await claim(store);
  assert.deepEqual(
    again.map(({ id, attempts }) => [id, attempts]),
    [
      [first, 1],
      [second, 1],
    ],
  );
});

test("listeners are called once a message is committed, and never for one that was rolled back", async (t) => {
  const { store } = await open(t);
  let calls = 0;
  const stop = store.outbox.onEnqueued(() => (calls += 1));
  await enqueue(store);
  assert.equal(calls, 1);
  const failing = store.write(async (tx) => {
    await store.outbox.enqueue(tx, { owner: "default", target: "log", payload: {} });
    throw new Error("no");
  });
  await assert.rejects(failing, /no/);
  stop();
  await enqueue(store);
  assert.equal(calls, 1);
});

test("pending messages are listed soonest first, without those for busy targets", async (t) => {
  const { store } = await open(t);
  const later = (target: string, availableAtMs: number) =>
    store.write((tx) => store.outbox.enqueue(tx, { owner: "default", target, payload: {}, availableAtMs }));
  for (const [index, target] of ["log", "mail:a", "mail:b", "mailing:c", "log:d"].entries())
    await later(target, 1_000_100 - index);
  const waiting = async (targets: string[], platforms: string[]) => {
    const request = { except: { targets, platforms } };
    return (await store.write((tx) => store.outbox.listPending(tx, request))).map(({ target }) => target);
  };
  assert.deepEqual(await waiting([], []), ["log:d", "mailing:c", "mail:b", "mail:a", "log"]);
  assert.deepEqual(await waiting(["log:d", "mail:b"], []), ["mailing:c", "mail:b", "mail:a", "log"]);
  assert.deepEqual(await waiting([], ["log"]), ["mailing:c", "mail:b", "mail:a"]);
  assert.deepEqual(await waiting([], ["log", "mail"]), ["mailing:c"]);
});

test("the list holds the soonest messages of each queue, however many exist", async (t) => {
  const { store } = await open(t);
  await store.write(async (tx) => {
    for (let i = 0; i < 300; i++)
      await store.outbox.enqueue(tx, { owner: "default", target: `mail:${i}`, payload: {} });
    for (let i = 0; i < 300; i++)
      await store.outbox.enqueue(tx, { owner: "default", target: "webhook:a", payload: {} });
    await store.outbox.enqueue(tx, { owner: "default", target: "sms:1", payload: {} });
  });
  const except = { targets: [], platforms: [] };
  const rows = await store.write((tx) => store.outbox.listPending(tx, { except }));
  const count = (target: string) => rows.filter((row) => row.target.startsWith(target)).length;
  assert.deepEqual([count("mail:"), count("webhook:a"), count("sms:1")], [16, 16, 1]);
});

test("renewing keeps the lease", async (t) => {
  const { store, other, clock } = await open(t);
  const id = await enqueue(store);
  await claim(store);
  clock.nowMs += 900;
  assert.equal(await store.write((tx) => store.outbox.renew(tx, id, 1_000)), true);
  clock.nowMs += 900;
  assert.deepEqual(await claim(other), []);
});

test("a long error is cut, and a message without a new error keeps its last one", async (t) => {
  const { store, clock } = await open(t);
  const id = await enqueue(store);
  await claim(store);
  const retry = { error: "x".repeat(10_000), atMs: clock.nowMs };
  await store.write((tx) => store.outbox.retryAt(tx, id, retry));
  await claim(store);
  await store.write((tx) => store.outbox.delivered(tx, id));
  assert.equal((await store.find("outbox", { id }))?.last_error, "x".repeat(2_000));
});

test("the messages of a sender that was killed are due at once when its process is known to be gone", async (t) => {
  const { store, url } = await open(t);
  const ids = await Promise.all(Array.from({ length: 5 }, () => enqueue(store)));
  const child = startChild("./child-sender.ts", [url]);
  t.after(async () => void child.process.kill("SIGKILL"));
  const lines = child.lines[Symbol.asyncIterator]();
  const { owner, claimed } = (await lines.next()).value as { owner: string; claimed: number };
  assert.equal(claimed, 5);
  assert.equal(store.ownerIsDead(owner), false);
  assert.equal(await store.write((tx) => store.outbox.reclaim(tx)), 0, "a living sender keeps its messages");
  assert.deepEqual(await claim(store), []);
  child.process.kill("SIGKILL");
  await child.exit;
  assert.equal(store.ownerIsDead(owner), true);
  assert.equal(await store.write((tx) => store.outbox.reclaim(tx)), 5);
  assert.deepEqual(
    (await claim(store)).map((message) => message.id),
    ids.sort(),
  );
});
