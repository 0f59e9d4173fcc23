/** Routes that are made while the receiver runs, by the file that holds them. */
import assert from "node:assert/strict";
import { chmod, mkdir, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Deliveries } from "../../../src/webhook/deliveries/deliveries.ts";
import {
  SECRET,
  startWebhookService,
  type WebhookService,
  type WebhookServiceOptions,
} from "../../harness/webhook.ts";

const FLAWED = "a webhook subscription cannot be used";
const UNREADABLE = "the webhook subscriptions file cannot be used; the last valid one applies";

async function startEmpty(options: WebhookServiceOptions = {}): Promise<WebhookService> {
  const service = await startWebhookService({ routes: {}, ...options });
  await mkdir(join(service.test.home, "agentd"), { recursive: true });
  return service;
}

function fileOf(service: WebhookService): string {
  return join(service.test.home, "agentd", "webhook_subscriptions.json");
}

async function write(service: WebhookService, content: unknown): Promise<void> {
  const text = typeof content === "string" ? content : JSON.stringify(content);
  await writeFile(fileOf(service), text, { mode: 0o600 });
}

async function statusOf(service: WebhookService, route: string, secret: string = SECRET): Promise<number> {
  return (await service.post(route, {}, { secret })).status;
}

test("subscriptions load from their file, static routes win, a removed file clears them, and a broken one keeps the last good set", async () => {
  await using service = await startEmpty({ routes: { fixed: {} as never } });
  assert.equal(await statusOf(service, "ci"), 404, "no file");

  await write(service, { ci: { secret: "of-the-ci" }, fixed: { secret: "of-the-file" } });
  assert.equal(await statusOf(service, "ci", "of-the-ci"), 202, "loads");
  assert.equal(await statusOf(service, "ci"), 401, "with its own secret");
  assert.equal(await statusOf(service, "fixed"), 202, "static wins");
  assert.equal(await statusOf(service, "fixed", "of-the-file"), 401);

  for (const broken of ['{"ci": {', "[]", '{"ci": 5}', '"x"']) {
    await write(service, broken);
    assert.equal(await statusOf(service, "ci", "of-the-ci"), 202, `the last good set, with ${broken}`);
    assert.equal(await statusOf(service, "ci", "of-the-ci"), 202);
  }
  assert.equal(service.logged(UNREADABLE).length, 4, "an error for each state of the file, once");

  await rm(fileOf(service));
  assert.equal(await statusOf(service, "ci", "of-the-ci"), 404, "removed");
  await write(service, `\uFEFF${JSON.stringify({ ci: { secret: "of-the-ci" } })}`);
  assert.equal(await statusOf(service, "ci", "of-the-ci"), 202, "with a byte order mark");
  await write(service, "");
  assert.equal(await statusOf(service, "ci", "of-the-ci"), 404, "an empty file holds none");
});

test("an unreadable subscriptions file keeps the last good set and is logged once", async (t) => {
  await using service = await startEmpty();
  await write(service, { ci: {} });
  assert.equal(await statusOf(service, "ci"), 202);
  await rm(fileOf(service));
  await mkdir(fileOf(service));
  assert.equal(await statusOf(service, "ci"), 202);
  assert.equal(await statusOf(service, "ci"), 202);
  assert.equal(service.logged(UNREADABLE).length, 1);
  await rm(fileOf(service), { recursive: true });
  assert.equal(await statusOf(service, "ci"), 404);
  if (process.getuid?.() === 0) return t.diagnostic("root may read everything: modes are not tried");
  await write(service, { ci: {} });
  await chmod(fileOf(service), 0o000);
  assert.equal(await statusOf(service, "ci"), 404, "it could never be read");
});

