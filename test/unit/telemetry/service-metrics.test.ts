import assert from "node:assert/strict";
import { test } from "node:test";
import { addUsage, zeroUsage } from "../../../src/agent/usage/usage.ts";
import { createLog, silentLog } from "../../../src/base/observe.ts";
import { createServiceMetrics } from "../../../src/telemetry/metrics.ts";
import { parseExposition, sampleValue } from "../../harness/exposition.ts";
import { openTestStore } from "../../harness/store.ts";
import { deliveryRow, runRow, sessionRow } from "../store/rows.ts";

test("the metrics of a service parse, and have the documented names", async (t) => {
  const { store } = await openTestStore(t);
  const metrics = createServiceMetrics({ store, version: "1.2.3", log: silentLog });
  t.after(async () => metrics.close());
  const families = parseExposition(await metrics.http.text());
  assert.deepEqual([...families.keys()].toSorted(), [
    "agentd_build_info",
    "agentd_cron_jobs",
    "agentd_cron_jobs_late",
    "agentd_cron_lag_seconds",
    "agentd_cron_occurrences_total",
    "agentd_delivery_attempts_total",
    "agentd_delivery_seconds",
    "agentd_event_loop_delay_seconds",
    "agentd_http_request_duration_seconds",
    "agentd_http_requests_total",
    "agentd_model_cost_usd_total",
    "agentd_model_tokens_total",
    "agentd_outbox_messages",
    "agentd_outbox_oldest_due_seconds",
    "agentd_queue_depth",
    "agentd_runs",
    "agentd_runs_total",
    "agentd_subscribers",
    "agentd_unpriced_tokens_total",
    "agentd_uptime_seconds",
    "agentd_webhook_deliveries",
    "agentd_webhook_request_duration_seconds",
    "agentd_webhook_requests_total",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
  ]);
  const build = families.get("agentd_build_info")?.samples[0]?.labels;
  assert.equal(build?.["version"], "1.2.3");
  assert.equal(build?.["runtime"], "Deno" in globalThis ? "deno" : "node");
});

test("runs and queue depth come from the database, with zeros", async (t) => {
  const { store } = await openTestStore(t);
  const metrics = createServiceMetrics({ store, version: "1", log: silentLog });
  t.after(async () => metrics.close());
  const session = sessionRow();
  await store.write(async (tx) => {
    await tx.insert("sessions", [session]);
    const statuses = ["queued", "queued", "running"];
    await tx.insert(
      "runs",
      statuses.map((status) => runRow(session.id, { status })),
    );
  });
  const families = parseExposition(await metrics.http.text());
  const runs = (status: string) => sampleValue(families, "agentd_runs", { status });
  assert.deepEqual(["queued", "running", "waiting_for_approval", "stopping"].map(runs), [2, 1, 0, 0]);
  assert.equal(sampleValue(families, "agentd_queue_depth"), 2);
});

test("outbox messages are counted by platform and status, and a platform without messages shows 0", async (t) => {
  const { store } = await openTestStore(t, { now: () => 1_000 });
  const metrics = createServiceMetrics({ store, version: "1", log: silentLog });
  t.after(async () => metrics.close());
  const ids: string[] = [];
  await store.write(async (tx) => {
    for (const target of ["telegram:-1", "telegram:-2", "webhook", "nobody's:private"]) {
      ids.push(await store.outbox.enqueue(tx, { owner: "default", target, payload: {}, orderingKey: null }));
    }
  });
  await store.write((tx) => store.outbox.claim(tx, { limit: 1, leaseMs: 60_000, ids: ids.slice(1, 2) }));
  const count = async (platform: string, status: string) =>
    sampleValue(parseExposition(await metrics.http.text()), "agentd_outbox_messages", { platform, status });
  assert.deepEqual([await count("telegram", "due"), await count("telegram", "sending")], [1, 1]);
  assert.deepEqual([await count("webhook", "due"), await count("webhook", "dead")], [1, 0]);
  assert.equal(await count("other", "due"), 1);
  const text = await metrics.http.text();
  assert.ok(!text.includes("nobody") && !text.includes("-2"));
  assert.ok((sampleValue(parseExposition(text), "agentd_outbox_oldest_due_seconds") ?? 0) > 0);
  for (const id of ids) await store.write((tx) => tx.update("outbox", { id }, { status: "delivered" }));
  assert.equal(await count("telegram", "due"), 0);
  assert.equal(
    sampleValue(parseExposition(await metrics.http.text()), "agentd_outbox_oldest_due_seconds"),
    0,
  );
});

test("delivery attempts are counted by outcome, deliveries by duration", async (t) => {
  const { store } = await openTestStore(t);
  const { http, delivery, close } = createServiceMetrics({ store, version: "1", log: silentLog });
  t.after(async () => close());
  delivery.attempted("telegram", "throttled");
  delivery.attempted("telegram", "delivered");
  delivery.delivered("telegram", 61);
  const families = parseExposition(await http.text());
  const attempts = (outcome: string) =>
    sampleValue(families, "agentd_delivery_attempts_total", { platform: "telegram", outcome });
  assert.deepEqual([attempts("throttled"), attempts("delivered"), attempts("permanent")], [1, 1, undefined]);
  const bucket = (le: string) =>
    sampleValue(families, "agentd_delivery_seconds_bucket", { platform: "telegram", le });
  assert.deepEqual([bucket("60"), bucket("300")], [0, 1]);
});

