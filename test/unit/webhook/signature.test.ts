import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { verifySignature, type SignatureRules } from "../../../src/webhook/receive/signature.ts";

const SECRET = "s3cr3t";
const BODY = '{"action":"opened","number":42}';
const TIME = 1_700_000_000;
const HUB = "sha256=4ff93b2e8f2a66c160b4194e7fc538dff8d69545ef922e5d2961cc30909e8b6a";
const V2 = "9c23c5fd8c06b4ba7f8d0eb86270646fd52cd0f611eebacaa023f3b776cc897d";
const STANDARD = "v1,2dFQZbG5gthxQfLFcgLZpcFPA13l1GE/YB259vQWkZ4=";
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const bytes = (text: string) => new TextEncoder().encode(text);

function verify(headers: Record<string, string>, rules: Partial<SignatureRules> = {}, body = BODY) {
  return verifySignature(
    { headers: new Headers(headers), body: bytes(body) },
    { secrets: [SECRET], toleranceSeconds: 300, takesBearer: false, nowMs: TIME * 1000, ...rules },
  );
}

const status = (...args: Parameters<typeof verify>) => verify(...args).status;

test("a request without a signature header is invalid", () => {
  assert.deepEqual(verify({}), { status: "invalid", scheme: undefined, reason: "missing" });
});

test("X-Hub-Signature-256 passes only as `sha256=` with the right lowercase digest", () => {
  assert.equal(status({ "X-Hub-Signature-256": HUB }), "valid");
  assert.equal(status({ "X-Hub-Signature-256": HUB.replace("4", "5") }), "invalid");
  assert.equal(status({ "X-Hub-Signature-256": HUB.slice(7) }), "invalid");
  assert.equal(status({ "X-Hub-Signature-256": `sha256=${HUB.slice(7).toUpperCase()}` }), "invalid");
  const published = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
  const rules = { secrets: ["It's a Secret to Everybody"] };
  assert.equal(status({ "X-Hub-Signature-256": published }, rules, "Hello, World!"), "valid");
});

test("X-Gitlab-Token must equal the secret byte for byte", () => {
  assert.equal(status({ "X-Gitlab-Token": SECRET }), "valid");
  assert.equal(status({ "X-Gitlab-Token": "other" }), "invalid");
  const secret = "schlüssel";
  const sent = String.fromCharCode(...bytes(secret));
  assert.equal(status({ "X-Gitlab-Token": sent }, { secrets: [secret] }), "valid");
  assert.equal(status({ "X-HostB-Token": SECRET }), "valid");
});

test("a V2 signature passes within 300 s of its timestamp and fails beyond, when shifted or not an integer", () => {
  const headers = { "X-Webhook-Signature-V2": V2, "X-Webhook-Timestamp": String(TIME) };
  assert.equal(verify(headers).status, "valid");
  assert.equal(status({ ...headers, "X-Webhook-Timestamp": String(TIME + 1) }), "invalid");
  for (const apart of [301, -301]) {
    assert.equal(status(headers, { nowMs: (TIME + apart) * 1000 }), "invalid");
  }
  for (const apart of [299, -300, 300])
    assert.equal(status(headers, { nowMs: (TIME + apart) * 1000 }), "valid");
  assert.equal(status({ ...headers, "X-Webhook-Timestamp": `${TIME}.0` }), "invalid");
});

test("a V2 signature without a timestamp is invalid even with a valid V1 signature or bearer token", () => {
  const v1 = HUB.slice(7);
  assert.equal(status({ "X-Webhook-Signature": v1 }), "valid");
  assert.equal(status({ "X-Webhook-Signature-V2": V2, "X-Webhook-Signature": v1 }), "invalid");
  const authorization = `Bearer ${SECRET}`;
  assert.equal(status({ "X-Webhook-Signature-V2": V2, authorization }, { takesBearer: true }), "invalid");
});

