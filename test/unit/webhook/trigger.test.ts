import assert from "node:assert/strict";
import { test } from "node:test";
import type { Outcome, RunDelivery } from "../../../src/agent/run/run.ts";
import { createLog, silentLog } from "../../../src/base/observe.ts";
import { readAttemptLog } from "../../../src/store/outbox/outbox.ts";
import type { RunRow } from "../../../src/store/schema/tables.ts";
import { createWebhookTrigger } from "../../../src/webhook/deliveries/deliveries.ts";
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
  const run = { id: "run_1", owner: "ci", session_id: "ses_1", reply_to: JSON.stringify(whole) } as RunRow;
  const trigger = createWebhookTrigger({ store, log: silentLog });
  assert.ok(trigger.owns(run.reply_to ?? ""));
  await store.write((tx) => trigger.ended(tx, run, outcome));
  const rows = await store.read.selectFrom("outbox").selectAll().orderBy("id").execute();
  assert.ok(rows.every(({ ref, owner }) => ref === "dlv_1" && owner === "ci"));
  return rows.map(({ target, payload }) => {
    const { text, extra, filesFrom } = JSON.parse(payload) as {
      text: string;
      extra: unknown;
      filesFrom?: unknown;
    };
    assert.deepEqual(extra, { a: 1 });
    // Only an answer may send files along.
    assert.equal(filesFrom, outcome.status === "completed" ? null : undefined);
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

test("an answer for the log is written and delivered when its run ends, one that names a file waits for its sender", async (t) => {
  const { store } = await openTestStore(t);
  const lines: string[] = [];
  const log = createLog("info", (line) => void lines.push(line));
  const trigger = createWebhookTrigger({ store, log });
  for (const output of ["done", "see MEDIA:a.png"]) {
    const delivery: RunDelivery = { ref: "dlv_1", targets: ["log"], failure: [], extra: {} };
    const run = {
      id: "run_1",
      owner: "ci",
      session_id: "ses_1",
      reply_to: JSON.stringify(delivery),
    } as RunRow;
    const outcome = { ...completed, set: { output } } as unknown as Outcome;
    await store.write((tx) => trigger.ended(tx, run, outcome));
  }
  const rows = await store.read.selectFrom("outbox").selectAll().orderBy("id").execute();
  assert.deepEqual(
    rows.map(({ status, attempts, done_at: doneAt }) => [status, attempts, doneAt !== null]),
    [
      ["delivered", 1, true],
      ["due", 0, false],
    ],
  );
  assert.deepEqual(
    readAttemptLog(rows[0]?.attempt_log ?? null).map(({ outcome }) => outcome),
    ["delivered"],
  );
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /"text":"done"/);
  const claimed = await store.write((tx) => store.outbox.claim(tx, { limit: 9, leaseMs: 1_000 }));
  assert.deepEqual(
    claimed.map(({ id }) => id),
    [rows[1]?.id],
  );
});
