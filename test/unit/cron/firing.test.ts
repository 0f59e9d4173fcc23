import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestCron, START_MS } from "../../harness/cron.ts";

test("a job runs at its instant, is delivered and kept, and moves on", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea is ready" }) });
  const { id } = await cron.create();
  await cron.advance(3_599_999);
  assert.deepEqual(await cron.occurrences(), []);
  await cron.advance(1);
  const [occurrence, ...others] = await cron.occurrences();
  assert.equal(others.length, 0);
  assert.equal(occurrence?.scheduled_at, START_MS + 3_600_000);
  assert.equal(occurrence.status, "ok");
  assert.equal(occurrence.delivery_status, "delivered");
  assert.match(cron.sent[0]?.text ?? "", /tea is ready/);
  const [output] = Object.values(await cron.outputs(id));
  assert.match(output ?? "", /## Response\n\ntea is ready/);
  const { nextRunAtMs, lastStatus } = await cron.job(id);
  assert.equal(nextRunAtMs, START_MS + 7_200_000);
  assert.equal(lastStatus, "ok");
});
