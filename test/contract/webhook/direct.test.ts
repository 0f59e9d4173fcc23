/** Messages without the agent: sent while the sender waits, to a receiver on this machine. */
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import type { Clock } from "../../../src/base/time.ts";
import { openReceiver, type Receiver } from "../../harness/receiver.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { startWebhookService, type WebhookService } from "../../harness/webhook.ts";

const KEY = "k".repeat(24);
const named = (id: string) => ({ headers: { "x-github-delivery": id } });

/** A service whose route `direct` sends to `target`. */
function startDirect(
  target: Pick<Receiver, "url" | "host">,
  {
    route = {},
    settings = {},
    ...options
  }: { readonly route?: object; readonly settings?: object; readonly clock?: Clock } = {},
): Promise<WebhookService> {
  const direct = {
    deliver: "webhook",
    deliver_only: true,
    deliver_extra: { url: target.url },
    prompt: "PR {number}: {title}",
    ...route,
  };
  return startWebhookService({
    ...options,
    routes: { direct } as never,
    settings: settings as Readonly<Record<string, unknown>>,
    config: { api_server: { webhook_secret: `whsec_${btoa(KEY)}`, webhook_allowed_hosts: [target.host] } },
  });
}

test("a `deliver_only` route sends the rendered text without an agent run and answers 200 `delivered`", async (t) => {
  const target = await openReceiver(t);
  await using service = await startDirect(target);
  const answer = await service.post("direct", { number: 7, title: "Mend it" }, named("d-1"));
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, {
    status: "delivered",
    route: "direct",
    target: "webhook",
    delivery_id: "d-1",
  });
  const [got] = target.received;
  assert.deepEqual(JSON.parse(got?.body ?? ""), { text: "PR 7: Mend it" });
  new Webhook(btoa(KEY)).verify(got?.body ?? "", got?.headers as Record<string, string>);
  const [row] = await service.deliveries();
  assert.equal(row?.status, "delivered");
  assert.equal(row?.rendered, "PR 7: Mend it");
  assert.ok(row?.ended_at !== null);
  assert.deepEqual(await service.test.service.store.read.selectFrom("runs").selectAll().execute(), []);
  assert.equal(
    (await service.test.service.store.find("outbox", { id: row?.outbox_id ?? "" }))?.status,
    "delivered",
  );
});

test("a failed direct delivery answers 502 without details, and its delivery id can be sent again", async (t) => {
  let status = 500;
  const target = await openReceiver(t, (response) => {
    if (status === 0) response.destroy();
    else response.writeHead(status, { "x-detail": "secret-detail" }).end("secret-detail");
  });
  await using service = await startDirect(target);
  for (status of [500, 404, 0]) {
    const failed = await service.post("direct", {}, named("d-1"));
    assert.equal(failed.status, 502);
    const { request_id: _, ...body } = failed.body;
    assert.deepEqual(body, {
      status: "error",
      error: "Delivery failed",
      code: "delivery_failed",
      delivery_id: "d-1",
    });
  }
  status = 204;
  assert.equal((await service.post("direct", {}, named("d-1"))).body.status, "delivered");
  assert.equal((await service.post("direct", {}, named("d-1"))).body.status, "duplicate");
  const rows = await service.recorded((all) => all.length === 5);
  assert.deepEqual(
    rows.map((row) => row.status),
    ["failed", "failed", "failed", "delivered", "duplicate"],
  );
  assert.match(rows[0]?.reason ?? "", /answered 500/);
  assert.equal(service.logged("a message could not be delivered").length, 3);
  // Given up with each 502: the outbox does not try it behind the sender's back. It is one message all the time.
  const outbox = await service.test.service.store.read
    .selectFrom("outbox")
    .select("status")
    .orderBy("id")
    .execute();
  assert.deepEqual(
    outbox.map((each) => each.status),
    ["delivered"],
  );
  assert.equal(target.received.length, 4);
  assert.equal(new Set(target.received.map(({ headers }) => headers["webhook-id"])).size, 1);
});

test("a direct delivery to a target that does not answer returns 202 without the target's answer", async (t) => {
  const held: ServerResponse[] = [];
  const target = await openReceiver(t, (response) => void held.push(response));
  const clock = new WatchedClock(Date.now());
  await using service = await startDirect(target, { clock });
  const answer = service.post("direct", {}, named("slow"));
  await Promise.all([clock.wait(8_000), target.count(1)]);
  clock.tick(8_000);
  // It may have arrived: the sender must not send it again.
  assert.equal((await answer).status, 202);
  assert.equal(target.received.length, 1);
  assert.equal(held.length, 1);
});

