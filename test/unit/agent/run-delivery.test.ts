import assert from "node:assert/strict";
import { test } from "node:test";
import type { Outcome } from "../../../src/agent/outcome.ts";
import { oweRunDelivery } from "../../../src/agent/run-delivery.ts";
import type { RunRow } from "../../../src/store/tables.ts";
import { openTestStore } from "../../harness/store.ts";

const completed = { status: "completed", set: { output: "done" }, event: { data: {} } } as unknown as Outcome;

async function owed(t: Parameters<typeof openTestStore>[0], delivery: object) {
  const { store } = await openTestStore(t);
  const run = { delivery: JSON.stringify({ extra: { a: 1 }, ref: "dlv_1", ...delivery }) } as RunRow;
  await store.write((tx) => oweRunDelivery(tx, store, run, completed));
  const rows = await store.read.selectFrom("outbox").selectAll().orderBy("id").execute();
  return rows.map(({ target, payload, ref, max_attempts: most }) => [target, payload, ref, most]);
}

const payload = JSON.stringify({ text: "done", extra: { a: 1 } });

test("an answer is owed to each of its targets, in their order", async (t) => {
  assert.deepEqual(await owed(t, { targets: ["slack:C1", "log"], maxAttempts: 2 }), [
    ["slack:C1", payload, "dlv_1", 2],
    ["log", payload, "dlv_1", 2],
  ]);
});

test("runs of earlier versions, which knew one target, are answered", async (t) => {
  assert.deepEqual(await owed(t, { target: "webhook" }), [["webhook", payload, "dlv_1", 0]]);
});

test("what says [SILENT] is owed to nobody where that is wished", async (t) => {
  const delivery = JSON.stringify({ targets: ["log"], extra: {}, ref: "dlv_1", suppressesSilence: true });
  const { store } = await openTestStore(t);
  const silent = { ...completed, set: { output: "ok [SILENT]" } } as unknown as Outcome;
  await store.write((tx) => oweRunDelivery(tx, store, { delivery } as RunRow, silent));
  assert.deepEqual(await store.read.selectFrom("outbox").selectAll().execute(), []);
});
