import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewJob } from "../../../src/store/queue.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";
import { startChild } from "./child.ts";

async function open(t: Parameters<typeof openTestStore>[0]) {
  const clock = { nowMs: 1_000_000 };
  const now = () => clock.nowMs;
  const { store, openAnother, url } = await openTestStore(t, { now });
  return { store, other: await openAnother({ now }), clock, url };
}

const put = (store: Store, set: Partial<NewJob> = {}) =>
  store.write((tx) => store.queue.put(tx, { kind: "work", ref: "r", ...set }));
const claim = (store: Store, set: { kinds?: string[]; limit?: number; leaseMs?: number } = {}) =>
  store.write((tx) => store.queue.claim(tx, { kinds: ["work"], limit: 10, leaseMs: 1_000, ...set }));
const done = (store: Store, id: string) => store.write((tx) => store.queue.done(tx, id));
const fail = (store: Store, id: string, retryAtMs: number | null, error = "no") =>
  store.write((tx) => store.queue.fail(tx, id, { error, retryAtMs }));
const statusOf = async (store: Store, id: string) =>
  (await store.read.selectFrom("jobs").selectAll().where("id", "=", id).executeTakeFirstOrThrow()).status;

test("a job is claimed once, carries what it was given, and is done", async (t) => {
  const { store, other, clock } = await open(t);
  const id = await put(store, { payload: { n: 1 } });
  const [job] = await claim(store);
  assert.deepEqual([job?.id, job?.payload, job?.attempts, job?.lease_owner], [id, '{"n":1}', 1, store.owner]);
  assert.deepEqual(await claim(other), []);
  assert.equal(await done(store, id), true);
  clock.nowMs += 10_000;
  assert.deepEqual(await claim(other), []);
  assert.equal(await statusOf(store, id), "done");
});

test("a job of a work that failed was never put", async (t) => {
  const { store } = await open(t);
  const failing = store.write(async (tx) => {
    await store.queue.put(tx, { kind: "work", ref: "r" });
    throw new Error("no");
  });
  await assert.rejects(failing, /no/);
  assert.deepEqual(await claim(store), []);
});

test("only due jobs of the named kinds are claimed, longest due first, at most `limit`", async (t) => {
  const { store, clock } = await open(t);
  const late = await put(store, { availableAtMs: clock.nowMs + 5_000 });
  const second = await put(store, { availableAtMs: clock.nowMs - 1 });
  const first = await put(store, { availableAtMs: clock.nowMs - 2 });
  await put(store, { kind: "other", availableAtMs: clock.nowMs - 3 });
  assert.deepEqual(
    (await claim(store, { limit: 1 })).map((job) => job.id),
    [first],
  );
  assert.deepEqual(await claim(store, { kinds: [] }), []);
  assert.deepEqual(await claim(store, { limit: 0 }), []);
  assert.deepEqual(
    (await claim(store)).map((job) => job.id),
    [second],
  );
  clock.nowMs += 5_000;
  assert.ok((await claim(store)).some((job) => job.id === late));
});

test("workers that claim at the same time share the jobs without overlap", async (t) => {
  const { store, other } = await open(t);
  await Promise.all(Array.from({ length: 200 }, () => put(store)));
  const claims = await Promise.all(
    Array.from({ length: 60 }, (_, i) => claim(i % 2 ? store : other, { limit: 5 })),
  );
  const ids = claims.flat().map((job) => job.id);
  assert.equal(ids.length, 200);
  assert.equal(new Set(ids).size, 200);
  assert.ok(
    claims.every((jobs) => jobs.length <= 5),
    "a claim takes no more than its limit",
  );
});

test("a lease that ran out is due again, and its worker's answers change nothing", async (t) => {
  const { store, other, clock } = await open(t);
  const id = await put(store);
  await claim(store);
  clock.nowMs += 999;
  assert.deepEqual(await claim(other), []);
  clock.nowMs += 1;
  const [again] = await claim(other);
  assert.deepEqual([again?.id, again?.attempts, again?.lease_owner], [id, 2, other.owner]);
  assert.equal(await store.write((tx) => store.queue.renew(tx, id, 1_000)), false);
  assert.equal(await done(store, id), false);
  assert.equal(await fail(store, id, null), false);
  assert.equal(await done(other, id), true);
});

test("renew keeps the lease", async (t) => {
  const { store, other, clock } = await open(t);
  const id = await put(store);
  await claim(store);
  clock.nowMs += 900;
  assert.equal(await store.write((tx) => store.queue.renew(tx, id, 1_000)), true);
  clock.nowMs += 900;
  assert.deepEqual(await claim(other), []);
});

test("a failed job is tried again at its instant, until its attempts are used up", async (t) => {
  const { store, clock } = await open(t);
  const id = await put(store, { maxAttempts: 2 });
  await claim(store);
  assert.equal(await fail(store, id, clock.nowMs + 50, "x".repeat(10_000)), true);
  assert.deepEqual(await claim(store), []);
  clock.nowMs += 50;
  const [job] = await claim(store);
  assert.deepEqual([job?.attempts, job?.last_error?.length], [2, 2_000]);
  assert.equal(await fail(store, id, clock.nowMs + 50, "again"), true);
  assert.equal(await statusOf(store, id), "dead");
  assert.equal(await fail(store, id, null), false);
});

test("a failure without an instant gives the job up", async (t) => {
  const { store } = await open(t);
  const id = await put(store);
  await claim(store);
  assert.equal(await fail(store, id, null, "never"), true);
  const job = await store.read.selectFrom("jobs").selectAll().executeTakeFirstOrThrow();
  assert.deepEqual([job.status, job.last_error, job.lease_owner], ["dead", "never", null]);
  assert.equal(typeof job.done_at, "number");
});

test("a job that kills every worker is given up when its attempts are used up", async (t) => {
  const { store, clock } = await open(t);
  const id = await put(store, { maxAttempts: 3 });
  for (let i = 0; i < 3; i++) {
    assert.equal((await claim(store)).length, 1);
    clock.nowMs += 1_000;
  }
  assert.deepEqual(await claim(store), []);
  assert.equal(await statusOf(store, id), "dead");
});

test("the jobs of a worker that was killed are free at once when its process is known to be gone", async (t) => {
  const { store, url } = await open(t);
  const ids = await Promise.all(Array.from({ length: 5 }, () => put(store)));
  const child = startChild("./child-worker.ts", [url]);
  t.after(async () => void child.process.kill("SIGKILL"));
  const lines = child.lines[Symbol.asyncIterator]();
  const { owner, claimed } = (await lines.next()).value as { owner: string; claimed: number };
  assert.equal(claimed, 5);
  assert.equal(store.ownerIsDead(owner), false);
  assert.equal(await store.write((tx) => store.queue.reclaim(tx)), 0, "a living worker keeps its jobs");
  assert.deepEqual(await claim(store), []);
  child.process.kill("SIGKILL");
  await child.exit;
  assert.equal(store.ownerIsDead(owner), true);
  assert.equal(await store.write((tx) => store.queue.reclaim(tx)), 5);
  assert.deepEqual(
    (await claim(store)).map((job) => job.id),
    ids.sort(),
  );
});
