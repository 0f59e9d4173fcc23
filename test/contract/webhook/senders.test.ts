/**
 * The services that people connect, over real HTTP: each request is signed here by the recipe of the service's public
 * documentation, with node:crypto alone.
 */
import assert from "node:assert/strict";
import { createHash, createHmac, randomUUID } from "node:crypto";
import { test } from "node:test";
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { startWebhookService, type WebhookService } from "../../harness/webhook.ts";

const KEY = "a-secret-of-one-sender";
const now = () => Math.floor(Date.now() / 1000);
const hex = (text: string, key = KEY) => createHmac("sha256", key).update(text).digest("hex");
const base64 = (text: string, key = KEY) => createHmac("sha256", key).update(text).digest("base64");
const sha1 = (text: string, encoding: "hex" | "base64", key = KEY) =>
  createHmac("sha1", key).update(text).digest(encoding);

type Headers = Readonly<Record<string, string>>;
type Route = Partial<WebhookRouteConfig>;

interface Sender {
  readonly route: Route;
  readonly body: string;
  /** The headers that a service sends with `body`, by its documentation. */
  sent(body: string, signer: { readonly key: string; readonly at: number }): Headers;
  readonly event: string;
  /** The id of the delivery; undefined when the service gives none. */
  readonly id?: string;
  readonly status?: 200 | 202;
  /** Whether the signature covers the time. */
  readonly isTimed?: boolean;
}

const TWILIO_URL = "https://hooks.example.com/webhooks/hook";
/** Twilio: the URL, then each field of the form with its value, sorted by name. */
const twilioText = (body: string) =>
  TWILIO_URL +
  [...new URLSearchParams(body)]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => name + value)
    .join("");