test("a Standard Webhooks signature passes for a raw or whsec_ key and fails for a changed body, a wrong key or a stale time", () => {
  const headers = { "webhook-id": ID, "webhook-timestamp": String(TIME), "webhook-signature": STANDARD };
  assert.equal(status(headers), "valid");
  const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
  const signature = "v1,3jY2S9QioYxk1OC8yMju4p2ldlfBbZJ80u4Nrgm9C+c=";
  assert.equal(status({ ...headers, "webhook-signature": signature }, { secrets: [secret] }), "valid");
  assert.equal(status(headers, {}, `${BODY} `), "invalid");
  assert.equal(status(headers, { secrets: ["other"] }), "invalid");
  assert.equal(status(headers, { nowMs: (TIME + 301) * 1000 }), "invalid");
});

test("one matching v1 signature in a list is enough, and a v2 signature is invalid", () => {
  const headers = { "webhook-id": ID, "webhook-timestamp": String(TIME) };
  assert.equal(status({ ...headers, "webhook-signature": `v1,AAAA ${STANDARD}` }), "valid");
  assert.equal(status({ ...headers, "webhook-signature": STANDARD.replace("v1", "v2") }), "invalid");
});

test("webhook-id and webhook-timestamp without webhook-signature do not invalidate a good token", () => {
  const headers = { "webhook-id": ID, "webhook-timestamp": String(TIME), "X-Gitlab-Token": SECRET };
  assert.equal(status(headers), "valid");
});

test("an svix-id without its signature is invalid even beside a valid signature", () => {
  assert.equal(status({ "svix-id": ID, "X-Hub-Signature-256": HUB }), "invalid");
});

test("linear-signature passes only as the plain digest", () => {
  assert.equal(status({ "Linear-Signature": HUB.slice(7) }), "valid");
  assert.equal(status({ "Linear-Signature": HUB }), "invalid");
});

test("a wrong signature header is invalid despite a valid bearer token, and bearer alone passes only where enabled", () => {
  const authorization = `Bearer ${SECRET}`;
  const wrong = [
    "svix-id",
    "svix-timestamp",
    "svix-signature",
    "webhook-signature",
    "linear-signature",
    "x-hub-signature-256",
    "x-gitlab-token",
    "x-webhook-signature-v2",
    "x-webhook-signature",
  ];
  for (const name of wrong) {
    assert.equal(status({ [name]: "wrong", authorization }, { takesBearer: true }), "invalid", name);
  }
  assert.equal(status({ authorization }, { takesBearer: true }), "valid");
  assert.equal(status({ authorization }), "invalid");
});

test("non-ASCII bytes in any signature or bearer header make the request invalid", () => {
  const headers = ["svix-signature", "webhook-signature", "linear-signature", "x-hub-signature-256"];
  for (const name of [...headers, "x-gitlab-token", "x-webhook-signature-v2", "x-webhook-signature"]) {
    assert.equal(status({ [name]: "\u00ff\u0080\u00e9" }), "invalid", name);
  }
  assert.equal(status({ authorization: "Bearer \u00ff" }, { takesBearer: true }), "invalid");
});

test("a signature by the second of two secrets passes", () => {
  assert.equal(status({ "X-Hub-Signature-256": HUB }, { secrets: ["new", SECRET] }), "valid");
});

test("the signature covers the raw bytes: changed whitespace fails, and escaped unicode passes", () => {
  assert.equal(status({ "X-Hub-Signature-256": HUB }, {}, BODY.replace(":", ": ")), "invalid");
  const body = '{"name":"\\u00e9"}';
  const mac = createHmac("sha256", SECRET).update(body).digest("hex");
  assert.equal(status({ "X-Hub-Signature-256": `sha256=${mac}` }, {}, body), "valid");
});

test("a signature that covers the time has a nonce, so that it counts once", () => {
  const headers = { "X-Webhook-Signature-V2": V2, "X-Webhook-Timestamp": String(TIME) };
  const first = verify(headers);
  assert.equal(first.status === "valid" && first.nonce, `v2:${TIME}:${V2}`);
  const hub = verify({ "X-Hub-Signature-256": HUB });
  assert.equal(hub.status === "valid" && hub.nonce, undefined);
});
