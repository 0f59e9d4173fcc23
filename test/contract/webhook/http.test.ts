/** What the receiver answers, over real HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openRaw, responseOf } from "../../harness/raw-http.ts";
import { send } from "../../harness/wire.ts";
import { startWebhookService, webhookScenario } from "../../harness/webhook.ts";

webhookScenario(
  ["receiveWebhook 404", "receiveWebhook 404 x-request-id"],
  "an unknown route answers 404 with an error",
  async (service) => {
    const answer = await service.post("nobody");
    assert.equal(answer.status, 404);
    const { request_id: requestId, ...body } = answer.body;
    assert.deepEqual(body, { error: "Unknown route", code: "unknown_route", route: "nobody" });
    assert.equal(requestId, answer.headers.get("x-request-id"));
  },
);

test("a route path that is empty, escaped or too deep answers 404", async () => {
  await using service = await startWebhookService();
  const paths = [
    "a%2Fb",
    "hook%2F",
    "hook%00",
    "%25zz",
    "hook/more",
    "",
    "..%2fhealth",
    `${"x".repeat(3000)}`,
  ];
  for (const path of paths) {
    const response = await send(service, { method: "POST", path: `/webhooks/${path}`, body: "{}" });
    const { status, body } = await service.check("receiveWebhook", response);
    assert.equal(status, 404, path);
    assert.equal(body.error, "Unknown route", path);
    assert.ok(body.route.length <= 128);
  }
  assert.equal((await service.post("hook")).status, 202);
});

webhookScenario(
  ["getHealth 200", "getHealth 200 x-request-id"],
  "GET /health answers the status and the platform",
  async (service) => {
    const { status, body } = await service.health();
    assert.equal(status, 200);
    assert.deepEqual(body, { status: "ok", platform: "webhook" });
  },
);

webhookScenario(
  [
    "receiveWebhook 405",
    "receiveWebhook 405 allow",
    "receiveWebhook 405 x-request-id",
    "getHealth 405",
    "getHealth 405 allow",
    "getHealth 405 x-request-id",
  ],
  "a method that is not allowed answers 405 with the allowed ones",
  async (service) => {
    for (const method of ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"]) {
      const answer = await service.post("hook", {}, { method });
      assert.equal(answer.status, 405, method);
      assert.equal(answer.headers.get("allow"), "POST", method);
      if (method !== "HEAD") assert.equal(answer.body.code, "method_not_allowed");
    }
    const health = await fetch(`${service.url}/health`, { method: "POST" });
    const { status, headers } = await service.check("getHealth", health);
    assert.deepEqual([status, headers.get("allow")], [405, "GET, HEAD"]);
    const head = await fetch(`${service.url}/health`, { method: "HEAD" });
    assert.deepEqual([head.status, await head.text()], [200, ""]);
  },
);

test("paths that are none of the receiver's are answered 404, in its own words", async () => {
  await using service = await startWebhookService();
  for (const path of ["/", "/webhook/hook", "/v1/models", "/health/detailed", "/webhooks"]) {
    const response = await send(service, { method: "POST", path, body: "{}" });
    const body = (await response.json()) as { error: string; code: string };
    assert.equal(response.status, 404, path);
    assert.deepEqual([body.error, body.code], ["Not found", "not_found"], path);
    assert.ok(response.headers.get("x-request-id"));
  }
});

webhookScenario(
  ["receiveWebhook 400", "receiveWebhook 400 x-request-id"],
  "a path with malformed percent-encoding is answered 400",
  async (service) => {
    for (const path of ["%zz", "%", "%C3%28", "hook%"]) {
      const response = await send(service, { method: "POST", path: `/webhooks/${path}`, body: "{}" });
      const { status, body } = await service.check("receiveWebhook", response);
      assert.deepEqual([status, body.error], [400, "Bad request"], path);
    }
    const same = await send(service, { method: "POST", path: "/webhooks/hoo%6B", body: "{}" });
    assert.equal(same.status, 401, "an escape that need not be one changes nothing");
  },
);

webhookScenario(
  ["receiveWebhook 202", "receiveWebhook 202 x-request-id"],
  "an accepted request answers exactly status, route, event and delivery_id",
  async (service) => {
    const headers = { "x-github-event": "push", "x-github-delivery": "d-1" };
    const { status, body } = await service.post("hook", { a: 1 }, { headers });
    assert.equal(status, 202);
    assert.deepEqual(body, { status: "accepted", route: "hook", event: "push", delivery_id: "d-1" });
  },
);

test("unknown and disabled routes are refused before anything of the body has come", async () => {
  await using service = await startWebhookService({ routes: { off: { enabled: false } } });
  for (const [route, status] of [
    ["nobody", 404],
    ["off", 403],
  ] as const) {
    using connection = await openRaw(service.url);
    connection.write(`POST /webhooks/${route} HTTP/1.1\r\nhost: x\r\ncontent-length: 8000000\r\n\r\n`);
    const answer = responseOf(await connection.until(/\r\n\r\n\{.*\}/s));
    assert.equal((await service.check("receiveWebhook", answer)).status, status);
  }
});

test("of several reasons to stop, the answer names the first in the order of the interface", async () => {
  await using service = await startWebhookService({
    settings: { max_body_bytes: 1000, rate_limit: 5 },
    routes: {
      off: { enabled: false },
      hook: { events: ["push"], filters: [{ field: "a", equals: 1 }], script: "missing.sh" },
      quiet: {},
    },
  });
  const long = "x".repeat(1001);
  const wrong = { secret: "wrong" };
  const [push, star] = ["push", "star"].map((event) => ({ "x-github-event": event }));
  const answered = async (
    route: string,
    body: unknown,
    init: Parameters<typeof service.post>[2],
  ): Promise<unknown> => {
    const answer = await service.post(route, body, init);
    return answer.body.code ?? answer.body.reason ?? answer.body.status;
  };
  assert.equal(await answered("nobody", long, wrong), "unknown_route");
  assert.equal(await answered("off", long, wrong), "route_disabled");
  assert.equal(await answered("hook", long, wrong), "body_too_large");
  assert.equal(await answered("hook", "{bad", wrong), "invalid_signature");
  const named = { "x-github-delivery": "one" };
  assert.equal(await answered("quiet", {}, { headers: named }), "accepted");
  assert.equal(await answered("quiet", "{bad", { headers: named }), "unparsable_body");
  assert.equal(await answered("hook", { a: 2 }, { headers: { ...star, ...named } }), "ignored");
  assert.equal(await answered("hook", { a: 2 }, { headers: { ...push, ...named } }), "filter");
  assert.equal(await answered("hook", { a: 1 }, { headers: { ...push, ...named } }), "script");
  for (const _ of [1, 2, 3]) assert.equal(await answered("quiet", {}, { headers: named }), "duplicate");
  assert.equal(await answered("quiet", "{bad", { headers: named }), "rate_limited");
});

test("a request is called in its answer what it called itself, where that can be shown", async () => {
  await using service = await startWebhookService();
  const named = async (id: string): Promise<string | null> =>
    (await service.post("hook", {}, { headers: { "x-request-id": id } })).headers.get("x-request-id");
  assert.equal(await named("mine-1"), "mine-1");
  for (const odd of ["two words", "x".repeat(129), ""])
    assert.match((await named(odd)) ?? "", /^req_[0-9a-z]{26}$/);
});