test("a subscription without a usable secret is skipped, and one without its own inherits the global secret", async (t) => {
  await t.test("with a secret of all routes", async () => {
    await using service = await startEmpty();
    await write(service, {
      empty: { secret: "" },
      inherits: {},
      unset: { secret: "env:NOBODY_SET_THIS" },
      mixed: { secrets: ["INSECURE_NO_AUTH", "other"] },
      old: { secrets: ["new-one", "old-one"] },
    });
    assert.equal(await statusOf(service, "inherits"), 202);
    assert.equal(await statusOf(service, "old", "old-one"), 202);
    for (const route of ["empty", "unset", "mixed"]) assert.equal(await statusOf(service, route), 404, route);
    const problems = service
      .logged(FLAWED)
      .map(({ route, problems: text }) => `${String(route)}: ${String(text)}`);
    assert.deepEqual(problems, [
      "empty: its secret is empty; set one, or remove the key",
      "unset: NOBODY_SET_THIS, its secret, is not set",
      "mixed: INSECURE_NO_AUTH does not go with other secrets",
    ]);
    assert.ok(service.test.logLines.length > 0);
    assert.ok(!service.test.logLines.join("").includes("old-one"), "no secret is in the log");
  });
  await t.test("with none", async () => {
    await using service = await startEmpty({ settings: { secret: "" } });
    await write(service, { none: {}, open: { secret: "INSECURE_NO_AUTH" } });
    assert.equal(await statusOf(service, "none"), 404);
    assert.equal((await service.post("open", {}, { secret: null })).status, 202, "on loopback");
    assert.match(
      String(service.logged(FLAWED)[0]?.["problems"]),
      /no secret; set one, or set WEBHOOK_SECRET/,
    );
  });
  await t.test("on all addresses", async () => {
    await using service = await startEmpty({ settings: { host: "0.0.0.0" } });
    await write(service, { open: { secret: "INSECURE_NO_AUTH" }, good: {} });
    const url = service.url.replace("0.0.0.0", "127.0.0.1");
    const refused = await fetch(`${url}/webhooks/open`, { method: "POST", body: "{}" });
    assert.equal(refused.status, 404);
    assert.deepEqual(
      service.logged(FLAWED).map(({ route }) => route),
      ["open"],
    );
    assert.match(String(service.logged(FLAWED)[0]?.["problems"]), /loopback addresses only; give a secret/);
  });
});

test("a subscription with invalid fields or an unknown target is skipped and logged, and the others are served", async () => {
  await using service = await startEmpty();
  await write(service, {
    events: { events: "push" },
    prompt: { prompt: 5 },
    target: { deliver: "telegran:1" },
    direct: { deliver_only: true },
    "a/b": {},
    good: {
      created_at: "2026-01-01T00:00:00Z",
      profile: "x",
      likes: true,
      filters: { field: "a", missing: true },
    },
  });
  assert.equal(await statusOf(service, "good"), 202);
  for (const route of ["events", "prompt", "target", "direct", "a%2Fb"]) {
    assert.equal(await statusOf(service, route), 404, route);
  }
  const problems = service.logged(FLAWED);
  assert.deepEqual(
    problems.map(({ route }) => route),
    ["events", "prompt", "target", "direct", "a/b"],
  );
  assert.match(
    String(problems[2]?.["problems"]),
    /deliver: "telegran" is not a target; did you mean "telegram"/,
  );
  const [strange] = service.logged("a webhook subscription has unknown keys");
  assert.deepEqual(strange?.["unknown"], ["likes"]);
});

test("an edited subscriptions file applies to the next request, also after two writes in one second", async () => {
  await using service = await startEmpty();
  for (let n = 0; n < 50; n++) {
    // As long as each other, and as quick as it goes: neither size nor whole seconds tell them apart.
    const [good, bad] = n % 2 === 0 ? ["aaa", "bbb"] : ["bbb", "aaa"];
    await write(service, { ci: { secret: good } });
    const second = new Date(1_800_000_000_000);
    await utimes(fileOf(service), second, second);
    assert.equal(await statusOf(service, "ci", good), 202, `write ${n}`);
    assert.equal(await statusOf(service, "ci", bad), 401, `write ${n}`);
  }
});

test("concurrent requests all see the subscriptions that were written before they arrived", async () => {
  await using service = await startEmpty();
  for (let n = 0; n < 10; n++) {
    await write(service, { [`ci-${n}`]: {} });
    const statuses = await Promise.all(Array.from({ length: 20 }, () => statusOf(service, `ci-${n}`)));
    assert.deepEqual(new Set(statuses), new Set([202]), `write ${n}`);
  }
});

test("the secret of a subscription appears in no log line and is redacted in the rendered record", async () => {
  await using service = await startEmpty();
  const secret = "canary-of-the-subscription-77";
  await write(service, { ci: { secret, prompt: "told {word}" } });
  const { status } = await service.post("ci", { word: secret }, { secret });
  assert.equal(status, 202);
  const [delivery] = await service.recorded((rows) => rows.some((row) => row.status === "completed"));
  const shown = await new Deliveries(service.test.service.store).show(delivery?.id ?? "");
  assert.match(shown?.rendered ?? "", /told \[redacted\]/);
  assert.ok(service.test.logLines.length > 0);
  assert.ok(!service.test.logLines.join("").includes(secret));
});