test("requests, streams and ended runs are counted", async (t) => {
  const { store } = await openTestStore(t);
  const { http, runEnded, close } = createServiceMetrics({ store, version: "1", log: silentLog });
  t.after(async () => close());
  http.answered("getRun", 200, 0.003);
  http.answered("getRun", 404, 0.2);
  http.streamOpened("streamRunEvents");
  http.streamOpened("streamRunEvents");
  http.streamClosed("streamRunEvents");
  const usage = { ...zeroUsage, modelCalls: 1, inputTokens: 10, outputTokens: 2, costNano: 5e8 };
  const ended = { kind: "chat", status: "completed", model: "openai:gpt-5.1", usage };
  const others = { "far:away": { ...usage, costNano: 0, unpricedTokens: 12 } };
  runEnded(ended);
  runEnded({ ...ended, usage: { ...addUsage(usage, others["far:away"]), others } });
  const families = parseExposition(await http.text());
  const requests = (status: string) =>
    sampleValue(families, "agentd_http_requests_total", { operation: "getRun", status });
  assert.deepEqual([requests("200"), requests("404")], [1, 1]);
  const durations = "agentd_http_request_duration_seconds";
  assert.equal(sampleValue(families, `${durations}_bucket`, { operation: "getRun", le: "0.005" }), 1);
  assert.equal(sampleValue(families, `${durations}_count`, { operation: "getRun" }), 2);
  assert.equal(sampleValue(families, "agentd_subscribers", { operation: "streamRunEvents" }), 1);
  assert.equal(sampleValue(families, "agentd_runs_total", { kind: "chat", status: "completed" }), 2);
  const of = (name: string, labels: object) => sampleValue(families, name, { ...labels });
  assert.equal(of("agentd_model_tokens_total", { provider: "openai", type: "input" }), 20);
  assert.equal(of("agentd_model_tokens_total", { provider: "far", type: "output" }), 2);
  assert.equal(of("agentd_model_cost_usd_total", { provider: "openai" }), 1);
  assert.equal(of("agentd_unpriced_tokens_total", { provider: "far" }), 12);
});

test("requests to the webhook receiver are counted by outcome", async (t) => {
  const { store } = await openTestStore(t);
  const { http, webhook, close } = createServiceMetrics({ store, version: "1", log: silentLog });
  t.after(async () => close());
  await store.write((tx) => tx.insert("deliveries", [deliveryRow()]));
  webhook.answered("accepted", 0.004);
  webhook.answered("accepted", 0.2);
  webhook.answered("invalid_signature", 0.001);
  const families = parseExposition(await http.text());
  const requests = (outcome: string) => sampleValue(families, "agentd_webhook_requests_total", { outcome });
  assert.deepEqual([requests("accepted"), requests("invalid_signature")], [2, 1]);
  const durations = "agentd_webhook_request_duration_seconds";
  assert.equal(sampleValue(families, `${durations}_bucket`, { outcome: "accepted", le: "0.005" }), 1);
  assert.equal(sampleValue(families, `${durations}_count`, { outcome: "accepted" }), 2);
  const open = (status: string) => sampleValue(families, "agentd_webhook_deliveries", { status });
  assert.deepEqual([open("accepted"), open("running")], [1, 0]);
});

test("an unreachable database is logged, and hides no other metric", async (t) => {
  const { store } = await openTestStore(t);
  const lines: string[] = [];
  const log = createLog("info", (line) => void lines.push(line));
  const metrics = createServiceMetrics({ store, version: "1", log });
  t.after(async () => metrics.close());
  await store.close();
  const families = parseExposition(await metrics.http.text());
  assert.ok((sampleValue(families, "process_resident_memory_bytes") ?? 0) > 0);
  assert.equal(families.get("agentd_runs")?.samples.length, 0);
  assert.match(lines.join(""), /some metrics could not be read/);
});

test("the event loop is measured from the first request on", async (t) => {
  const { store } = await openTestStore(t);
  const metrics = createServiceMetrics({ store, version: "1", log: silentLog });
  t.after(async () => metrics.close());
  const delays = async () => {
    const families = parseExposition(await metrics.http.text());
    return families.get("agentd_event_loop_delay_seconds")?.samples ?? [];
  };
  let samples = await delays();
  for (let looks = 0; looks < 200 && samples.length === 0; looks++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    samples = await delays();
  }
  assert.deepEqual(
    samples.map(({ labels }) => labels["stat"]),
    ["mean", "median", "p99", "max"],
  );
  assert.ok(samples.every(({ value }) => value >= 0));
});
