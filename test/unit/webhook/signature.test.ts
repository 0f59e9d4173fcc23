import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { SENDERS } from "../../../src/webhook/receive/schemes.ts";
import { signHeaders, verifySignature, type SignatureRules } from "../../../src/webhook/receive/signature.ts";

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
    { secrets: [SECRET], toleranceSeconds: 300, auth: "signature", nowMs: TIME * 1000, ...rules },
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
  assert.equal(status({ "X-Webhook-Signature-V2": V2, authorization }, { auth: "bearer" }), "invalid");
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
    "x-hub-signature",
  ];
  for (const name of wrong) {
    assert.equal(status({ [name]: "wrong", authorization }, { auth: "bearer" }), "invalid", name);
  }
  assert.equal(status({ authorization }, { auth: "bearer" }), "valid");
  assert.equal(status({ authorization }), "invalid");
});

test("non-ASCII bytes in any signature or bearer header make the request invalid", () => {
  const headers = ["svix-signature", "webhook-signature", "linear-signature", "x-hub-signature-256"];
  for (const name of [
    ...headers,
    "x-gitlab-token",
    "x-webhook-signature-v2",
    "x-webhook-signature",
    "x-hub-signature",
  ]) {
    assert.equal(status({ [name]: "\u00ff\u0080\u00e9" }), "invalid", name);
  }
  assert.equal(status({ authorization: "Bearer \u00ff" }, { auth: "bearer" }), "invalid");
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

const schemes = [...SENDERS.values()].map((sender) =>
  sender.kind === "form" ? { ...sender, url: "https://hooks.example.com/webhooks/hook" } : sender,
);

test("a request that is signed for a scheme passes for any body and secret, and no longer with another body or secret", () => {
  const text = fc.string({ unit: "binary" });
  fc.assert(
    fc.property(
      fc.constantFrom(...schemes),
      text,
      fc.string({ minLength: 1 }),
      text,
      (scheme, body, secret, other) => {
        const headers = signHeaders({ secrets: [secret], scheme }, bytes(body), TIME * 1000);
        const by = (more: Partial<SignatureRules>, sent = body) =>
          status(headers, { scheme, secrets: [secret], ...more }, sent);
        const isToken = scheme.kind === "token";
        // A header carries neither outer spaces nor an empty secret, and a URL no byte beyond its fields.
        if (isToken && !/^[!-~]+$/.test(secret)) return;
        assert.equal(by({}), "valid");
        assert.equal(by({ secrets: [`${secret}x`] }), "invalid");
        assert.equal(by({ secrets: ["another", secret] }), "valid");
        if (scheme.kind === "mac" && other.toWellFormed() !== body.toWellFormed())
          assert.equal(by({}, other), "invalid");
        const isTimed = scheme.signed.includes("{timestamp}");
        assert.equal(by({ nowMs: (TIME + 301) * 1000 }), isTimed ? "invalid" : "valid");
      },
    ),
  );
});

test("no header that a stranger makes up passes for any scheme, and none throws", () => {
  const piece = fc.oneof(
    fc.constantFrom(
      "v1=",
      "v0=",
      "t=",
      "sha256=",
      ",",
      "=",
      " ",
      String(TIME),
      "00".repeat(32),
      "A".repeat(43) + "=",
    ),
    fc.stringMatching(/^[ -~\u0080-\u00ff]{0,20}$/),
  );
  const value = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(""));
  fc.assert(
    fc.property(fc.constantFrom(...schemes), value, value, (scheme, signature, timestamp) => {
      const headers = {
        [scheme.header]: signature,
        ...(scheme.timestampHeader === undefined ? {} : { [scheme.timestampHeader]: timestamp }),
      };
      assert.equal(status(headers, { scheme }), signature.trim() === SECRET ? "valid" : "invalid");
    }),
  );
});

test("the signatures that Slack, Twilio and Bitbucket publish as examples in their documentation pass", () => {
  const slack =
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V" +
    "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
    "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
  const twilio =
    "To=%2B18005551212&Digits=1234&CallSid=CA1234567890ABCDE&Caller=%2B14158675309&From=%2B14158675309";
  const examples: readonly {
    readonly scheme: SignatureRules["scheme"];
    readonly secret: string;
    readonly headers: Record<string, string>;
    readonly body: string;
  }[] = [
    {
      scheme: SENDERS.get("slack"),
      secret: "8f742231b10e8888abcd99yyyzzz85a5",
      headers: {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
      },
      body: slack,
    },
    {
      scheme: { ...SENDERS.get("twilio")!, url: "https://mycompany.com/myapp.php?foo=1&bar=2" },
      secret: "12345",
      headers: { "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=" },
      body: twilio,
    },
    {
      scheme: SENDERS.get("bitbucket"),
      secret: "It's a Secret to Everybody",
      headers: {
        "x-hub-signature": "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9",
      },
      body: "Hello World!",
    },
  ];
  for (const { scheme, secret, headers, body } of examples) {
    const rules = { scheme, secrets: [secret], nowMs: 1_531_420_618_000 };
    assert.equal(status(headers, rules, body), "valid", scheme?.name);
    assert.equal(status(headers, rules, `${body}x`), "invalid", scheme?.name);
  }
});
