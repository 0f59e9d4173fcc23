import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog } from "../../../src/base/observe.ts";
import { createScheduler } from "../../../src/cron/tick/ticker.ts";
import { createServiceMetrics } from "../../../src/telemetry/metrics.ts";
import { parseExposition, sampleValue } from "../../harness/exposition.ts";
import { createTestCron } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;

test("metrics count runs by status, their delay, and late jobs", async () => {
  await using cron = await createTestCron({
    script: ({ user }) => ({ text: user.includes("badly") ? "[CRON_FAILURE]\nno" : "fine" }),
  });
  const metrics = createServiceMetrics({ store: cron.store, version: "1", log: silentLog });
  try {
    const ticker = createScheduler({ ...cron.deps, metrics: metrics.cron });
    await cron.create({ prompt: "well" });
    await cron.create({ prompt: "badly" });
    const { id } = await cron.create({ prompt: "never" });
    await cron.jobs.pause(id);
    const read = async () => parseExposition(await metrics.http.text());
    cron.clock.tick(HOUR_MS + 2_000);
    assert.equal(sampleValue(await read(), "agentd_cron_jobs_late"), 2);
    await ticker.tick();
    await ticker.settled();
    const families = await read();
    assert.equal(sampleValue(families, "agentd_cron_occurrences_total", { status: "ok" }), 1);
    assert.equal(sampleValue(families, "agentd_cron_occurrences_total", { status: "failed" }), 1);
    assert.equal(sampleValue(families, "agentd_cron_jobs", { state: "scheduled" }), 2);
    assert.equal(sampleValue(families, "agentd_cron_jobs", { state: "paused" }), 1);
    const lag = families.get("agentd_cron_lag_seconds")?.samples ?? [];
    const of = (name: string) => lag.find((sample) => sample.name.endsWith(name))?.value;
    assert.deepEqual([of("_count"), of("_sum")], [2, 4]);
    await ticker.stop();
  } finally {
    metrics.close();
  }
});
