/** Routes whose URL has the secret, for services that sign nothing, over real HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { WebhookRoutes } from "../../../src/webhook/routes/routes.ts";
import { openRaw, responseOf } from "../../harness/raw-http.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";
import {
  serveChangedDeps,
  startWebhookService,
  webhookScenario,
  type WebhookService,
  type WebhookServiceOptions,
} from "../../harness/webhook.ts";

const KEY = "a-secret-in-the-path";
const ROUTES: NonNullable<WebhookServiceOptions["routes"]> = {
  hook: { auth: "path", secret: KEY, events: ["push", "unknown"] },
  off: { auth: "path", secret: KEY, enabled: false },
  busy: { auth: "path", secret: KEY, script: "missing.sh", retry_on_script_failure: true },
  // The log is not a target that may fail.
  direct: { auth: "path", secret: KEY, deliver: "webhook", deliver_only: true },
  signed: { secret: KEY },
};

const unsigned = { secret: null } as const;

async function codes(service: WebhookService, paths: readonly string[], body: unknown = {}) {
  const answers = [];
  for (const path of paths) answers.push(await service.post(path, body, unsigned));
  return answers.map(({ status, body: { code, status: accepted } }) => [status, code ?? accepted]);
}

webhookScenario(
  [
    "receiveWebhookAtSecretPath 200",
    "receiveWebhookAtSecretPath 200 x-request-id",
    "receiveWebhookAtSecretPath 202",
    "receiveWebhookAtSecretPath 202 x-request-id",
    "receiveWebhookAtSecretPath 400",
    "receiveWebhookAtSecretPath 400 x-request-id",
    "receiveWebhookAtSecretPath 401",
    "receiveWebhookAtSecretPath 401 x-request-id",
    "receiveWebhookAtSecretPath 403",
    "receiveWebhookAtSecretPath 403 x-request-id",
    "receiveWebhookAtSecretPath 404",
    "receiveWebhookAtSecretPath 404 x-request-id",
    "receiveWebhookAtSecretPath 405",
    "receiveWebhookAtSecretPath 405 allow",
    "receiveWebhookAtSecretPath 405 x-request-id",
    "receiveWebhookAtSecretPath 413",
    "receiveWebhookAtSecretPath 413 x-request-id",
    "receiveWebhookAtSecretPath 415",
    "receiveWebhookAtSecretPath 415 x-request-id",
    "receiveWebhookAtSecretPath 502",
    "receiveWebhookAtSecretPath 502 x-request-id",
    "receiveWebhookAtSecretPath 503",
    "receiveWebhookAtSecretPath 503 retry-after",
    "receiveWebhookAtSecretPath 503 x-request-id",
  ],
  "a request with the secret in its path is handled like a signed one, and nothing of the path is logged or recorded",
  async (service) => {
    assert.deepEqual(await codes(service, [`hook/${KEY}`]), [[202, "accepted"]]);
    const star = { ...unsigned, headers: { "x-github-event": "star" } };
    assert.equal((await service.post(`hook/${KEY}`, {}, star)).body.status, "ignored");
    assert.deepEqual(await codes(service, [`hook/${KEY}x`, "hook/x", `off/${KEY}`]), [
      [401, "invalid_signature"],
      [401, "invalid_signature"],
      [403, "route_disabled"],
    ]);
    assert.deepEqual(await codes(service, [`signed/${KEY}`, `nobody/${KEY}`]), [
      [404, "unknown_route"],
      [404, "unknown_route"],
    ]);
    assert.deepEqual(await codes(service, [`hook/${KEY}`], "{bad"), [[400, "unparsable_body"]]);
    assert.deepEqual(await codes(service, [`hook/${KEY}`], "x".repeat(2000)), [[413, "body_too_large"]]);
    const xml = { ...unsigned, headers: { "content-type": "text/xml" } };
    assert.equal((await service.post(`hook/${KEY}`, "<a/>", xml)).status, 415);
    const get = await service.post(`hook/${KEY}`, {}, { ...unsigned, method: "GET" });
    assert.deepEqual([get.status, get.headers.get("allow")], [405, "POST"]);
    assert.deepEqual(await codes(service, [`direct/${KEY}`, `busy/${KEY}`]), [
      [502, "delivery_failed"],
      [503, "script_failed"],
    ]);
    const rows = await service.deliveries();
    assert.ok(rows.length > 0 && !JSON.stringify(rows).includes(KEY));
    assert.ok(!service.test.logLines.join("").includes(KEY));
    assert.ok(service.logged("a webhook was refused").some(({ path }) => path === "/webhooks/hook/..."));
  },
  { routes: ROUTES, settings: { max_body_bytes: 1000 } },
);

test("a route with the secret in its path still refuses an unsigned request without it, and accepts a signed one", async () => {
  await using service = await startWebhookService({ routes: ROUTES });
  assert.deepEqual(await codes(service, ["hook"]), [[401, "invalid_signature"]]);
  assert.equal((await service.post("hook", {}, { secret: KEY })).status, 202);
});

test("a secret with characters that a path must escape passes when it is escaped", async () => {
  const secret = "ä/b c%?";
  await using service = await startWebhookService({ routes: { hook: { auth: "path", secret } } });
  assert.deepEqual(await codes(service, [`hook/${encodeURIComponent(secret)}`]), [[202, "accepted"]]);
});

webhookScenario(
  [
    "receiveWebhookAtSecretPath 429",
    "receiveWebhookAtSecretPath 429 retry-after",
    "receiveWebhookAtSecretPath 429 x-request-id",
  ],
  "the rate limit of a route counts requests with the secret in the path, and no others",
  async (service) => {
    assert.deepEqual(await codes(service, ["hook/x", "hook/x", `hook/${KEY}`, `hook/${KEY}`]), [
      [401, "invalid_signature"],
      [401, "invalid_signature"],
      [202, "accepted"],
      [429, "rate_limited"],
    ]);
  },
  { routes: ROUTES, settings: { rate_limit: 1 } },
);

/** Every route of a receiver with changed dependencies takes the secret in its path. */
const inPath = (routes: WebhookRoutes): WebhookRoutes =>
  Object.assign(Object.create(routes) as WebhookRoutes, {
    find: async (name: string) => {
      const route = await routes.find(name);
      return route && { ...route, auth: "path", secrets: [KEY] };
    },
  });

webhookScenario(
  [
    "receiveWebhookAtSecretPath 408",
    "receiveWebhookAtSecretPath 408 x-request-id",
    "receiveWebhookAtSecretPath 500",
    "receiveWebhookAtSecretPath 500 x-request-id",
  ],
  "with the secret in the path too, a slow body is answered 408, and what breaks inside 500",
  async (service) => {
    const clock = new WatchedClock();
    await using changed = await serveChangedDeps(service, ({ ports, routes }) => ({
      clock,
      routes: inPath(routes),
      ports: { ...ports, findDuplicate: () => Promise.reject(new TypeError("inner workings")) },
    }));
    using connection = await openRaw(changed.url);
    connection.write(`POST /webhooks/hook/${KEY} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{`);
    await clock.wait(10_000);
    clock.tick(10_000);
    const answer = responseOf(await connection.until(/"request_id":"[^"]+"\}/));
    assert.equal((await service.check("receiveWebhookAtSecretPath", answer)).status, 408);
    assert.deepEqual(await codes(changed, [`hook/${KEY}`]), [[500, "internal"]]);
  },
);
