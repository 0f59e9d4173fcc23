import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestCron, START_MS } from "../../harness/cron.ts";
import { failWrites } from "../../harness/failing-store.ts";

const HOUR_MS = 3_600_000;
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

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

test("a run whose end the database did not take is closed, and its job's later instants run", async (t) => {
  const release = Promise.withResolvers<void>();
  await using cron = await createTestCron({ script: async () => (await release.promise, { text: "tea" }) });
  const { agent, clock } = cron;
  agent.core.start();
  await agent.core.recovered;
  const { id } = await cron.create();
  clock.tick(HOUR_MS);
  await cron.ticker.tick();
  const runOf = async () => (await cron.occurrences(id))[0]?.run_id;
  while (!(await runOf())) await nextTurn();
  const isGivenUp = () =>
    agent.logLines.some((line) => line.includes('"the end of a run could not be recorded"'));
  const writes = failWrites(t, agent.store);
  writes.begin(() => (isGivenUp() ? undefined : "refused"));
  release.resolve();
  while (!(await cron.occurrences(id))[0]?.ended_at) {
    clock.tick(1_000);
    for (let turn = 0; turn < 20; turn++) await nextTurn();
  }
  assert.ok(isGivenUp());
  await cron.advance(HOUR_MS);
  const statuses = (await cron.occurrences(id)).map(({ status }) => status);
  assert.deepEqual(statuses, ["unknown", "ok"]);
});