const senders: Readonly<Record<string, Sender>> = {
  "a Bitbucket Cloud push is accepted without configuration": {
    route: {},
    body: '{"push":{"changes":[]},"repository":{"full_name":"team/repo"}}',
    sent: (body, { key }) => ({
      "x-hub-signature": `sha256=${hex(body, key)}`,
      "x-event-key": "repo:push",
      "x-request-uuid": "3a0e4a2f-8a0b-4d1c-9f0e-0a4d5c3a0e4a",
      "x-attempt-number": "1",
    }),
    event: "repo:push",
    id: "3a0e4a2f-8a0b-4d1c-9f0e-0a4d5c3a0e4a",
  },
  "a Bitbucket Server push is accepted on a route with the preset": {
    route: { scheme: "bitbucket" },
    body: '{"eventKey":"repo:refs_changed"}',
    sent: (body, { key }) => ({
      "x-hub-signature": `sha256=${hex(body, key)}`,
      "x-event-key": "repo:refs_changed",
      "x-request-id": "f9195498-3d0c-4b3f-a34c-3e0c9a0cbeb4",
    }),
    event: "repo:refs_changed",
    id: "f9195498-3d0c-4b3f-a34c-3e0c9a0cbeb4",
  },
  "a Jira issue event is named by webhookEvent and known by Atlassian's identifier": {
    route: { scheme: "jira" },
    body: '{"timestamp":1700000000000,"webhookEvent":"jira:issue_updated","issue":{"key":"A-1"}}',
    sent: (body, { key }) => ({
      "x-hub-signature": `sha256=${hex(body, key)}`,
      "x-atlassian-webhook-identifier": "d1f2",
      "x-atlassian-webhook-retry": "2",
    }),
    event: "jira:issue_updated",
    id: "d1f2",
  },
  "a Stripe event signed as t=...,v1=... is accepted and known by its evt id": {
    route: { scheme: "stripe" },
    body: '{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","type":"invoice.paid"}',
    sent: (body, { key, at }) => ({
      "stripe-signature": `t=${at},v1=${hex(`${at}.${body}`, key)},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39`,
    }),
    event: "invoice.paid",
    id: "evt_1NG8Du2eZvKYlo2CUI79vXWy",
    isTimed: true,
  },
  "a Slack event is named by its inner type and known by its event_id": {
    route: { scheme: "slack" },
    body: '{"type":"event_callback","event_id":"Ev08MFMKH6","event":{"type":"app_mention","text":"hi"}}',
    sent: (body, { key, at }) => ({
      "x-slack-signature": `v0=${hex(`v0:${at}:${body}`, key)}`,
      "x-slack-request-timestamp": String(at),
    }),
    event: "app_mention",
    id: "Ev08MFMKH6",
    isTimed: true,
  },
  "a Slack slash command, a signed form, is accepted": {
    route: { scheme: "slack" },
    body: "command=%2Fdeploy&text=web&user_name=ann",
    sent: (body, { key, at }) => ({
      "content-type": "application/x-www-form-urlencoded",
      "x-slack-signature": `v0=${hex(`v0:${at}:${body}`, key)}`,
      "x-slack-request-timestamp": String(at),
    }),
    event: "/deploy",
    isTimed: true,
  },
  "a Shopify order signed in base64 is answered 200 and named by its topic": {
    route: { scheme: "shopify" },
    body: '{"id":820982911946154508,"email":"jon@example.com"}',
    sent: (body, { key }) => ({
      "x-shopify-hmac-sha256": base64(body, key),
      "x-shopify-topic": "orders/create",
      "x-shopify-webhook-id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
      "x-shopify-event-id": "98880550-7158-44d4-b7cd-2c97c8a091b5",
    }),
    event: "orders/create",
    id: "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
    status: 200,
  },
  "a Sentry issue is named by its resource and known by its Request-ID": {
    route: { scheme: "sentry" },
    body: '{"action":"created","data":{"issue":{"id":"1170820242"}}}',
    sent: (body, { key, at }) => ({
      "sentry-hook-signature": hex(body, key),
      "sentry-hook-resource": "issue",
      "sentry-hook-timestamp": String(at),
      "request-id": "a1b2c3d4",
    }),
    event: "issue",
    id: "a1b2c3d4",
  },
  "a Notion event signed with the verification token is accepted": {
    route: { scheme: "notion" },
    body: '{"id":"367cba44-b6f3-4c92-81e7-6a2e9659efd4","type":"page.content_updated"}',
    sent: (body, { key }) => ({ "x-notion-signature": `sha256=${hex(body, key)}` }),
    event: "page.content_updated",
    id: "367cba44-b6f3-4c92-81e7-6a2e9659efd4",
  },
  "a Zoom event signed as v0:time:body is answered 200": {
    route: { scheme: "zoom" },
    body: '{"event":"meeting.started","payload":{"object":{"id":"94"}},"event_ts":1700000000000}',
    sent: (body, { key, at }) => ({
      "x-zm-signature": `v0=${hex(`v0:${at}:${body}`, key)}`,
      "x-zm-request-timestamp": String(at),
    }),
    event: "meeting.started",
    status: 200,
    isTimed: true,
  },
  "a PagerDuty event with two signatures, while its secret is rotated, is accepted": {
    route: { scheme: "pagerduty" },
    body: '{"event":{"id":"01CEQRPBQTMHJ5U5CLAIY7WEYS","event_type":"incident.triggered"}}',
    sent: (body, { key }) => ({
      "x-pagerduty-signature": `v1=${hex(body, "the old secret")},v1=${hex(body, key)}`,
    }),
    event: "incident.triggered",
    id: "01CEQRPBQTMHJ5U5CLAIY7WEYS",
  },
  "a Twilio message, whose URL and sorted form fields are signed with SHA-1, is accepted": {
    route: { scheme: "twilio", signature: { url: TWILIO_URL } },
    body: "SmsStatus=received&Body=a+b%26c&From=%2B15550100&AccountSid=AC1",
    sent: (body, { key }) => ({
      "content-type": "application/x-www-form-urlencoded; charset=UTF-8",
      "x-twilio-signature": sha1(twilioText(body), "base64", key),
      "i-twilio-idempotency-token": "0ab1c2",
    }),
    event: "received",
    id: "0ab1c2",
  },
  "a Twilio event with a JSON body, whose digest is in the signed URL, is accepted": {
    route: { scheme: "twilio", signature: { url: `${TWILIO_URL}?a=1` } },
    body: '[{"specversion":"1.0","type":"com.twilio.messaging.message.sent"}]',
    sent: (body, { key }) => {
      const digest = createHash("sha256").update(body).digest("hex");
      return { "x-twilio-signature": sha1(`${TWILIO_URL}?a=1&bodySHA256=${digest}`, "base64", key) };
    },
    event: "unknown",
  },
  "a Meta page event is answered 200": {
    route: { scheme: "meta", verify_token: "mine" },
    body: '{"object":"page","entry":[{"id":"1","time":1700000000}]}',
    sent: (body, { key }) => ({ "x-hub-signature-256": `sha256=${hex(body, key)}` }),
    event: "page",
    status: 200,
  },
  "an old Gitea that sends X-Gitea-Signature alone is accepted": {
    route: { scheme: "gitea" },
    body: '{"ref":"refs/heads/develop"}',
    sent: (body, { key }) => ({
      "x-gitea-signature": hex(body, key),
      "x-gitea-event": "push",
      "x-gitea-delivery": "f6266f16-1bf3-46a5-9ea4-602e06ead473",
    }),
    event: "push",
    id: "f6266f16-1bf3-46a5-9ea4-602e06ead473",
  },
  "a Gogs push is accepted": {
    route: { scheme: "gogs" },
    body: '{"ref":"refs/heads/develop"}',
    sent: (body, { key }) => ({
      "x-gogs-signature": hex(body, key),
      "x-gogs-event": "push",
      "x-gogs-delivery": "f6266f16",
    }),
    event: "push",
    id: "f6266f16",
  },
  "a Grafana alert signed without a timestamp is accepted": {
    route: { scheme: "grafana" },
    body: '{"receiver":"hook","status":"firing","alerts":[]}',
    sent: (body, { key }) => ({ "x-grafana-alerting-signature": hex(body, key) }),
    event: "firing",
  },
  "a Grafana alert signed as time:body is accepted where the route names the timestamp header": {
    route: { scheme: "grafana", signature: { timestamp_header: "X-Grafana-Alerting-Signature-Timestamp" } },
    body: '{"receiver":"hook","status":"resolved","alerts":[]}',
    sent: (body, { key, at }) => ({
      "x-grafana-alerting-signature": hex(`${at}:${body}`, key),
      "x-grafana-alerting-signature-timestamp": String(at),
    }),
    event: "resolved",
    isTimed: true,
  },
  "a Linear event is answered 200 and known by Linear-Delivery, without configuration": {
    route: {},
    body: '{"action":"create","type":"Issue","data":{"id":"1"}}',
    sent: (body, { key }) => ({
      "linear-signature": hex(body, key),
      "linear-event": "Issue",
      "linear-delivery": "234d1a4e-b617-4388-90fe-adc3633d6b72",
    }),
    event: "Issue",
    id: "234d1a4e-b617-4388-90fe-adc3633d6b72",
    status: 200,
  },
  "a Linear event on a route with the preset is answered 200": {
    route: { scheme: "linear" },
    body: '{"action":"create","type":"Comment"}',
    sent: (body, { key }) => ({
      "linear-signature": hex(body, key),
      "linear-event": "Comment",
      "linear-delivery": "5",
    }),
    event: "Comment",
    id: "5",
    status: 200,
  },
  "a Telegram update with the secret token is accepted": {
    route: { scheme: "telegram" },
    body: '{"update_id":10000,"message":{"text":"hi"}}',
    sent: (_body, { key }) => ({ "x-telegram-bot-api-secret-token": key }),
    event: "unknown",
    id: "10000",
  },
  "a Vercel deployment, which is signed with SHA-1, is accepted": {
    route: { scheme: "vercel" },
    body: '{"id":"evt_9","type":"deployment.succeeded"}',
    sent: (body, { key }) => ({ "x-vercel-signature": sha1(body, "hex", key) }),
    event: "deployment.succeeded",
    id: "evt_9",
  },
  "a sender whose scheme is configured, SHA-512 in base64 over ms.body, is accepted": {
    route: {
      scheme: "custom",
      signature: {
        header: "X-Acme-Sign",
        prefix: "acme=",
        encoding: "base64",
        algorithm: "sha512",
        timestamp_header: "X-Acme-Time",
      },
    },
    body: '{"type":"acme.made"}',
    sent: (body, { key, at }) => {
      const ms = `${at}123`;
      const mac = createHmac("sha512", key).update(`${ms}.${body}`).digest("base64");
      return { "x-acme-sign": `acme=${mac}`, "x-acme-time": ms };
    },
    event: "acme.made",
    isTimed: true,
  },
};

