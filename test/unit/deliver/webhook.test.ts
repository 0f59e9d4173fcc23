import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import OpenAI from "openai";
import { Webhook } from "standardwebhooks";
import { systemClock } from "../../../src/base/time.ts";
import { offTracer } from "../../../src/base/observe.ts";
import { createWebhookTarget, type WebhookTargetOptions } from "../../../src/deliver/targets/webhook.ts";
import { openReceiver } from "../../harness/receiver.ts";

const secret = `whsec_${btoa("0123456789abcdef0123456789abcdef")}`;
const event = { id: "evt_1", object: "event", type: "run.completed", data: { output: "grüße 👋" } };
const body = JSON.stringify(event);

function send(payload: unknown, options: Partial<WebhookTargetOptions> & { signal?: AbortSignal } = {}) {
  const { signal = new AbortController().signal, ...more } = options;
  const target = createWebhookTarget({
    clock: systemClock,
    version: "1.2.3",
    allowedPrivateHosts: ["127.0.0.1"],
    ...more,
  });
  const delivery = {
    id: "out_1",
    address: "example",
    payload,
    ref: "run_1",
    attempt: 1,
    partsSent: 0,
    createdAtMs: 0,
  };
  const { traceparent: parent } = Object(payload) as { traceparent?: string };
  return target.send(delivery, {
    signal,
    span: offTracer.start("send", { parent }),
    progress: async () => {},
  });
}

test("an event is posted as JSON, signed as Standard Webhooks says", async (t) => {
  const receiver = await openReceiver(t);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const outcome = await send({ url: `${receiver.url}?a=b`, id: "evt_1", secret, body, traceparent });
  assert.deepEqual(outcome, { status: "delivered" });
  const [request] = await receiver.count(1);
  assert.deepEqual([request?.method, request?.path, request?.body], ["POST", "/hook?a=b", body]);
  const headers = request!.headers as Record<string, string>;
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["user-agent"], "agentd/1.2.3");
  assert.equal(headers["webhook-id"], "evt_1");
  assert.equal(headers["traceparent"], traceparent);
  assert.deepEqual(new Webhook(secret).verify(request!.body, headers), event);
  const client = new OpenAI({ apiKey: "unused", webhookSecret: secret });
  assert.deepEqual(await client.webhooks.unwrap(request!.body, headers), event);
});

test("without an id of its own the message's is sent; without a secret the configured one signs", async (t) => {
  const receiver = await openReceiver(t);
  await send({ url: receiver.url, body }, { secret: "configured-secret" });
  const headers = receiver.received[0]!.headers as Record<string, string>;
  assert.equal(headers["webhook-id"], "out_1");
  const official = new Webhook("configured-secret", { format: "raw" });
  assert.deepEqual(official.verify(body, headers), event);
  assert.equal(headers["traceparent"], undefined);
});

test("2xx is delivered; 408, 425, 429 and 5xx are tried again; the rest is given up", async (t) => {
  let status = 0;
  const receiver = await openReceiver(t, (response) => void response.writeHead(status).end("why"));
  const table = {
    delivered: [200, 201, 202, 204, 299],
    retry: [408, 425, 429, 500, 502, 503, 504, 599],
    permanent: [300, 304, 400, 401, 403, 404, 405, 409, 410, 413, 418, 422],
  };
  for (const [expected, statuses] of Object.entries(table)) {
    for (status of statuses) {
      const outcome = await send({ url: receiver.url, secret, body });
      assert.equal(outcome.status, expected, `${status}`);
      if ("error" in outcome) assert.match(outcome.error, new RegExp(`\\b${status}\\b`));
    }
  }
});

test("Retry-After is honoured up to an hour", async (t) => {
  let retryAfter = "";
  const receiver = await openReceiver(
    t,
    (response) => void response.writeHead(503, { "retry-after": retryAfter }).end(),
  );
  const asked = async (text: string) => {
    retryAfter = text;
    const outcome = await send({ url: receiver.url, secret, body });
    return outcome.status === "retry" ? outcome.afterMs : assert.fail(outcome.status);
  };
  assert.equal(await asked("7"), 7_000);
  assert.equal(await asked("86400"), 3_600_000);
  assert.equal(await asked("some day"), undefined);
});

