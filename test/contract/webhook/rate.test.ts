/** How many requests a minute a route takes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { startWebhookService, webhookScenario } from "../../harness/webhook.ts";

const clock = new FakeClock();

webhookScenario(
  [
    "receiveWebhook 429",
    "receiveWebhook 429 x-request-id",
    "receiveWebhook 429 retry-after",
    "receiveWebhook 401",
    "receiveWebhook 401 x-request-id",
  ],
  "each route has its own rate limit, its window resets, and invalid signatures do not count",
  async (service) => {
    for (let bad = 0; bad < 5; bad++) {
      assert.equal((await service.post("hook", {}, { secret: "wrong" })).status, 401);
    }
    for (let good = 0; good < 3; good++) assert.equal((await service.post("hook")).status, 202);
    const wait = async (): Promise<string | null> => {
      const { status, body, headers } = await service.post("hook");
      assert.deepEqual([status, body.error, body.code], [429, "Rate limit exceeded", "rate_limited"]);
      return headers.get("retry-after");
    };
    assert.equal(await wait(), "60");
    assert.equal(
      (await service.post("hook", {}, { secret: "wrong" })).status,
      401,
      "the signature comes first",
    );
    assert.equal((await service.post("other")).status, 202);
    clock.tick(1);
    assert.equal(await wait(), "60");
    clock.tick(999);
    assert.equal(await wait(), "59");
    clock.tick(58_999);
    assert.equal(await wait(), "1");
    clock.tick(1);
    for (let good = 0; good < 3; good++) assert.equal((await service.post("hook")).status, 202);
    assert.equal(await wait(), "60", "the new window is a whole one");
  },
  { clock, settings: { rate_limit: 3 }, routes: { hook: {}, other: {} } },
);

test("ignored, duplicate and unparsable requests count towards the rate limit, and oversized ones do not", async () => {
  await using service = await startWebhookService({
    clock: new FakeClock(),
    settings: { rate_limit: 4, max_body_bytes: 1000 },
    routes: { hook: { events: ["push"] } },
  });
  const headers = { "x-github-event": "push", "x-github-delivery": "one" };
  assert.equal((await service.post("hook", "x".repeat(2000))).status, 413);
  assert.equal((await service.post("hook", {}, { headers })).status, 202);
  assert.equal((await service.post("hook", {}, { headers })).body.status, "duplicate");
  assert.equal(
    (await service.post("hook", {}, { headers: { "x-github-event": "ping" } })).body.status,
    "ignored",
  );
  assert.equal((await service.post("hook", "{bad", {})).status, 400);
  assert.equal((await service.post("hook", {}, { headers })).status, 429);
});

test("a flood over the rate limit records no more requests than the limit", async () => {
  await using service = await startWebhookService({ clock: new FakeClock(), settings: { rate_limit: 2 } });
  await Promise.all(Array.from({ length: 20 }, () => service.post("hook")));
  const rows = await service.recorded((all) => all.filter(({ status }) => status === "refused").length === 2);
  assert.equal(rows.filter(({ status }) => status !== "refused").length, 2);
  const [refused] = rows.filter(({ status }) => status === "refused");
  assert.equal(refused?.reason, "more than 2 in a minute");
  assert.deepEqual(
    (JSON.parse(refused?.stages ?? "[]") as { stage: string; result: string }[]).map(({ stage, result }) => [
      stage,
      result,
    ]),
    [
      ["signature", "pass"],
      ["rate", "stop"],
    ],
  );
});
