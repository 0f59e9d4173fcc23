import assert from "node:assert/strict";
import { test } from "node:test";
import type { SendOutcome } from "../../../src/deliver/target.ts";
import { dropMessage, retryMessage } from "../../../src/store/outbox/messages.ts";
import { onMessageSettled } from "../../../src/app/wire-delivery.ts";
import { createTestCron, type TestCron } from "../../harness/cron.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const permanent: SendOutcome = { status: "permanent", error: "The chat is gone." };
const delivered: SendOutcome = { status: "delivered" };

const only = async (cron: TestCron, id: string) => {
  const [first, ...others] = await cron.occurrences(id);
  assert.equal(others.length, 0);
  assert.ok(first);
  return first;
};

test("a failed delivery sets status delivery_failed, keeps the run ok and does not count in the failure streak", async () => {
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    send: { test: () => permanent },
  });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  const { status, delivery_status: delivery, delivery_error: error, reason } = await only(cron, id);
  assert.deepEqual([status, reason, delivery, error], ["ok", null, "failed", "test: The chat is gone."]);
  const job = await cron.job(id);
  assert.deepEqual([job.lastStatus, job.lastError], ["delivery_failed", undefined]);
  assert.equal(job.lastDeliveryError, "test: The chat is gone.");
  assert.equal(job.failureStreak, 0);
  assert.equal(Object.keys(await cron.outputs(id)).length, 1, "the output is kept");
});

test("a failed run stays failed when its delivery fails too", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "" }), send: { test: () => permanent } });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  const job = await cron.job(id);
  assert.deepEqual([job.lastStatus, job.failureStreak], ["error", 1]);
  assert.equal(job.lastDeliveryError, "test: The chat is gone.");
});

test("an unconfirmed delivery is neither resent nor a success, and other targets still get the message", async () => {
  const asked: string[] = [];
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    send: {
      unclear: () => {
        asked.push("unclear");
        return { status: "unknown", error: "No answer came in time.", isFinal: true };
      },
    },
  });
  const { id } = await cron.create({ deliver: "unclear:1,test:2" });
  await cron.advance(HOUR_MS);
  await cron.advance(40 * MINUTE_MS);
  assert.deepEqual(asked, ["unclear"], "it may have arrived, and is not sent again");
  assert.deepEqual(
    cron.sent.map(({ target }) => target),
    ["test:2"],
  );
  const { delivery_status: delivery, delivery_error: error } = await only(cron, id);
  assert.deepEqual([delivery, error], ["unknown", "unclear:1: No answer came in time."]);
  assert.equal((await cron.job(id)).lastStatus, "delivery_failed", "an unconfirmed message is not delivered");
});

test("a run with several targets records each failed target with its error", async () => {
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    send: {
      broken: ({ address }) => ({ status: "permanent", error: `There is no ${address}.` }),
      unclear: () => ({ status: "unknown", error: "No answer.", isFinal: true }),
    },
  });
  const { id } = await cron.create({ deliver: "broken:1,unclear:2,test:3,broken:4" });
  await cron.advance(HOUR_MS);
  assert.equal(cron.sent.length, 1);
  const { delivery_status: delivery, delivery_error: error } = await only(cron, id);
  assert.equal(delivery, "failed");
  assert.equal(error, "broken:1: There is no 1. broken:4: There is no 4. unclear:2: No answer.");
});

test("a retried delivery sends the same text without another agent run", async () => {
  let runs = 0;
  const attempts: string[] = [];
  await using cron = await createTestCron({
    script: () => ({ text: `tea ${++runs}` }),
    send: {
      test: ({ payload }) => {
        attempts.push((payload as { text: string }).text);
        return attempts.length < 3 ? { status: "retry", error: "The platform is away." } : delivered;
      },
    },
  });
  const { id } = await cron.create({ schedule: { kind: "interval", minutes: 600 } });
  await cron.advance(600 * MINUTE_MS);
  assert.equal((await only(cron, id)).delivery_status, "pending");
  assert.equal((await cron.job(id)).lastStatus, "ok", "nothing is lost yet");
  await cron.advance(MINUTE_MS);
  await cron.advance(5 * MINUTE_MS);
  assert.equal((await only(cron, id)).delivery_status, "delivered");
  assert.equal(runs, 1);
  assert.equal(attempts.length, 3);
  assert.equal(new Set(attempts).size, 1, "the same text each time");
});

test("a message that was given up and retried by hand clears the delivery failure", async () => {
  let isBroken = true;
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    send: { test: () => (isBroken ? permanent : delivered) },
  });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  const { id: ref } = await only(cron, id);
  const [letter] = await cron.messages(ref);
  assert.ok(letter);
  isBroken = false;
  assert.equal(await retryMessage(cron.store, letter.id, { changed: onMessageSettled }), "retried");
  assert.equal((await only(cron, id)).delivery_status, "pending");
  await cron.sentAll();
  const { delivery_status: delivery, delivery_error: error } = await only(cron, id);
  assert.deepEqual([delivery, error], ["delivered", null]);
  const job = await cron.job(id);
  assert.deepEqual([job.lastStatus, job.lastDeliveryError], ["ok", undefined]);
  assert.equal(cron.sent.length, 1);
});

