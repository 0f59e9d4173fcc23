import assert from "node:assert/strict";
import { test } from "node:test";
import {
  countMessages,
  dropMessage,
  findMessage,
  listMessages,
  retryMessage,
  type MessageStatus,
} from "../../../src/store/outbox/messages.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../harness/store.ts";

async function open(t: Parameters<typeof openTestStore>[0]) {
  const clock = { nowMs: 1_000_000 };
  const { store } = await openTestStore(t, { now: () => clock.nowMs });
  return { store, clock };
}

const enqueue = (store: Store, target = "chat:a") =>
  store.write((tx) =>
    store.outbox.enqueue(tx, { owner: "default", target, payload: { text: "private" }, ref: "run_1" }),
  );
const claim = (store: Store, id: string) =>
  store.write((tx) => store.outbox.claim(tx, { limit: 1, leaseMs: 30_000, ids: [id] }));

/** Returns the id of a message with that status. */
async function ended(store: Store, status: MessageStatus, target?: string): Promise<string> {
  const id = await enqueue(store, target);
  if (status === "due") return id;
  if (status === "dropped") {
    await dropMessage(store, id);
    return id;
  }
  assert.equal((await claim(store, id)).length, 1);
  const { outbox } = store;
  await store.write(async (tx) => {
    if (status === "delivered") await outbox.delivered(tx, id);
    if (status === "dead") await outbox.dead(tx, id, "410");
    if (status === "unknown") await outbox.unknown(tx, id, "no answer");
  });
  return id;
}

test("messages are listed newest first, in pages, by status, platform and reference, without their payload", async (t) => {
  const { store, clock } = await open(t);
  const made: string[] = [];
  for (const [status, target] of [
    ["delivered", "sms:1"],
    ["dead", "sms:2"],
    ["unknown", "smsx:3"],
    ["dropped", "sms:4"],
    ["leased", "sms"],
    ["due", "sms_a:5"],
  ] as const) {
    clock.nowMs += 1;
    made.unshift(await ended(store, status, target));
  }
  const list = async (request: Parameters<typeof listMessages>[1]) =>
    (await listMessages(store, request)).map(({ id }) => made.indexOf(id)).join("");
  assert.equal(await list({}), "012345");
  assert.equal(await list({ limit: 2 }), "01");
  assert.equal(await list({ limit: 2, before: made[1]! }), "23");
  assert.equal(await list({ platforms: ["sms"] }), "1245");
  assert.equal(await list({ statuses: ["dead", "unknown"] }), "34");
  assert.equal(await list({ statuses: ["due", "leased"] }), "01");
  assert.equal(await list({ statuses: ["delivered", "due"] }), "05");
  assert.equal(await list({ statuses: [] }), "");
  assert.equal(await list({ ref: "run_2" }), "");
  const [, , , unknown] = await listMessages(store);
  assert.deepEqual(unknown, {
    id: made[3],
    owner: "default",
    orderingKey: "smsx:3",
    target: "smsx:3",
    status: "unknown",
    ref: "run_1",
    attempts: 1,
    partsSent: 0,
    error: "no answer",
    createdAtMs: 1_000_003,
    isBlocked: false,
    endedAtMs: 1_000_003,
  });
  assert.equal((await findMessage(store, made[0]!))?.payload, '{"text":"private"}');
  assert.equal(await findMessage(store, "out_none"), undefined);
});

test("a dead, unknown or waiting message is due now when a user retries it, and keeps its parts", async (t) => {
  const { store, clock } = await open(t);
  for (const status of ["dead", "unknown", "due"] as const) {
    const id = await ended(store, status, `chat:${status}`);
    await store.write((tx) =>
      tx.update("outbox", { id }, { parts_sent: 2, available_at: 9_000_000, attempts: 4 }),
    );
    clock.nowMs += 1_000;
    assert.equal(await retryMessage(store, id), "retried");
    const row = await store.find("outbox", { id });
    assert.deepEqual(
      [row?.status, row?.attempts, row?.parts_sent, row?.available_at, row?.done_at, row?.retried_at],
      ["due", 0, 2, clock.nowMs, null, clock.nowMs],
    );
    assert.equal((await claim(store, id)).length, 1);
  }
});

test("a message that is being sent cannot be retried or dropped while its sender lives; a finished one never", async (t) => {
  const { store, clock } = await open(t);
  const id = await ended(store, "leased");
  assert.deepEqual([await retryMessage(store, id), await dropMessage(store, id)], ["leased", "leased"]);
  const ghost = store.owner.replace(/:\d+:/, ":999999999:");
  await store.write((tx) => tx.update("outbox", { id }, { lease_owner: ghost }));
  assert.equal(await dropMessage(store, id), "dropped");
  assert.deepEqual([await retryMessage(store, id), await dropMessage(store, id)], ["done", "done"]);
  const delivered = await ended(store, "delivered");
  assert.equal(await retryMessage(store, delivered), "done");
  assert.equal(await retryMessage(store, "out_none"), "missing");
  const late = await ended(store, "leased");
  clock.nowMs += 30_000;
  assert.equal(await retryMessage(store, late), "retried");
});

test("dropping the first message of a chat unblocks the next one; retrying an older one puts it first", async (t) => {
  const { store } = await open(t);
  const dead = await ended(store, "dead");
  const [first, second, third] = [await enqueue(store), await enqueue(store), await enqueue(store)];
  const blocked = async () =>
    (await listMessages(store)).filter(({ isBlocked }) => isBlocked).map(({ id }) => id);
  assert.deepEqual(await blocked(), [third, second]);
  assert.equal(await dropMessage(store, second), "dropped");
  assert.equal(await dropMessage(store, first), "dropped");
  assert.deepEqual(await blocked(), []);
  assert.equal((await claim(store, third)).length, 1);
  assert.equal(await retryMessage(store, dead), "retried");
  assert.equal((await claim(store, dead)).length, 0, "another message of its chat is being sent");
  await store.write((tx) => store.outbox.retryAt(tx, third, { error: "503", atMs: 0 }));
  assert.equal((await claim(store, third)).length, 0, "an older one is pending");
  assert.equal((await claim(store, dead)).length, 1);
  await store.write((tx) => store.outbox.delivered(tx, dead));
  assert.equal((await claim(store, third)).length, 1);
});

test("pending and failed messages are counted by platform, with the time of the oldest", async (t) => {
  const { store, clock } = await open(t);
  assert.deepEqual(await countMessages(store), []);
  await ended(store, "delivered", "sms:1");
  const startMs = clock.nowMs;
  for (const target of ["sms:1", "sms:2", "sms", "log"]) {
    await enqueue(store, target);
    clock.nowMs += 10;
  }
  await ended(store, "dead", "mail:x");
  await ended(store, "dropped", "mail:y");
  assert.deepEqual(await countMessages(store), [
    { platform: "log", status: "due", count: 1, oldestAtMs: startMs + 30 },
    { platform: "sms", status: "due", count: 3, oldestAtMs: startMs },
    { platform: "mail", status: "dead", count: 1, oldestAtMs: clock.nowMs },
    { platform: "mail", status: "dropped", count: 1, oldestAtMs: clock.nowMs },
  ]);
});
