import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { Webhook } from "standardwebhooks";
import { isWebhookSecret, signWebhook } from "../../../src/base/net/standard-webhook.ts";

const content = {
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  timestamp: "1700000000",
  body: '{"action":"opened","number":42}',
};
const prefixed = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const plainSignature = "v1,2dFQZbG5gthxQfLFcgLZpcFPA13l1GE/YB259vQWkZ4=";
const prefixedSignature = "v1,3jY2S9QioYxk1OC8yMju4p2ldlfBbZJ80u4Nrgm9C+c=";

test("the key is the text itself, or the base64 after whsec_", async () => {
  assert.equal(await signWebhook(content, "s3cr3t"), plainSignature);
  assert.equal(await signWebhook(content, prefixed), prefixedSignature);
  const bytes = new TextEncoder().encode(content.body);
  assert.equal(await signWebhook({ ...content, body: bytes }, "s3cr3t"), plainSignature);
});

test("the standardwebhooks and openai packages verify our signatures", async () => {
  const timestamp = String(Math.floor(Date.now() / 1000));
  const body = JSON.stringify({ type: "run.completed", data: { output: "grüße 👋" } });
  for (const secret of [prefixed, "a plain text of 24 chars"]) {
    const signature = await signWebhook({ id: "evt_1", timestamp, body }, secret);
    const headers = {
      "webhook-id": "evt_1",
      "webhook-timestamp": timestamp,
      "webhook-signature": signature,
    };
    const official = secret === prefixed ? new Webhook(secret) : new Webhook(secret, { format: "raw" });
    assert.deepEqual(official.verify(body, headers), JSON.parse(body));
    const client = new OpenAI({ apiKey: "unused", webhookSecret: secret });
    assert.deepEqual(await client.webhooks.unwrap(body, headers), JSON.parse(body));
  }
});

test("an empty secret, or whsec_ without base64, is not a secret", async () => {
  for (const secret of ["", "whsec_", "whsec_not base64", "whsec_A", "whsec_*"]) {
    assert.equal(isWebhookSecret(secret), false, secret);
    await assert.rejects(signWebhook(content, secret), TypeError);
  }
  assert.equal(isWebhookSecret(prefixed), true);
  assert.equal(isWebhookSecret("whsec_MDEyMzQ1Njc4OWFiY2RlZg"), true, "without its padding");
});
