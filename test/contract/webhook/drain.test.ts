/** The end of the service, and a start that finds its port taken. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { openReceiver } from "../../harness/receiver.ts";
import { startTestService } from "../../harness/service.ts";
import { startWebhookService } from "../../harness/webhook.ts";

const named = (id: string) => ({ headers: { "x-github-delivery": id } });

test("a receiver that drains answers 503 with Retry-After, lets runs end, and the id stays free", async () => {
  const begun = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  await using service = await startWebhookService({
    routes: { hook: { max_concurrent: 1 } } as never,
    script: async () => {
      begun.resolve();
      await held.promise;
      return { text: "done" };
    },
  });
  await service.post("hook", {}, named("at-work"));
  await service.post("hook", {}, named("waits"));
  await begun.promise;
  const stopping = service.test.service.stop({ graceMs: 10_000 });
  const refused = await service.post("hook", {}, named("late"));
  assert.equal(refused.status, 503);
  assert.equal(refused.body.code, "draining");
  assert.ok(Number(refused.headers.get("retry-after")) > 0);
  held.resolve();
  await stopping;
  await assert.rejects(fetch(`${service.url}/health`));

  await using second = await service.restart({ script: () => ({ text: "after" }) });
  assert.equal((await second.post("hook", {}, named("late"))).status, 202);
  const rows = await second.recorded((all) => all.length === 3 && all.every((row) => row.ended_at !== null));
  assert.deepEqual(
    rows.map((row) => [row.delivery_id, row.status]),
    [
      ["at-work", "completed"],
      ["waits", "completed"],
      ["late", "completed"],
    ],
  );
});

test("a direct message that a shutdown cuts answers 503, is sent after the restart, and keeps its id", async (t) => {
  const open: ServerResponse[] = [];
  const target = await openReceiver(t, (response, _request, count) => {
    if (count === 1) open.push(response);
    else response.writeHead(204).end();
  });
  const options = {
    routes: {
      direct: { deliver: "webhook", deliver_only: true, deliver_extra: { url: target.url } },
    } as never,
    config: { api_server: { webhook_secret: "w".repeat(20), webhook_allowed_hosts: [target.host] } },
  };
  await using service = await startWebhookService(options);
  const sending = service.post("direct", {}, named("cut"));
  await target.count(1);
  await service.test.service.stop({ graceMs: 0 });
  const cut = await sending;
  assert.equal(cut.status, 503);
  assert.ok(Number(cut.headers.get("retry-after")) > 0);

  await using second = await service.restart(options);
  assert.equal((await second.post("direct", {}, named("cut"))).body.status, "duplicate");
  const [, again] = await target.count(2);
  assert.equal(again?.headers["webhook-id"], target.received[0]?.headers["webhook-id"]);
  const rows = await second.recorded((all) => all[0]?.status === "delivered");
  assert.ok(rows[0]?.ended_at !== null);
});

test("a busy webhook port is logged with the setting to change, and the rest of the service runs", async (t) => {
  const other = createServer();
  other.listen(0, "127.0.0.1");
  await once(other, "listening");
  t.after(() => new Promise((resolve) => other.close(resolve)));
  const { port } = other.address() as AddressInfo;
  const webhook = { enabled: true, host: "127.0.0.1", port, secret: "s", routes: { hook: {} } };
  await using service = await startTestService({ config: { platforms: { webhook } } });
  assert.equal(service.service.webhookUrl, undefined);
  assert.equal((await service.request("/health")).status, 200);
  const told = service.logLines.find((line) => line.includes("webhooks are not received")) ?? "";
  assert.match(told, new RegExp(`127\\.0\\.0\\.1:${port}: another program listens there`));
  assert.match(told, /WEBHOOK_PORT/);
});

test("a busy webhook port is retried until it is free, and the health report shows the problem until then", async (t) => {
  const other = createServer();
  other.listen(0, "127.0.0.1");
  await once(other, "listening");
  const free = () => new Promise((resolve) => other.close(resolve));
  t.after(free);
  const { port } = other.address() as AddressInfo;
  const webhook = { enabled: true, host: "127.0.0.1", port, secret: "s", routes: { hook: {} } };
  await using service = await startTestService({ config: { platforms: { webhook } } });
  const check = async () => {
    const response = await service.request("/health/detailed");
    const { readiness } = (await response.json()) as {
      readiness: { checks: { webhooks: { status: string; url: string | null; detail?: string } } };
    };
    return readiness.checks.webhooks;
  };
  const { status, url, detail = "" } = await check();
  assert.deepEqual([status, url], ["degraded", null]);
  assert.match(detail, new RegExp(`127\\.0\\.0\\.1:${port}: another program listens there.*keeps trying`));
  await free();
  const isReceived = () => service.logLines.some((line) => line.includes('"webhooks are received"'));
  while (!isReceived()) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal((await fetch(`http://127.0.0.1:${port}/health`)).status, 200);
  const after = await check();
  assert.deepEqual([after.status, after.url], ["ok", `http://127.0.0.1:${port}`]);
});

test("a service that stops while its webhook port is busy does not take the port later", async (t) => {
  const other = createServer();
  other.listen(0, "127.0.0.1");
  await once(other, "listening");
  const free = () => new Promise((resolve) => other.close(resolve));
  t.after(free);
  const { port } = other.address() as AddressInfo;
  const clock = new FakeClock(Date.now());
  const webhook = { enabled: true, host: "127.0.0.1", port, secret: "s", routes: { hook: {} } };
  await using service = await startTestService({ config: { platforms: { webhook } }, clock });
  await service.service.stop({ graceMs: 0 });
  await free();
  clock.tick(3_600_000);
  await assert.rejects(fetch(`http://127.0.0.1:${port}/health`));
});

test("a route with an unknown target keeps the service from starting", async () => {
  const webhook = {
    enabled: true,
    host: "127.0.0.1",
    port: 0,
    secret: "s",
    routes: { hook: { deliver: "pigeon" } },
  };
  await assert.rejects(startTestService({ config: { platforms: { webhook } } }), /hook.*pigeon/s);
});
