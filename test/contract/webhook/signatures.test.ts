/** Who is believed, over real HTTP. The schemes by themselves are in test/unit/webhook/signature.test.ts. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { sign as signHub } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import { SECRET, startWebhookService, type Answer, type WebhookService } from "../../harness/webhook.ts";

const BODY = '{"action":"opened","number":42}';
const KEY = `whsec_${btoa("0123456789abcdef0123456789abcdef")}`;
const UMLAUT = "schlüssel-für-alle";
const bytes = (text: string) => new TextEncoder().encode(text);
/** A header's text that has the bytes of `text` in UTF-8. */
const onWire = (text: string) => String.fromCharCode(...bytes(text));
const mac = (text: string, secret = SECRET) => createHmac("sha256", secret).update(text).digest("hex");
const now = () => Math.floor(Date.now() / 1000);

let count = 0;
/** Deliveries of their own: none is to be taken for a repetition of another. */
const fresh = () => ({ "x-request-id": `req-${++count}` });

type Headers = Readonly<Record<string, string>>;

function sent(service: WebhookService, headers: Headers, body = BODY, route = "hook"): Promise<Answer> {
  return service.post(route, body, { secret: null, headers: { ...fresh(), ...headers } });
}

/** What each of the requests was answered; a refusal says nothing but what the interface says. */
async function statuses(service: WebhookService, requests: readonly (readonly [Headers, string?])[]) {
  const answers = await Promise.all(requests.map(([headers, body]) => sent(service, headers, body)));
  for (const { status, body } of answers) {
    if (status !== 202) {
      assert.deepEqual([status, body.error, body.code], [401, "Invalid signature", "invalid_signature"]);
    }
  }
  return answers.map(({ status }) => status);
}

/** `X-Webhook-Signature-V2`, made as its interface says. */
function v2(timestamp: string, body = BODY): Headers {
  return {
    "x-webhook-timestamp": timestamp,
    "x-webhook-signature-v2": mac(`${timestamp}.${body}`),
  };
}

/** Headers of Standard Webhooks, signed by its own library. */
function standard(key: string, { id = `msg_${++count}`, at = new Date(), body = BODY } = {}): Headers {
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": new Webhook(key).sign(id, at, body),
  };
}

test("an unsigned request to a route with a secret answers 401 and starts no run", async () => {
  await using service = await startWebhookService();
  const { status, body } = await sent(service, {});
  assert.deepEqual([status, body.error], [401, "Invalid signature"]);
  assert.deepEqual(await service.test.service.store.read.selectFrom("runs").select("id").execute(), []);
});

test("X-Hub-Signature-256 passes only as `sha256=` with the right lowercase digest", async () => {
  await using service = await startWebhookService();
  const good = await signHub(SECRET, BODY);
  assert.deepEqual(
    await statuses(service, [
      [{ "X-Hub-Signature-256": good }],
      [{ "X-Hub-Signature-256": await signHub("another", BODY) }],
      [{ "X-Hub-Signature-256": good.slice("sha256=".length) }],
      [{ "X-Hub-Signature-256": `sha256=${good.slice("sha256=".length).toUpperCase()}` }],
      [{ "X-Hub-Signature-256": `${good}, ${good}` }],
      [{ "X-Hub-Signature-256": "" }],
    ]),
    [202, 401, 401, 401, 401, 401],
  );
});

test("X-Gitlab-Token must equal the secret byte for byte, also when the secret is not ASCII", async () => {
  await using service = await startWebhookService({ settings: { secrets: [UMLAUT] } });
  assert.deepEqual(
    await statuses(service, [
      [{ "X-Gitlab-Token": SECRET }],
      [{ "X-HostB-Token": SECRET }],
      [{ "X-Gitlab-Token": `${SECRET}x` }],
      [{ "X-Gitlab-Token": SECRET.toUpperCase() }],
      [{ "X-Gitlab-Token": onWire(UMLAUT) }],
      [{ "X-Gitlab-Token": UMLAUT }],
    ]),
    [202, 202, 401, 401, 202, 401],
  );
});

