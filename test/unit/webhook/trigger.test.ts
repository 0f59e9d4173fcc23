import assert from "node:assert/strict";
import { test } from "node:test";
import type { Outcome } from "../../../src/agent/run/outcome.ts";
import type { RunDelivery } from "../../../src/agent/notify/run-trigger.ts";
import { silentLog } from "../../../src/base/observe/log.ts";
import type { RunRow } from "../../../src/store/schema/tables.ts";
import { createWebhookTrigger } from "../../../src/webhook/deliveries/trigger.ts";
import { openTestStore } from "../../harness/store.ts";

const completed = { status: "completed", set: { output: "done" }, event: { data: {} } } as unknown as Outcome;
const failed = {
  status: "failed",
  set: {},
  event: { data: { error: { message: "The provider acme could not be reached at 10.0.0.9." } } },
} as unknown as Outcome;

/** What a run with this delivery enqueues when it ends so: the addresses, and the texts. */
async function enqueued(
  t: Parameters<typeof openTestStore>[0],
  delivery: Partial<RunDelivery>,
  outcome: Outcome,
) {
  const { store } = await openTestStore(t);
  const whole: RunDelivery = { ref: "dlv_1", targets: [], failure: [], extra: { a: 1 }, ...delivery };
  const run = { id: "run_1", reply_to: JSON.stringify(whole) } as RunRow;
  const trigger = createWebhookTrigger({ store, log: silentLog });
  assert.ok(trigger.owns(run.reply_to ?? ""));
  await store.write((tx) => trigger.ended(tx, run, outcome));
  const rows = await store.read.selectFrom("outbox").selectAll().orderBy("id").execute();
  assert.ok(rows.every(({ ref }) => ref === "dlv_1"));
  return rows.map(({ target, payload }) => {
    const { text, extra } = JSON.parse(payload) as { text: string; extra: unknown };
    assert.deepEqual(extra, { a: 1 });
    return [target, text];
  });
}

test("the answer of a run goes to each target in order", async (t) => {
  assert.deepEqual(await enqueued(t, { targets: ["slack:C1", "log"] }, completed), [
    ["slack:C1", "done"],
    ["log", "done"],
  ]);
});

test("an answer with [SILENT] is not delivered when the route suppresses it", async (t) => {
  const silent = { ...completed, set: { output: "ok [SILENT]" } } as unknown as Outcome;
  assert.deepEqual(await enqueued(t, { targets: ["log"], suppressesSilence: true }, silent), []);
  assert.deepEqual(await enqueued(t, { targets: ["log"] }, silent), [["log", "ok [SILENT]"]]);
});

test("only the owner of the service gets the reason of a failed run", async (t) => {
  const failure = [
    { target: "telegram:-100", says: "notice" },
    { target: "local", says: "reason" },
  ] as const;
  assert.deepEqual(await enqueued(t, { targets: ["telegram:-100", "local", "slack:C1"], failure }, failed), [
    ["telegram:-100", "The agent could not finish this."],
    ["local", "The agent could not finish this. The provider acme could not be reached at 10.0.0.9."],
  ]);
});
