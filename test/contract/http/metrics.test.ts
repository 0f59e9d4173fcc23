import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExposition, sampleValue } from "../../harness/exposition.ts";
import { fetchRun, post, runEvent, startRun } from "../../harness/runs.ts";
import { assertError, assertHealthy, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { runRow, sessionRow } from "../../unit/store/rows.ts";

async function figuresOf(service: TestService) {
  const response = await service.request("/metrics");
  assert.equal(response.status, 200);
  return parseExposition(await response.text());
}

scenario("getMetrics", 200, { title: "metrics are in the text format 0.0.4" }, async (service) => {
  const response = await service.request("/metrics");
  assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const families = parseExposition(await response.text());
  assert.equal(families.get("agentd_build_info")?.samples[0]?.labels["version"], "0.0.0-test");
  assert.ok((sampleValue(families, "process_resident_memory_bytes") ?? 0) > 1e6);
  assert.ok((sampleValue(families, "agentd_uptime_seconds") ?? -1) >= 0);
});

const off = { title: "metrics that are switched off", config: { telemetry: { metrics: false } } };
scenario("getMetrics", 404, off, async (service) => {
  await assertError(await service.request("/metrics"), 404, "not_found");
  await assertHealthy(service);
});

const keys = [{ key: KEY, name: "scraper", scopes: ["read"] }];
scenario("getMetrics", 200, { title: "the scope read is enough", keys }, async (service) => {
  await figuresOf(service);
});

test("open runs are counted by status, ended ones by kind and status", async () => {
  const gate = Promise.withResolvers<void>();
  const script = async ({ user }: { readonly user: string }) => {
    if (user === "wait") await gate.promise;
    if (user === "fail") return { error: { code: "provider_error" as const, message: "no" } };
    return { text: user };
  };
  await using service = await startTestService({ script });
  const first = await startRun(service, { input: "wait", session_id: "one" });
  const queued = [];
  for (let index = 0; index < 3; index++) {
    queued.push(await startRun(service, { input: "later", session_id: "one" }));
  }
  const during = await figuresOf(service);
  const open = (status: string) => sampleValue(during, "agentd_runs", { status });
  assert.deepEqual(["queued", "running", "waiting_for_approval", "stopping"].map(open), [3, 1, 0, 0]);
  assert.equal(sampleValue(during, "agentd_queue_depth"), 3);
  assert.equal(sampleValue(during, "agentd_runs_total", { kind: "run", status: "completed" }), undefined);

  await post(service, `/v1/runs/${queued[2]!.run_id}/stop`, {});
  gate.resolve();
  for (const { run_id: id } of [first, ...queued.slice(0, 2)]) await runEvent(service, id, "run.completed");
  const failed = await startRun(service, { input: "fail" });
  await runEvent(service, failed.run_id, "run.failed");
  await (await service.chat({ messages: [{ role: "user", content: "hi" }] })).text();
  assert.equal((await fetchRun(service, failed.run_id)).status, "failed");

  const after = await figuresOf(service);
  const ended = (kind: string, status: string) => sampleValue(after, "agentd_runs_total", { kind, status });
  assert.equal(ended("run", "completed"), 3);
  assert.equal(ended("run", "cancelled"), 1);
  assert.equal(ended("run", "failed"), 1);
  assert.equal(ended("chat", "completed"), 1);
  assert.equal(sampleValue(after, "agentd_runs", { status: "running" }), 0);
  assert.equal(sampleValue(after, "agentd_queue_depth"), 0);
});

test("a run whose process died is counted by the process that ends it", async () => {
  const service = await startTestService();
  // What a process that is gone leaves: a run at work, under a lease that ran out.
  const session = sessionRow({ lease_owner: "gone:1:x", lease_until: 1 });
  await service.service.store.write(async (tx) => {
    await tx.insert("sessions", [session]);
    await tx.insert("runs", [runRow(session.id)]);
  });
  await using later = await service.restart();
  await later.service.agent.recovered;
  const families = await figuresOf(later);
  assert.equal(sampleValue(families, "agentd_runs_total", { kind: "run", status: "interrupted" }), 1);
  assert.equal(sampleValue(families, "agentd_runs", { status: "running" }), 0);
});

test("requests are counted by operation and status, with their durations", async () => {
  await using service = await startTestService();
  await service.request("/v1/models");
  await service.request("/v1/models");
  await service.request("/v1/models", { headers: { authorization: "Bearer wrong" } });
  await service.request("/v1/runs/run_none");
  const families = await figuresOf(service);
  const requests = (operation: string, status: string) =>
    sampleValue(families, "agentd_http_requests_total", { operation, status });
  assert.equal(requests("listModels", "200"), 2);
  assert.equal(requests("listModels", "401"), 1);
  assert.equal(requests("getRun", "404"), 1);
  const count = sampleValue(families, "agentd_http_request_duration_seconds_count", {
    operation: "listModels",
  });
  assert.equal(count, 3);
  const again = await figuresOf(service);
  assert.equal(
    sampleValue(again, "agentd_http_requests_total", { operation: "getMetrics", status: "200" }),
    1,
  );
});

test("subscribers are the open event streams, until their clients leave", async () => {
  const gate = Promise.withResolvers<void>();
  const script = async () => {
    await gate.promise;
    return { text: "done" };
  };
  await using service = await startTestService({ script });
  const { run_id: id } = await startRun(service);
  const leaving = new AbortController();
  const streams = [
    await service.request(`/v1/runs/${id}/events`),
    await service.request(`/v1/runs/${id}/events`, { signal: leaving.signal }),
  ];
  const open = async () =>
    sampleValue(await figuresOf(service), "agentd_subscribers", { operation: "streamRunEvents" });
  assert.equal(await open(), 2);
  leaving.abort();
  await assert.rejects(streams[1]!.text());
  // The service has noticed the leaving some requests later.
  let count = await open();
  for (let looks = 0; looks < 100 && count !== 1; looks++) count = await open();
  assert.equal(count, 1);
  gate.resolve();
  await streams[0]!.text();
  assert.equal(await open(), 0);
});

test("without the database, the other metrics are still shown", async () => {
  await using service = await startTestService();
  await service.service.store.close();
  const families = await figuresOf(service);
  assert.ok((sampleValue(families, "process_resident_memory_bytes") ?? 0) > 0);
  assert.equal(families.get("agentd_runs")?.samples.length, 0);
});