test("invalid bytes in any signature or bearer header answer 401", async () => {
  await using service = await startWebhookService({ routes: { hook: { auth: "bearer" } } });
  const garbage = ["\u00ff\u0080\u00e9", "sha256=\u00e9", "v1,\u00ff=", "Bearer \u00ff", "\u00c3\u0028"];
  const names = [
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
    "authorization",
  ];
  for (const name of names) {
    const all = await statuses(
      service,
      garbage.map((value) => [{ [name]: value }] as const),
    );
    assert.deepEqual(new Set(all), new Set([401]), name);
  }
});

test("a V2 signature covers its timestamp, and a timestamp shifted by 1 s answers 401", async () => {
  await using service = await startWebhookService();
  const at = now();
  const shifted = { ...v2(String(at)), "x-webhook-timestamp": String(at - 1) };
  assert.deepEqual(await statuses(service, [[v2(String(at))], [shifted]]), [202, 401]);
});

test("a V2 signature without a timestamp answers 401 even with a valid V1 signature or bearer token", async () => {
  await using service = await startWebhookService({ routes: { hook: { auth: "bearer" } } });
  const { "x-webhook-signature-v2": signature = "" } = v2(String(now()));
  const untimed = { "x-webhook-signature-v2": signature };
  assert.deepEqual(
    await statuses(service, [
      [{ ...untimed, "x-webhook-signature": mac(BODY) }],
      [{ ...untimed, authorization: `Bearer ${SECRET}` }],
      [{ "x-webhook-signature": mac(BODY) }],
      [{ authorization: `Bearer ${SECRET}` }],
    ]),
    [401, 401, 202, 202],
  );
});

test("a V2 timestamp passes up to 299 s away and fails from 301 s or when it is not an integer", async () => {
  await using service = await startWebhookService();
  // The clock goes on while requests are on their way; to the second it is in the tests of signature.ts.
  const [at, way] = [now(), 15];
  assert.deepEqual(
    await statuses(service, [
      [v2(String(at - 299 + way))],
      [v2(String(at + 299))],
      [v2(String(at - 301))],
      [v2(String(at + 301 + way))],
    ]),
    [202, 202, 401, 401],
  );
  const odd = [`${at}.0`, `+${at}`, `0x${at.toString(16)}`, `${at}e0`, "", "9".repeat(13), "NaN"];
  const answers = await statuses(
    service,
    odd.map((timestamp) => [v2(timestamp)] as const),
  );
  assert.deepEqual(new Set(answers), new Set([401]));
});

test("a route's `tolerance_seconds` replaces the default of 300 s", async () => {
  const routes = { strict: { tolerance_seconds: 60 }, lenient: { tolerance_seconds: 900 } };
  await using service = await startWebhookService({ routes });
  const status = async (route: string, secondsAgo: number) =>
    (await sent(service, v2(String(now() - secondsAgo)), BODY, route)).status;
  assert.deepEqual([await status("strict", 10), await status("strict", 90)], [202, 401]);
  assert.deepEqual([await status("lenient", 800), await status("lenient", 930)], [202, 401]);
});

test("a valid V1 signature passes and logs one warning per route", async () => {
  await using service = await startWebhookService({ routes: { one: {}, two: {} } });
  const headers = { "x-webhook-signature": mac(BODY) };
  for (const route of ["one", "one", "two", "one"]) {
    assert.equal((await sent(service, headers, BODY, route)).status, 202);
  }
  assert.equal((await sent(service, { "x-webhook-signature": mac("other") }, BODY, "two")).status, 401);
  const warned = service.logged("a webhook route uses a deprecated signature");
  assert.deepEqual(
    warned.map(({ level, route }) => [level, route]),
    [
      ["warn", "one"],
      ["warn", "two"],
    ],
  );
});