for (const [title, sender] of Object.entries(senders)) {
  test(title, async () => {
    await using service = await startWebhookService({ routes: { hook: { secret: KEY, ...sender.route } } });
    const { body, event, id, status = 202 } = sender;
    const at = now();
    const headers = sender.sent(body, { key: KEY, at });
    const first = await post(service, body, headers);
    assert.deepEqual([first.status, first.body.status, first.body.event], [status, "accepted", event]);
    if (id !== undefined) assert.equal(first.body.delivery_id, id);
    if (id !== undefined || sender.isTimed) {
      assert.deepEqual(await outcome(service, body, headers), [200, "duplicate"], "the same request again");
    }
    const refused = [401, "invalid_signature"];
    const by = (key: string, time = at) => sender.sent(body, { key, at: time });
    assert.deepEqual(await outcome(service, body, by("another secret")), refused, "another secret");
    if (!("x-telegram-bot-api-secret-token" in headers))
      assert.deepEqual(await outcome(service, changed(body), headers), refused, "another body");
    if (sender.isTimed) {
      assert.deepEqual(await outcome(service, body, by(KEY, at - 400)), refused, "too old");
      assert.deepEqual(await outcome(service, body, by(KEY, at + 400)), refused, "in the future");
    }
    assert.deepEqual(await outcome(service, body, {}), refused, "unsigned");
    // Only in the log, so that strangers learn nothing: what was there, and that it is not accepted.
    const [, ...rest] = service.logged("a webhook was refused");
    assert.ok(rest.every(({ why }) => typeof why === "string"));
  });
}

