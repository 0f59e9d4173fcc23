/** How services verify the URL of a route, and how senders that sign nothing prove themselves, over real HTTP. */
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { WatchedClock } from "../../harness/watched-clock.ts";
import { startWebhookService, webhookScenario, type WebhookService } from "../../harness/webhook.ts";

const KEY = "a-secret-of-one-sender";
const now = () => Math.floor(Date.now() / 1000);
const hex = (text: string, key = KEY) => createHmac("sha256", key).update(text).digest("hex");
const sha1 = (text: string) => createHmac("sha1", KEY).update(text).digest("hex");

type Headers = Readonly<Record<string, string>>;

function post(service: WebhookService, body: string, headers: Headers, route = "hook") {
  return service.post(route, body, { secret: null, headers: { "x-request-id": randomUUID(), ...headers } });
}

async function outcome(service: WebhookService, body: string, headers: Headers, route = "hook") {
  const answer = await post(service, body, headers, route);
  return [answer.status, answer.body.code ?? answer.body.status];
}

webhookScenario(
  "receiveWebhook 200",
  "Slack's url_verification is answered with its challenge, when it is signed",
  async (service) => {
    const body =
      '{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}';
    const at = now();
    const headers = {
      "x-slack-signature": `v0=${hex(`v0:${at}:${body}`)}`,
      "x-slack-request-timestamp": String(at),
    };
    const answer = await post(service, body, headers);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, { challenge: "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" });
    assert.equal((await post(service, body, {})).status, 401);
    const rows = await service.recorded((all) => all.length === 2);
    const delivery = rows.find(({ unverified }) => unverified === null);
    assert.deepEqual([delivery?.status, delivery?.reason], ["ignored", "it verifies the URL"]);
  },
  { routes: { hook: { scheme: "slack", secret: KEY } } },
);

test("Zoom's endpoint.url_validation is answered with the token and its HMAC", async () => {
  await using service = await startWebhookService({ routes: { hook: { scheme: "zoom", secret: KEY } } });
  const body =
    '{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,"event":"endpoint.url_validation"}';
  const at = now();
  const headers = {
    "x-zm-signature": `v0=${hex(`v0:${at}:${body}`)}`,
    "x-zm-request-timestamp": String(at),
  };
  const answer = await post(service, body, headers);
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, {
    plainToken: "qgg8vlvZRS6UYooatFL8Aw",
    encryptedToken: hex("qgg8vlvZRS6UYooatFL8Aw"),
  });
});

webhookScenario(
  [
    "verifyWebhook 200",
    "verifyWebhook 200 x-request-id",
    "verifyWebhook 400",
    "verifyWebhook 400 x-request-id",
    "verifyWebhook 401",
    "verifyWebhook 401 x-request-id",
    "verifyWebhook 405",
    "verifyWebhook 405 allow",
    "verifyWebhook 405 x-request-id",
  ],
  "Meta's GET gets its challenge back for the verify token of the route, and other routes answer 405",
  async (service) => {
    const get = async (route: string, query: Record<string, string>) => {
      const response = await fetch(`${service.url}/webhooks/${route}?${new URLSearchParams(query)}`);
      const answer = await service.check("verifyWebhook", response);
      return [answer.status, answer.body.code ?? answer.body];
    };
    const good = {
      "hub.mode": "subscribe",
      "hub.challenge": "1158201444",
      "hub.verify_token": "meatyhamhock",
    };
    assert.deepEqual(await get("hook", good), [200, "1158201444"]);
    assert.deepEqual(await get("hook", { ...good, "hub.verify_token": "wrong" }), [401, "invalid_signature"]);
    assert.deepEqual(await get("hook", { ...good, "hub.verify_token": "" }), [401, "invalid_signature"]);
    assert.deepEqual(await get("hook", { ...good, "hub.challenge": "<b>x</b>" }), [400, "bad_request"]);
    assert.deepEqual(await get("hook", { ...good, "hub.mode": "other" }), [400, "bad_request"]);
    for (const route of ["plain", "unset", "nobody"])
      assert.deepEqual(await get(route, good), [405, "method_not_allowed"], route);
  },
  {
    env: { META_TOKEN: "meatyhamhock" },
    routes: {
      hook: { scheme: "meta", secret: KEY, verify_token: "env:META_TOKEN" },
      unset: { scheme: "meta", secret: KEY },
      plain: {},
    },
  },
);