test("a Standard Webhooks signature passes for a whsec_ or raw key and fails for a changed body or id, a wrong key or a stale time", async () => {
  const bare = btoa("a key whose prefix was left out!");
  await using service = await startWebhookService({ settings: { secrets: [KEY, bare] } });
  const raw = standard(`whsec_${btoa(SECRET)}`);
  const stale = new Date(Date.now() - 310_000);
  assert.deepEqual(
    await statuses(service, [
      [standard(KEY)],
      [raw],
      [standard(bare)],
      [standard(KEY), `${BODY} `],
      [standard(`whsec_${btoa("another key")}`)],
      [standard(KEY, { at: stale })],
      [{ ...standard(KEY), "webhook-id": "msg_another" }],
      [{ ...standard(KEY), "webhook-id": "" }],
    ]),
    [202, 202, 202, 401, 401, 401, 401, 401],
  );
});

test("one matching v1 signature in a Standard Webhooks list is enough, and a v2-only or overlong list answers 401", async () => {
  await using service = await startWebhookService({ settings: { secrets: [KEY] } });
  const other = standard(`whsec_${btoa("the key before this one")}`)["webhook-signature"];
  const [two, foreign, many] = [standard(KEY), standard(KEY), standard(KEY)];
  const signature = "webhook-signature";
  assert.deepEqual(
    await statuses(service, [
      [{ ...two, [signature]: `${other} ${two[signature]}` }],
      [{ ...foreign, [signature]: foreign[signature]!.replace("v1,", "v2,") }],
      [{ ...many, [signature]: `${`${other} `.repeat(40)}${many[signature]}` }],
    ]),
    [202, 401, 401],
    "and of very many only the first are looked at",
  );
});

test("webhook-id and webhook-timestamp without webhook-signature do not invalidate a good token", async () => {
  await using service = await startWebhookService();
  const { "webhook-signature": _, ...headers } = standard(KEY);
  assert.deepEqual(await statuses(service, [[{ ...headers, "X-Gitlab-Token": SECRET }]]), [202]);
});

test("an svix-id without its signature answers 401 even beside other valid credentials", async () => {
  await using service = await startWebhookService({ routes: { hook: { auth: "bearer", secret: KEY } } });
  const good = standard(KEY);
  const svix = {
    "svix-id": good["webhook-id"]!,
    "svix-timestamp": good["webhook-timestamp"]!,
    "svix-signature": good["webhook-signature"]!,
  };
  assert.deepEqual(
    await statuses(service, [
      [{ "svix-id": "msg_1", "x-hub-signature-256": await signHub(KEY, BODY) }],
      [{ "svix-id": "msg_1", ...standard(KEY) }],
      [{ "svix-id": "msg_1", authorization: `Bearer ${KEY}` }],
      [svix],
    ]),
    [401, 401, 401, 202],
  );
});

test("linear-signature passes only as the plain digest of the body", async () => {
  await using service = await startWebhookService();
  assert.deepEqual(
    await statuses(service, [
      [{ "Linear-Signature": mac(BODY) }],
      [{ "Linear-Signature": mac(`${BODY}\n`) }],
      [{ "Linear-Signature": `sha256=${mac(BODY)}` }],
    ]),
    [202, 401, 401],
  );
});

test("a wrong signature header fails despite a valid bearer token, and bearer alone passes only where the route enables it", async () => {
  await using service = await startWebhookService({ routes: { hook: { auth: "bearer" }, strict: {} } });
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
  const refused = await statuses(
    service,
    wrong.map((name) => [{ [name]: "wrong", authorization }] as const),
  );
  assert.deepEqual(
    refused,
    wrong.map(() => 401),
  );
  assert.deepEqual(
    await statuses(service, [
      [{ authorization }],
      [{ authorization: `bearer ${SECRET}` }],
      [{ authorization: `${authorization}x` }],
      [{ authorization: SECRET }],
      [{ authorization: `Basic ${SECRET}` }],
      [{ authorization: "Bearer " }],
    ]),
    [202, 202, 401, 401, 401, 401],
  );
  assert.equal((await sent(service, { authorization }, BODY, "strict")).status, 401);
});

test("a route with INSECURE_NO_AUTH accepts any request on loopback, and other routes still require a signature", async () => {
  await using service = await startWebhookService({
    routes: { hook: {}, open: { secret: "INSECURE_NO_AUTH" } },
  });
  assert.equal((await sent(service, {}, BODY, "open")).status, 202);
  assert.equal((await sent(service, { "x-hub-signature-256": "wrong" }, BODY, "open")).status, 202);
  assert.equal((await sent(service, {}, BODY, "hook")).status, 401, "the other routes ask for proof");
});