test("redirects are not followed, least of all to a private machine", async (t) => {
  const inside = await openReceiver(t);
  const receiver = await openReceiver(
    t,
    (response) => void response.writeHead(307, { location: inside.url }).end(),
  );
  const outcome = await send({ url: receiver.url, secret, body });
  assert.equal(outcome.status, "permanent");
  assert.deepEqual(inside.received, []);
});

test("a private machine, by address or by name, is refused for good, and nothing is sent to it", async (t) => {
  const receiver = await openReceiver(t);
  const { port } = new URL(receiver.url);
  const refused = [
    receiver.url,
    `http://localhost:${port}/`,
    `http://[::ffff:127.0.0.1]:${port}/`,
    `http://2130706433:${port}/`,
    `http://hooks.example:${port}/`,
    "http://169.254.169.254/latest/meta-data/",
    "https://10.1.2.3/",
    "http://metadata.google.internal/",
  ];
  const lookup = async () => ["203.0.113.1", "127.0.0.1"];
  for (const url of refused) {
    const outcome = await send({ url, secret, body }, { allowedPrivateHosts: [], lookup });
    assert.equal(outcome.status, "permanent", url);
    const error = "error" in outcome ? outcome.error : "";
    assert.match(error, /api_server\.webhook_allowed_hosts/);
    assert.doesNotMatch(error, /web\.allowed_private_hosts/);
  }
  assert.deepEqual(receiver.received, []);
});

test("a name that is allowed may be private", async (t) => {
  const receiver = await openReceiver(t);
  const { port } = new URL(receiver.url);
  const allowed = { allowedPrivateHosts: ["hooks.internal"], lookup: async () => ["127.0.0.1"] };
  const outcome = await send({ url: `http://hooks.internal:${port}/x`, secret, body }, allowed);
  assert.deepEqual(outcome, { status: "delivered" });
  assert.equal(receiver.received[0]?.headers.host, `hooks.internal:${port}`);
});

test("a receiver that cannot be reached or resolved is tried again", async (t) => {
  const receiver = await openReceiver(t, (response) => void response.destroy());
  assert.equal((await send({ url: receiver.url, secret, body })).status, "retry");
  const lookup = async () => {
    throw new Error("ENOTFOUND");
  };
  assert.equal((await send({ url: "https://hooks.example/", secret, body }, { lookup })).status, "retry");
});

test("a receiver that never answers, or never ends its answer, is given up on in time", async (t) => {
  const silent = await openReceiver(t, () => {});
  const endless = await openReceiver(t, (response) => void response.writeHead(200).write("..."));
  for (const { url } of [silent, endless]) {
    const outcome = await send({ url, secret, body }, { timeoutMs: 150 });
    assert.equal(outcome.status, "retry");
    assert.match("error" in outcome ? outcome.error : "", /within 0\.15 s/);
  }
});

test("of an answer without end only so much is read; its status counts", async (t) => {
  let written = 0;
  const receiver = await openReceiver(t, (response) => {
    response.writeHead(200);
    const chunk = Buffer.alloc(16_384);
    const pour = () => {
      while (!response.destroyed && response.write(chunk)) written += chunk.length;
    };
    response.on("drain", pour);
    pour();
  });
  assert.deepEqual(await send({ url: receiver.url, secret, body }), { status: "delivered" });
  assert.ok(written < 50_000_000, `${written} bytes were taken`);
});

test("an attempt stops with its signal", async (t) => {
  const stop = new AbortController();
  const receiver = await openReceiver(t, () => stop.abort(new Error("enough")));
  await assert.rejects(send({ url: receiver.url, secret, body }, { signal: stop.signal }), /enough/);
});

test("an unusable webhook is given up; no error contains the address or the secret", async (t) => {
  const receiver = await openReceiver(
    t,
    (response, request) => void response.writeHead(400).end(request.body),
  );
  const bad: unknown[] = [
    null,
    "text",
    {},
    { url: receiver.url },
    { url: "ftp://example.com/token-in-path", secret, body },
    { url: "http://user:token-in-path@127.0.0.1/", secret, body },
    { url: "not a url token-in-path", secret, body },
    { url: `${receiver.url}/token-in-path`, secret, body },
    { url: receiver.url, body },
    { url: receiver.url, secret: "whsec_***", body },
  ];
  for (const payload of bad) {
    const outcome = await send(payload);
    assert.equal(outcome.status, "permanent", JSON.stringify(payload));
    assert.doesNotMatch(JSON.stringify(outcome), /token-in-path|whsec_|MDEy/);
  }
  assert.equal(receiver.received.length, 1);
});