test("a dropped message counts as not delivered", async () => {
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    send: { test: () => ({ status: "retry", error: "The platform is away." }) },
  });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  const [letter] = await cron.messages((await only(cron, id)).id);
  await dropMessage(cron.store, letter?.id ?? "", { changed: onMessageSettled });
  const { delivery_status: delivery, delivery_error: error } = await only(cron, id);
  assert.deepEqual([delivery, error], ["failed", "test: It was dropped."]);
});

test("a message whose sender died may have arrived, and the job shows that", async () => {
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    send: { test: () => ({ status: "retry", error: "The platform is away." }) },
  });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  const [letter] = await cron.messages((await only(cron, id)).id);
  assert.ok(letter);
  const lost = { status: "leased", lease_owner: "gone:1:00", attempts: 9, available_at: cron.clock.now() };
  await cron.store.write((tx) => tx.update("outbox", { id: letter.id }, lost));
  await cron.advance(MINUTE_MS);
  const { delivery_status: delivery, delivery_error: error } = await only(cron, id);
  assert.equal(delivery, "unknown");
  assert.match(error ?? "", /^test: .*may have arrived/);
  assert.equal((await cron.job(id)).lastStatus, "delivery_failed");
});

test("a message of an earlier run does not change the status of a job that ran since", async () => {
  const outcomes: SendOutcome[] = [{ status: "retry", error: "The platform is away." }, delivered, permanent];
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    send: { test: () => outcomes.shift() ?? delivered },
  });
  const { id } = await cron.create({ schedule: { kind: "interval", minutes: 1 }, deliver: "test:1" });
  await cron.advance(MINUTE_MS);
  const [letter] = await cron.messages((await only(cron, id)).id);
  // Its second attempt comes after the message of the second run.
  await cron.store.write((tx) =>
    tx.update(
      "outbox",
      { id: letter?.id ?? "" },
      { available_at: cron.clock.now() + 90_000, ordering_key: null, blocked: 0 },
    ),
  );
  await cron.advance(MINUTE_MS);
  assert.equal((await cron.job(id)).lastStatus, "ok");
  cron.clock.tick(30_000);
  await cron.sentAll();
  const [first, second] = await cron.occurrences(id);
  assert.deepEqual([first?.delivery_status, second?.delivery_status], ["failed", "delivered"]);
  const job = await cron.job(id);
  assert.deepEqual([job.lastStatus, job.lastDeliveryError], ["ok", undefined]);
});

test("messages of one occurrence that end at once in two processes produce one final status", async () => {
  await using cron = await createTestCron({
    script: () => ({ text: "tea" }),
    send: { test: () => permanent },
  });
  await using other = await createTestCron({ like: cron, send: { test: () => delivered } });
  const targets = Array.from({ length: 8 }, (_, chat) => `test:${chat}`);
  const { id } = await cron.create({ deliver: targets.join(",") });
  await cron.advance(HOUR_MS);
  const { id: ref } = await only(cron, id);
  const ended = await cron.messages(ref);
  await Promise.all(
    ended.map((row, index) =>
      (index % 2 === 0 ? cron : other).store.write(async (tx) => {
        await tx.update("outbox", { id: row.id }, { status: "delivered", last_error: null });
        await onMessageSettled(tx, row);
      }),
    ),
  );
  assert.equal((await only(cron, id)).delivery_status, "delivered");
  assert.equal((await cron.job(id)).lastStatus, "ok");
});

test("an output file that cannot be written is a delivery error of the job", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea" }) });
  const { id } = await cron.create({ deliver: "local" });
  await cron.write(`cron/output/${id}`, "a file where a folder belongs");
  await cron.advance(HOUR_MS);
  const { status, delivery_status: delivery, delivery_error: error } = await only(cron, id);
  assert.deepEqual([status, delivery], ["ok", "none"]);
  assert.match(error ?? "", /^cron_output: .* is a link or a file/);
  assert.equal((await cron.job(id)).lastStatus, "delivery_failed");
});

test("messages of other modules and of deleted occurrences change nothing", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea" }) });
  const { id } = await cron.create();
  await cron.advance(HOUR_MS);
  const before = [await cron.occurrences(id), await cron.job(id)];
  assert.equal((before[0] as readonly unknown[]).length, 1);
  for (const ref of [null, "run_1", "occ_gone", "dlv_1"]) {
    await cron.store.write((tx) => onMessageSettled(tx, { ref }));
  }
  assert.deepEqual([await cron.occurrences(id), await cron.job(id)], before);
});
