import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExposition, sampleValue } from "../../harness/exposition.ts";
import { startTestService } from "../../harness/service.ts";
import { startWebhookService, type WebhookService } from "../../harness/webhook.ts";

async function metricsOf({ test: service }: WebhookService) {
  return parseExposition(await (await service.request("/metrics")).text());
}

async function healthOf({ test: service }: WebhookService) {
  const body = await (await service.request("/health/detailed")).json();
  return body.readiness.checks.webhooks;
}

test("the receiver's requests are counted by what they came to", async () => {
  await using service = await startWebhookService({ routes: { hook: { events: ["push"] } } });
  const push = { "x-github-event": "push", "x-github-delivery": "d-1" };
  await service.post("hook", {}, { headers: push });
  await service.post("hook", {}, { headers: push });
  await service.post("hook", {}, { headers: { "x-github-event": "ping" } });
  await service.post("hook", {}, { secret: "wrong" });
  await service.post("nobody-knows-this-one");
  const families = await metricsOf(service);
  const count = (outcome: string) => sampleValue(families, "agentd_webhook_requests_total", { outcome });
  const outcomes = ["accepted", "duplicate", "ignored", "invalid_signature", "unknown_route"];
  assert.deepEqual(outcomes.map(count), [1, 1, 1, 1, 1]);
  const timed = "agentd_webhook_request_duration_seconds_count";
  assert.equal(sampleValue(families, timed, { outcome: "accepted" }), 1);
  // Whoever guesses at names makes no series.
  assert.ok(!JSON.stringify([...families]).includes("nobody-knows-this-one"));
});

test("the health report contains the receiver's address and its recent deliveries", async () => {
  await using service = await startWebhookService({ routes: { hook: { events: ["push"] }, other: {} } });
  await service.post("hook", {}, { headers: { "x-github-event": "push" } });
  await service.post("hook", {}, { headers: { "x-github-event": "ping" } });
  await service.recorded((rows) => rows.length === 2 && rows.every(({ ended_at: at }) => at !== null));
  const { status, url, routes, completed, ignored, failed } = await healthOf(service);
  assert.deepEqual(
    { status, url, routes, completed, ignored, failed },
    { status: "ok", url: service.url, routes: 2, completed: 1, ignored: 1, failed: 0 },
  );
});

test("a receiver whose address is taken degrades the health, and nothing else", async () => {
  await using first = await startWebhookService();
  const { port } = new URL(first.url);

  const webhook = {
    enabled: true,
    host: "127.0.0.1",
    port: Number(port),
    secret: "s3cr3t",
    routes: { a: {} },
  };
  await using second = await startTestService({ config: { platforms: { webhook } } });
  const body = await (await second.request("/health/detailed")).json();
  assert.deepEqual([body.status, body.readiness.checks.webhooks.url], ["degraded", null]);
  assert.match(body.readiness.checks.webhooks.detail, /another program listens there\..*keeps trying/);
});

test("without a receiver the health report has no word of it", async () => {
  await using service = await startTestService();
  const body = await (await service.request("/health/detailed")).json();
  assert.ok(!("webhooks" in body.readiness.checks));
});