test("Notion's verification token is kept in a private file for the owner, and is neither logged nor trusted", async () => {
  await using service = await startWebhookService({
    routes: { hook: { scheme: "notion", secret: KEY }, other: {} },
  });
  const token = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl";
  const body = JSON.stringify({ verification_token: token });
  const answer = await post(service, body, {});
  assert.deepEqual([answer.status, answer.body.status, answer.body.reason], [200, "ignored", "verification"]);
  const file = join(service.test.home, "agentd", "webhook_verification", "hook.txt");
  assert.equal(await readFile(file, "utf8"), `${token}\n`);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  const [line] = service.logged("a service sent the verification token of a webhook route");
  assert.deepEqual([line?.["route"], line?.["file"]], ["hook", file]);
  assert.ok(!service.test.logLines.join("").includes(token));
  const event = '{"type":"page.created"}';
  const signed = { "x-notion-signature": `sha256=${hex(event, token)}` };
  assert.equal(
    (await post(service, event, signed)).status,
    401,
    "the token is not a secret of the route yet",
  );
  assert.equal((await post(service, body, {}, "other")).status, 401, "other routes take none");
});

test("basic authentication passes with the secret as password, on routes that set it", async () => {
  await using service = await startWebhookService({
    routes: { hook: { auth: "basic", secret: "pässword:with colon" }, strict: { secret: KEY } },
  });
  const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString("base64")}` });
  const accepted = [202, "accepted"];
  const refused = [401, "invalid_signature"];
  assert.deepEqual(await outcome(service, "{}", basic("alertmanager:pässword:with colon")), accepted);
  assert.deepEqual(await outcome(service, "{}", basic(":pässword:with colon")), accepted);
  for (const wrong of ["a:pässword", "pässword:with colon", "a:", "nocolon"])
    assert.deepEqual(await outcome(service, "{}", basic(wrong)), refused, wrong);
  assert.deepEqual(await outcome(service, "{}", { authorization: "Basic !!!" }), refused);
  assert.deepEqual(await outcome(service, "{}", { authorization: `Basic ${"QUFB".repeat(1500)}` }), refused);
  assert.deepEqual(await outcome(service, "{}", basic(`a:${KEY}`), "strict"), refused);
});

test("a refusal names in the log the signature that was there, and the preset that accepts it", async () => {
  await using service = await startWebhookService({
    routes: { hook: { secret: KEY }, pinned: { scheme: "sentry", secret: KEY } },
  });
  const sentry = { "sentry-hook-signature": hex("{}") };
  for (const [headers, route, why] of [
    [
      sentry,
      "hook",
      "no known signature; sentry-hook-signature is present, but the route does not accept it; set scheme: sentry on the route",
    ],
    [
      { "x-acme-signature": "1" },
      "hook",
      "no known signature; x-acme-signature is present, but the route does not accept it",
    ],
    [{}, "hook", "no known signature"],
    [{ "x-hub-signature": "sha1=00" }, "hook", "hub: malformed"],
    [{}, "pinned", "sentry: the signature is missing"],
    [
      { "stripe-signature": "t=1,v1=0" },
      "pinned",
      "sentry: the signature is missing; stripe-signature is present, but the route does not accept it; set scheme: stripe on the route",
    ],
    [{ "sentry-hook-signature": "nope" }, "pinned", "sentry: malformed"],
  ] as const) {
    assert.equal((await post(service, "{}", headers, route)).status, 401);
    assert.equal(service.logged("a webhook was refused").at(-1)?.["why"], why);
  }
});

test("a route whose sender signs with SHA-1 logs a warning once", async () => {
  await using service = await startWebhookService({ routes: { hook: { scheme: "vercel", secret: KEY } } });
  for (const body of ['{"id":"1"}', '{"id":"2"}'])
    assert.equal((await post(service, body, { "x-vercel-signature": sha1(body) })).status, 202);
  const warned = service.logged("a webhook route uses a deprecated signature");
  assert.equal(warned.length, 1);
  assert.match(String(warned[0]?.["hint"]), /SHA-1/);
});

test("the record of a delivery holds no signature of any scheme, whatever its header is called", async () => {
  const signature = { header: "X-Proof", timestamp_header: "X-Proof-Time" };
  await using service = await startWebhookService({
    routes: { hook: { scheme: "custom", signature, secret: KEY } },
  });
  const at = String(now());
  const mac = hex(`${at}.{}`);
  assert.equal((await post(service, "{}", { "x-proof": mac, "x-proof-time": at })).status, 202);
  const [delivery] = await service.recorded((rows) => rows.length === 1);
  assert.ok(delivery && !delivery.headers.includes(mac));
});

test("GitLab's retry with the same Idempotency-Key is a duplicate", async () => {
  await using service = await startWebhookService({ routes: { hook: { secret: KEY } } });
  const headers = {
    "x-gitlab-token": KEY,
    "x-gitlab-event": "Push Hook",
    "x-gitlab-event-uuid": "13792a34-cac6-4fda-95a8-c58e00a3954e",
  };
  const push = (key: string) =>
    outcome(service, '{"object_kind":"push"}', { ...headers, "idempotency-key": key });
  assert.deepEqual(await push("f5e57ae8"), [202, "accepted"]);
  assert.deepEqual(await push("f5e57ae8"), [200, "duplicate"]);
  assert.deepEqual(await push("another"), [202, "accepted"]);
});

test("Alertmanager connects with a bearer token or with basic authentication", async () => {
  const routes = { bearer: { auth: "bearer", secret: KEY }, basic: { auth: "basic", secret: KEY } } as const;
  await using service = await startWebhookService({ routes });
  const body = '{"version":"4","groupKey":"{}:{alertname=\\"Down\\"}","status":"firing","alerts":[]}';
  const basic = `Basic ${Buffer.from(`alertmanager:${KEY}`).toString("base64")}`;
  assert.deepEqual(await outcome(service, body, { authorization: `Bearer ${KEY}` }, "bearer"), [
    202,
    "accepted",
  ]);
  assert.deepEqual(await outcome(service, body, { authorization: basic }, "basic"), [202, "accepted"]);
  assert.deepEqual(await outcome(service, body, { authorization: basic }, "bearer"), [
    401,
    "invalid_signature",
  ]);
});

test("Azure DevOps and Home Assistant, where one can set a header, connect with X-Gitlab-Token", async () => {
  await using service = await startWebhookService({ routes: { hook: { secret: KEY } } });
  const azure = '{"eventType":"git.push","publisherId":"tfs","resource":{}}';
  assert.deepEqual(await outcome(service, azure, { "X-Gitlab-Token": KEY }), [202, "accepted"]);
  assert.deepEqual(await outcome(service, '{"event":"door_open"}', { "X-Gitlab-Token": KEY }), [
    202,
    "accepted",
  ]);
});

test("Docker Hub and Amazon SNS, which have no shared secret, connect with the secret in the path", async () => {
  await using service = await startWebhookService({ routes: { hook: { auth: "path", secret: KEY } } });
  const docker =
    '{"callback_url":"https://registry.hub.docker.com/u/a/b/hook/1/","push_data":{"tag":"latest"}}';
  assert.deepEqual(await outcome(service, docker, {}, `hook/${KEY}`), [202, "accepted"]);
  const sns = '{"Type":"Notification","MessageId":"22b80b92","Message":"hi","SignatureVersion":"1"}';
  const headers = {
    "content-type": "text/plain; charset=UTF-8",
    "x-amz-sns-message-type": "Notification",
    "x-amz-sns-message-id": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
  };
  const first = await post(service, sns, headers, `hook/${KEY}`);
  assert.deepEqual([first.status, first.body.event], [202, "Notification"]);
  assert.deepEqual(await outcome(service, sns, headers, `hook/${KEY}`), [200, "duplicate"]);
});

test("Discord, which signs with a public key, is refused, and the log names its signature", async () => {
  await using service = await startWebhookService({ routes: { hook: { secret: KEY } } });
  const headers = { "x-signature-ed25519": "0".repeat(128), "x-signature-timestamp": "1700000000" };
  assert.deepEqual(await outcome(service, '{"type":1}', headers), [401, "invalid_signature"]);
  const [line] = service.logged("a webhook was refused");
  assert.match(String(line?.["why"]), /x-signature-ed25519 is present, but the route does not accept it$/);
});

test("a signature header beyond 4,096 characters is refused before any signature is computed", async () => {
  await using service = await startWebhookService({ routes: { hook: { scheme: "pagerduty", secret: KEY } } });
  const good = `v1=${hex("{}")}`;
  const many = (count: number) => [...Array.from({ length: count }, () => `v1=${hex("x")}`), good].join(",");
  assert.deepEqual(await outcome(service, "{}", { "x-pagerduty-signature": many(15) }), [202, "accepted"]);
  assert.deepEqual(await outcome(service, "{}", { "x-pagerduty-signature": many(16) }), [
    401,
    "invalid_signature",
  ]);
  assert.deepEqual(await outcome(service, "{}", { "x-pagerduty-signature": many(90) }), [
    401,
    "invalid_signature",
  ]);
});

test("of many refusals a minute's first are logged, and then how many more there were", async () => {
  const clock = new WatchedClock(Date.now());
  await using service = await startWebhookService({ routes: { hook: { secret: KEY } }, clock });
  for (let count = 0; count < 65; count++) await post(service, "{}", {});
  assert.equal(service.logged("a webhook was refused").length, 60);
  clock.tick(60_000);
  await post(service, "{}", {});
  assert.deepEqual(
    service.logged("more webhooks were refused").map(({ count }) => count),
    [5],
  );
  assert.equal(service.logged("a webhook was refused").length, 61);
});

test("a signed request with other values added to its signature header is still the same request", async () => {
  await using service = await startWebhookService({ routes: { hook: { scheme: "slack", secret: KEY } } });
  const body = "command=%2Fdeploy&text=web";
  const at = now();
  const good = `v0=${hex(`v0:${at}:${body}`)}`;
  const type = {
    "content-type": "application/x-www-form-urlencoded",
    "x-slack-request-timestamp": String(at),
  };
  const sent = (signature: string) => outcome(service, body, { ...type, "x-slack-signature": signature });
  assert.deepEqual(await sent(good), [202, "accepted"]);
  for (const same of [good, `${good},v0=${hex("x")}`, `v1=x, ${good}`, `${good},`])
    assert.deepEqual(await sent(same), [200, "duplicate"], same);
});

test("strangers who send verification tokens do not use up the rate of the route", async () => {
  const settings = { rate_limit: 2 };
  await using service = await startWebhookService({
    routes: { hook: { scheme: "notion", secret: KEY } },
    settings,
  });
  const body = JSON.stringify({ verification_token: "secret_of-a-stranger" });
  const answers = [];
  for (let count = 0; count < 4; count++) answers.push((await post(service, body, {})).status);
  assert.deepEqual(answers, [200, 200, 429, 429]);
  const event = '{"type":"page.created"}';
  const signed = { "x-notion-signature": `sha256=${hex(event)}` };
  assert.equal((await post(service, event, signed)).status, 202);
});