/** Each request has an id of a proxy, which must not hide that it is the same delivery. */
function post(service: WebhookService, body: string, headers: Headers, route = "hook") {
  return service.post(route, body, { secret: null, headers: { "x-request-id": randomUUID(), ...headers } });
}

async function outcome(service: WebhookService, body: string, headers: Headers, route = "hook") {
  const answer = await post(service, body, headers, route);
  return [answer.status, answer.body.code ?? answer.body.status];
}

/** The same content type, other content. */
const changed = (body: string) => body.replace(/[a-z]/, (letter) => (letter === "z" ? "y" : "z"));

test("a route with a preset accepts no other signature, however good", async () => {
  const routes = Object.fromEntries(
    ["stripe", "slack", "sentry", "bitbucket", "meta"].map((scheme) => [scheme, { scheme, secret: KEY }]),
  ) as Record<string, Route>;
  await using service = await startWebhookService({ routes });
  const body = "{}";
  const signatures: readonly Headers[] = [
    { "x-gitlab-token": KEY },
    { "x-webhook-signature": hex(body) },
    { "linear-signature": hex(body) },
    { authorization: `Bearer ${KEY}` },
  ];
  for (const route of Object.keys(routes)) {
    for (const headers of signatures)
      assert.deepEqual(await outcome(service, body, headers, route), [401, "invalid_signature"], route);
  }
  assert.deepEqual(
    (await post(service, body, { "x-hub-signature-256": `sha256=${hex(body)}` }, "bitbucket")).status,
    401,
  );
});

test("SHA-1 in X-Hub-Signature is refused", async () => {
  await using service = await startWebhookService({ routes: { hook: { secret: KEY } } });
  assert.deepEqual(await outcome(service, "{}", { "x-hub-signature": `sha1=${sha1("{}", "hex")}` }), [
    401,
    "invalid_signature",
  ]);
});
