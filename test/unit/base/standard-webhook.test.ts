import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { Webhook } from "standardwebhooks";
import { isWebhookSecret, signWebhook, verifyWebhook } from "../../../src/base/net/standard-webhook.ts";

const content = {
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  timestamp: "1700000000",
  body: '{"action":"opened","number":42}',
};
const nowMs = 1_700_000_000_000;
const prefixed = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const plainSignature = "v1,2dFQZbG5gthxQfLFcgLZpcFPA13l1GE/YB259vQWkZ4=";
const prefixedSignature = "v1,3jY2S9QioYxk1OC8yMju4p2ldlfBbZJ80u4Nrgm9C+c=";

test("the key is the text itself, or what is behind whsec_ in base64", async () => {
  assert.equal(await signWebhook(content, "s3cr3t"), plainSignature);
  assert.equal(await signWebhook(content, prefixed), prefixedSignature);
  const bytes = new TextEncoder().encode(content.body);
  assert.equal(await signWebhook({ ...content, body: bytes }, "s3cr3t"), plainSignature);
});

test("what we sign, the standardwebhooks package and the openai package verify", async () => {
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

test("what the standardwebhooks package signs, we verify", async () => {
  const signatures = new Webhook(prefixed).sign(content.id, new Date(nowMs), content.body);
  assert.equal(await verifyWebhook({ ...content, signatures }, [prefixed], { nowMs }), "valid");
});

test("one of several signatures and one of several secrets is enough, as while a secret is changed", async () => {
  const verify = (signatures: string, secrets: string[]) =>
    verifyWebhook({ ...content, signatures }, secrets, { nowMs });
  assert.equal(await verify(`v1,AAAA ${plainSignature}`, ["s3cr3t"]), "valid");
  assert.equal(await verify(`v1a,AAAA ${prefixedSignature} v2,x`, ["s3cr3t", prefixed]), "valid");
  assert.equal(await verify(plainSignature, [prefixed, "s3cr3t"]), "valid");
  assert.equal(await verify(plainSignature, [prefixed]), "invalid");
  assert.equal(await verify(plainSignature, []), "invalid");
});

test("anything else about the message makes the signature invalid", async () => {
  const given = { ...content, signatures: plainSignature };
  const changes: Partial<typeof given>[] = [
    { id: "msg_other" },
    { id: "" },
    { timestamp: "1700000001" },
    { timestamp: "" },
    { timestamp: "1700000000.0" },
    { timestamp: "99999999999999999999" },
    { body: `${content.body} ` },
    { signatures: "" },
    { signatures: plainSignature.slice(3) },
    { signatures: plainSignature.replace("v1", "v2") },
    { signatures: "v1,Grüße" },
    { signatures: "v1,2dFQ" },
    { signatures: `v1, ${plainSignature.slice(3)}` },
  ];
  assert.equal(await verifyWebhook(given, ["s3cr3t"], { nowMs }), "valid");
  for (const change of changes) {
    const verdict = await verifyWebhook({ ...given, ...change }, ["s3cr3t"], { nowMs });
    assert.equal(verdict, "invalid", JSON.stringify(change));
  }
});

test("a header of many signatures costs no more than a few", async () => {
  const signatures = `${"v1,AAAA ".repeat(10_000)}${plainSignature}`;
  assert.equal(await verifyWebhook({ ...content, signatures }, ["s3cr3t"], { nowMs }), "invalid");
});

test("a timestamp up to 300 s before or after now passes", async () => {
  const at = (ms: number, toleranceMs?: number) =>
    verifyWebhook({ ...content, signatures: plainSignature }, ["s3cr3t"], {
      nowMs: nowMs + ms,
      ...(toleranceMs === undefined ? {} : { toleranceMs }),
    });
  assert.deepEqual([await at(300_000), await at(300_999), await at(-300_000)], ["valid", "valid", "valid"]);
  assert.deepEqual([await at(301_000), await at(-300_001)], ["stale", "stale"]);
  assert.deepEqual([await at(5_000, 5_000), await at(6_000, 5_000)], ["valid", "stale"]);
});

test("an empty secret, and no base64 behind whsec_, is no secret", async () => {
  for (const secret of ["", "whsec_", "whsec_not base64", "whsec_A", "whsec_*"]) {
    assert.equal(isWebhookSecret(secret), false, secret);
    await assert.rejects(signWebhook(content, secret), TypeError);
    const verdict = await verifyWebhook({ ...content, signatures: plainSignature }, [secret], { nowMs });
    assert.equal(verdict, "invalid");
  }
  assert.equal(isWebhookSecret(prefixed), true);
  assert.equal(isWebhookSecret("whsec_MDEyMzQ1Njc4OWFiY2RlZg"), true, "without its padding");
});