test("concurrent requests with one delivery id send one message", async (t) => {
  const held: ServerResponse[] = [];
  const target = await openReceiver(t, (response) => void held.push(response));
  await using service = await startDirect(target);
  const first = service.post("direct", {}, named("same"));
  await target.count(1);
  const others = await Promise.all([1, 2, 3].map(() => service.post("direct", {}, named("same"))));
  assert.deepEqual(
    others.map(({ body }) => body.status),
    ["duplicate", "duplicate", "duplicate"],
  );
  held[0]?.writeHead(204).end();
  assert.equal((await first).body.status, "delivered");
  assert.equal(target.received.length, 1);
});

test("a `deliver_only` route still answers 401, 429 and `duplicate`", async (t) => {
  const target = await openReceiver(t);
  await using service = await startDirect(target, { settings: { rate_limit: 2 } });
  assert.equal((await service.post("direct", {}, { secret: "wrong" })).status, 401);
  assert.equal((await service.post("direct", {}, named("a"))).body.status, "delivered");
  assert.equal((await service.post("direct", {}, named("a"))).body.status, "duplicate");
  assert.equal((await service.post("direct", {}, named("b"))).status, 429);
  assert.equal(target.received.length, 1);
});

test("a message for an unknown target is given up with a log entry, and the receiver stays healthy", async (t) => {
  const target = await openReceiver(t);
  await using service = await startDirect(target);
  const { store } = service.test.service;
  // As one that another version of the service left, or a target that was taken out of the configuration.
  const message = {
    owner: "default",
    target: "carrier_pigeon:home",
    payload: { text: "coo", extra: {} },
    maxAttempts: 1,
  };
  const id = await store.write((tx) => store.outbox.enqueue(tx, message));
  while ((await store.find("outbox", { id }))?.status !== "dead") await new Promise((r) => setTimeout(r, 10));
  const [logged] = await service.loggedSoon("cannot deliver a message; no attempt is left");
  assert.match(JSON.stringify(logged), /carrier_pigeon/);
  assert.equal((await service.health()).status, 200);
});

test("a direct delivery without a target address answers 502, and the record names the missing setting", async (t) => {
  const target = await openReceiver(t);
  await using service = await startDirect(target, { route: { deliver_extra: {} } });
  assert.equal((await service.post("direct")).status, 502);
  const [row] = await service.deliveries();
  assert.match(row?.reason ?? "", /deliver_extra\.url/);
});

test("a message is not sent to a private address that is not allowed, whatever the payload names", async (t) => {
  const target = await openReceiver(t);
  await using service = await startDirect({ url: "{url}", host: "example.com" });
  assert.equal((await service.post("direct", { url: target.url })).status, 502);
  assert.equal(target.received.length, 0);
});

test("a direct delivery whose text is empty says so, and does not speak of an answer", async (t) => {
  const target = await openReceiver(t);
  await using service = await startDirect(target, { route: { prompt: " {text} " } });
  assert.equal((await service.post("direct", { text: "" })).body.status, "delivered");
  assert.deepEqual(JSON.parse(target.received[0]?.body ?? ""), { text: "(The message was empty.)" });
});

test("a target that asks a direct delivery to wait two seconds gets it again before the sender is answered", async (t) => {
  const target = await openReceiver(t, (response, _request, count) => {
    if (count === 1) response.writeHead(429, { "retry-after": "2" }).end();
    else response.writeHead(204).end();
  });
  const clock = new WatchedClock(Date.now());
  await using service = await startDirect(target, { clock });
  const answer = service.post("direct", {}, named("slow-down"));
  await Promise.all([clock.wait(2_000), target.count(1)]);
  clock.tick(2_000);
  assert.equal((await answer).body.status, "delivered");
  assert.equal(target.received.length, 2);
  assert.equal(new Set(target.received.map(({ headers }) => headers["webhook-id"])).size, 1);
  const [message] = await service.test.service.store.read.selectFrom("outbox").selectAll().execute();
  assert.equal(JSON.parse(message?.attempt_log ?? "[]").length, 2, "both attempts are on record");
});

test("a target that asks a direct delivery to wait longer than the sender can is answered 502 at once", async (t) => {
  const target = await openReceiver(
    t,
    (response) => void response.writeHead(429, { "retry-after": "30" }).end(),
  );
  await using service = await startDirect(target);
  assert.equal((await service.post("direct", {}, named("later"))).status, 502);
  assert.equal(target.received.length, 1);
});
