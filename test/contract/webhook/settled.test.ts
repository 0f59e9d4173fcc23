/** Direct messages that the outbox sends because the receiving process could not. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { openReceiver, type Receiver } from "../../harness/receiver.ts";
import {
  bytesOf,
  SECRET,
  serveChangedDeps,
  startWebhookService,
  type WebhookService,
} from "../../harness/webhook.ts";

/** Signed with its time, so that the signature is a name of the delivery, too. */
function timed(body: unknown, id: string): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(Date.now() / 1000));
  const mac = createHmac("sha256", SECRET).update(`${timestamp}.`).update(bytesOf(body)).digest("hex");
  return { "x-webhook-signature-v2": mac, "x-webhook-timestamp": timestamp, "x-request-id": id };
}

/** A service that delivers to `target`, and a receiver of it whose own attempts are all cut. */
async function startCut(target: Receiver, deliver = "webhook") {
  const service = await startWebhookService({
    config: {
      api_server: {
        webhook_secret: `whsec_${btoa("k".repeat(24))}`,
        webhook_allowed_hosts: [target.host],
      },
    },
  });
  const cut = await serveChangedDeps(service, (deps) => ({
    send: async () => ({ status: "stopped" }),
    routes: {
      names: ["direct"],
      refresh: async () => {},
      find: async () => {
        const route = await deps.routes.find("hook");
        const direct = { deliver, deliverOnly: true, deliverExtra: { url: target.url } };
        return route && { ...route, ...direct, name: "direct" };
      },
    } as unknown as typeof deps.routes,
  }));
  return { service, cut };
}

/** Wakes the outbox now instead of at its next poll. */
async function wakeOutbox({ test: { service } }: WebhookService): Promise<void> {
  const { store } = service;
  await store.write((tx) =>
    store.outbox.enqueue(tx, { owner: "default", target: "log", payload: { text: "wake", extra: {} } }),
  );
}

/** Lets the next attempt at the message to `target` be its last, and waits for its end. */
async function giveUp(service: WebhookService, target: string): Promise<void> {
  const { store } = service.test.service;
  await store.write((tx) => {
    const last = { max_attempts: 1, available_at: tx.nowMs };
    return tx.update("outbox", { target, status: "due" }, last);
  });
  await wakeOutbox(service);
}

test("a direct delivery that the outbox gives up releases its id, so that the sender may try again", async (t) => {
  const target = await openReceiver(t, (response) => void response.writeHead(404).end());
  const { service, cut } = await startCut(target);
  await using _ = service;
  await using __ = cut;
  const headers = timed({}, "d-1");
  assert.equal((await cut.post("direct", {}, { secret: null, headers })).status, 503);
  await wakeOutbox(service);
  const [failed] = await service.recorded(([row]) => row?.ended_at !== null);
  assert.equal(failed?.status, "failed");
  assert.match(failed?.reason ?? "", /404/);
  const again = await cut.post("direct", {}, { secret: null, headers });
  assert.equal(again.status, 503, "taken like a new one");
  await wakeOutbox(service);
  await target.count(2);
});

test("a direct delivery that the outbox completes keeps its id, so that a retry is a duplicate", async (t) => {
  const target = await openReceiver(t);
  const { service, cut } = await startCut(target);
  await using _ = service;
  await using __ = cut;
  const headers = timed({}, "d-1");
  assert.equal((await cut.post("direct", {}, { secret: null, headers })).status, 503);
  await wakeOutbox(service);
  const [delivered] = await service.recorded(([row]) => row?.ended_at !== null);
  assert.equal(delivered?.status, "delivered");
  const again = await cut.post("direct", {}, { secret: null, headers });
  assert.deepEqual([again.body.status, again.body.delivery_id], ["duplicate", "d-1"]);
  assert.equal(target.received.length, 1);
});

test("the last of several messages closes the delivery, as delivered when one target has it", async (t) => {
  const target = await openReceiver(t);
  const { service, cut } = await startCut(target, "webhook,carrier_pigeon:home");
  await using _ = service;
  await using __ = cut;
  const { store } = service.test.service;
  const headers = timed({}, "d-1");
  assert.equal((await cut.post("direct", {}, { secret: null, headers })).status, 503);
  await wakeOutbox(service);
  await target.count(1);
  const [open] = await service.recorded(([row]) => row?.status === "accepted");
  assert.equal(open?.ended_at, null, "the message to the pigeon is still pending");
  await giveUp(service, "carrier_pigeon:home");
  const [closed] = await service.recorded(([row]) => row?.ended_at !== null);
  assert.deepEqual([closed?.status, closed?.reason], ["delivered", null]);
  assert.ok(await store.find("ledger", { scope: "webhook:direct", key: "d-1" }), "its name stays taken");
});

test("a delivery whose messages are all given up releases its id, and records the reasons", async (t) => {
  const target = await openReceiver(t, (response) => void response.writeHead(404).end());
  const { service, cut } = await startCut(target, "webhook,carrier_pigeon:home");
  await using _ = service;
  await using __ = cut;
  const headers = timed({}, "d-1");
  assert.equal((await cut.post("direct", {}, { secret: null, headers })).status, 503);
  await wakeOutbox(service);
  await target.count(1);
  await giveUp(service, "carrier_pigeon:home");
  const [failed] = await service.recorded(([row]) => row?.ended_at !== null);
  assert.equal(failed?.status, "failed");
  assert.match(failed?.reason ?? "", /webhook: .*404.* carrier_pigeon:home: .*no delivery target/);
  assert.equal((await cut.post("direct", {}, { secret: null, headers })).status, 503, "taken like a new one");
});
