/** Messages without the agent that the outbox sends, since whoever took the request could not. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { openReceiver, type Receiver } from "../../harness/receiver.ts";
import {
  bytesOf,
  SECRET,
  serveChangedRoom,
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
async function startCut(target: Receiver) {
  const service = await startWebhookService({
    config: {
      api_server: {
        webhook_secret: `whsec_${btoa("k".repeat(24))}`,
        webhook_allowed_hosts: [target.host],
      },
    },
  });
  const cut = await serveChangedRoom(service, (room) => ({
    send: async () => ({ status: "stopped" }),
    routes: {
      names: ["direct"],
      refresh: async () => {},
      find: async () => {
        const route = await room.routes.find("hook");
        const direct = { deliver: "webhook", deliverOnly: true, deliverExtra: { url: target.url } };
        return route && { ...route, ...direct, name: "direct" };
      },
    } as unknown as typeof room.routes,
  }));
  return { service, cut };
}

/** What is owed anew has the outbox looked at now, not with its next poll. */
async function wakeOutbox({ test: { service } }: WebhookService): Promise<void> {
  const { store } = service;
  await store.write((tx) => store.outbox.owe(tx, { target: "log", payload: { text: "wake", extra: {} } }));
}

test("a message that the outbox gives up frees its names: the sender may try again", async (t) => {
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

test("a message that the outbox delivers keeps its names: the sender's next attempt is known", async (t) => {
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
