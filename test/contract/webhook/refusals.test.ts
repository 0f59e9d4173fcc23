/** What keeps a receiver from being started, and what it says then. */
import assert from "node:assert/strict";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import { startTestService } from "../../harness/service.ts";
import { SECRET, startWebhookService, type WebhookServiceOptions } from "../../harness/webhook.ts";

/** What it says. */
async function refusalOf(options: WebhookServiceOptions): Promise<string> {
  const started = await startWebhookService(options).catch((error: unknown) => error);
  if (started instanceof ServiceError && started.code === "invalid_config") return started.message;
  if (started instanceof Error) throw started;
  await (started as AsyncDisposable)[Symbol.asyncDispose]();
  return assert.fail("it started");
}

const routes = (route: object) => ({ routes: { hook: route as never } });

test("a `deliver_only` route without a real target keeps the service from starting", async () => {
  for (const route of [{ deliver_only: true }, { deliver_only: true, deliver: "log" }]) {
    assert.match(
      await refusalOf(routes(route)),
      /route hook: deliver_only needs a real target in deliver, such as .*webhook/,
    );
  }
});

test("INSECURE_NO_AUTH starts on loopback addresses only, and a busy port does not stop the service", async (t) => {
  await t.test("refuses", async () => {
    for (const host of ["0.0.0.0", "127.0.0.2", "::"]) {
      const open = { secret: "INSECURE_NO_AUTH" };
      const text = await refusalOf({ ...routes(open), settings: { host } });
      assert.match(text, /route hook: INSECURE_NO_AUTH is for loopback addresses only; give a secret/, host);
      assert.match(await refusalOf({ settings: { host, ...open }, routes: {} }), /the secret of all routes/);
    }
  });
  await t.test("starts", async () => {
    for (const host of ["127.0.0.1", "localhost", "::1"]) {
      await using service = await startWebhookService({
        ...routes({ secret: "INSECURE_NO_AUTH" }),
        settings: { host },
      });
      assert.equal((await service.post("hook", {}, { secret: null })).status, 202, host);
    }
  });
  await t.test("reports a busy port", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    try {
      const webhook = { enabled: true, host: "127.0.0.1", port, secret: SECRET };
      await using service = await startTestService({ config: { platforms: { webhook } } });
      assert.equal(service.service.webhookUrl, undefined);
      assert.ok((await service.request("/health")).ok, "the rest runs");
      const told = service.logLines.find((line) => line.includes("webhooks are not received"));
      assert.match(told ?? "", new RegExp(`127\\.0\\.0\\.1:${port}: another program listens there`));
    } finally {
      other.close();
    }
  });
});

test("a route without a usable secret keeps the service from starting, and the error says how to fix it", async () => {
  const text = await refusalOf({ ...routes({}), settings: { secret: "" } });
  assert.match(text, /route hook: it has no secret; set one, or set WEBHOOK_SECRET for all routes/);
  assert.match(await refusalOf(routes({ secret: "" })), /route hook: its secret is empty/);
  assert.match(
    await refusalOf(routes({ secret: "env:NOT_SET" })),
    /route hook: NOT_SET, its secret, is not set/,
  );
  const behind = { ...routes({ secret: "env:OPEN" }), env: { OPEN: "INSECURE_NO_AUTH" } };
  assert.match(await refusalOf(behind), /must be written as it is, not behind a reference/);
});

test("an invalid pattern and an unknown operator of a static route are both reported at start", async () => {
  const filters = [
    { field: "a", regex: "(" },
    { field: "a", like: 1 },
  ];
  const text = await refusalOf(routes({ filters }));
  assert.match(text, /route hook: filters\[0\]\.regex/);
  assert.match(text, /route hook: filters\[1\]/);
});

test("an unknown target of a static route is refused with a suggestion", async () => {
  assert.match(
    await refusalOf(routes({ deliver: "lug" })),
    /deliver: "lug" is not a target; did you mean "log"\?/,
  );
});

test("the start reports every problem of every route at once", async () => {
  const flawed = { a: { secret: "" }, b: { deliver: "nowhere", deliver_only: true, coalesce: { key: "x" } } };
  const text = await refusalOf({ routes: flawed as never });
  assert.equal(text.match(/route a: /g)?.length, 1);
  assert.equal(text.match(/route b: /g)?.length, 2);
});