test("the signature covers the raw bytes, so reformatted JSON fails and escaped unicode passes", async () => {
  await using service = await startWebhookService();
  const escaped = '{"name":"caf\\u00e9", "n": 1.0}';
  assert.deepEqual(
    await statuses(service, [
      [{ "x-hub-signature-256": await signHub(SECRET, BODY) }, BODY.replace(":", ": ")],
      [{ "x-hub-signature-256": await signHub(SECRET, escaped) }, escaped],
      [{ "x-hub-signature-256": await signHub(SECRET, escaped) }, JSON.stringify(JSON.parse(escaped))],
    ]),
    [401, 202, 401],
  );
});

test("a repeated request is a duplicate on its route when its signature binds the time, and runs again otherwise", async () => {
  await using service = await startWebhookService({ routes: { hook: {}, other: {} } });
  // Proxies give each attempt an id of its own: the signature alone tells that it is the same.
  const headers = v2(String(now()));
  const first = await sent(service, headers);
  const second = await sent(service, headers);
  assert.deepEqual([first.status, second.status], [202, 200]);
  assert.equal(second.body.status, "duplicate");
  assert.equal(
    second.body.delivery_id,
    first.body.delivery_id,
    "the answer has the id of the first delivery",
  );
  assert.equal((await sent(service, headers, BODY, "other")).status, 202, "each route for itself");
  assert.equal((await sent(service, v2(String(now() - 5)))).status, 202, "signed anew it is another");
  const signed = standard(`whsec_${btoa(SECRET)}`);
  assert.equal((await sent(service, signed)).status, 202);
  assert.equal((await sent(service, { ...signed, "x-github-delivery": "another" })).body.status, "duplicate");
  const hub = { "x-hub-signature-256": await signHub(SECRET, BODY) };
  assert.equal((await sent(service, hub)).status, 202);
  assert.equal((await sent(service, hub)).status, 202, "what binds no time may well come twice");
});

test("one of 20 concurrent copies of a V2 request is accepted, and the others are duplicates", async () => {
  await using service = await startWebhookService();
  const headers = v2(String(now()));
  const answers = await Promise.all(Array.from({ length: 20 }, () => sent(service, headers)));
  assert.equal(answers.filter(({ status }) => status === 202).length, 1);
  assert.equal(answers.filter(({ body }) => body.status === "duplicate").length, 19);
});

test("a V2 request is a duplicate after a restart, and ignored or failed requests may be repeated", async () => {
  const service = await startWebhookService();
  const headers = v2(String(now()));
  assert.equal((await sent(service, headers)).status, 202);
  const routes = { hook: { filters: [{ field: "number", equals: 43 }] }, failing: failingScript };
  await using next = await service.restart({ routes });
  assert.equal((await sent(next, headers)).body.status, "duplicate");
  // Neither ignored nor failed requests are remembered: nothing was done for them.
  const other = v2(String(now() - 3));
  assert.equal((await sent(next, other)).body.reason, "filter");
  assert.equal((await sent(next, other)).body.reason, "filter");
  const retried = await Promise.all([sent(next, other, BODY, "failing"), sent(next, other, BODY, "failing")]);
  assert.deepEqual(
    retried.map(({ status }) => status),
    [503, 503],
  );
});

const failingScript = { script: "there-is-none.sh", retry_on_script_failure: true };

test("a route accepts each of its own secrets, and the global secret no longer", async () => {
  await using service = await startWebhookService({
    routes: { hook: { secrets: ["the-new-one", "env:OLD_SECRET"] } },
    env: { OLD_SECRET: "the-old-one" },
  });
  const by = async (secret: string): Promise<readonly [Headers]> => [
    { "x-hub-signature-256": await signHub(secret, BODY) },
  ];
  assert.deepEqual(
    await statuses(service, [
      await by("the-new-one"),
      await by("the-old-one"),
      await by(SECRET),
      await by("env:OLD_SECRET"),
    ]),
    [202, 202, 401, 401],
    "and that of all routes is not good for one that has its own",
  );
});
