import assert from "node:assert/strict";
import { before } from "node:test";
import type { Platform, PlatformTest } from "../../../generated/http/client/types.gen.ts";
import { list } from "../../harness/control.ts";
import { oncePerFile } from "../../harness/guard.ts";
import type { FakePlatform } from "../../harness/platforms/fake.ts";
import { startTelegram, TELEGRAM_TOKEN } from "../../harness/platforms/telegram.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, type TestService } from "../../harness/service.ts";

const openTelegram = oncePerFile(async () => {
  const closers: (() => Promise<void>)[] = [];
  const fake = await startTelegram({ after: (close) => void closers.push(close) });
  return {
    fake,
    async [Symbol.asyncDispose]() {
      for (const close of closers) await close();
    },
  };
});
let telegram: FakePlatform;
before(async () => void (telegram = (await openTelegram()).fake));

/** A service with Telegram, Signal without its account, and a disabled Slack. */
const withTelegram = {
  get config() {
    return {
      platforms: {
        telegram: { extra: { token: TELEGRAM_TOKEN, base_url: telegram.url, home_channel: "42" } },
        signal: { extra: { base_url: "http://127.0.0.1:9" } },
        slack: { enabled: false },
      },
    };
  },
};

async function get(service: TestService, name: string): Promise<Platform> {
  const response = await service.request(`/v1/platforms/${name}`);
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Platform;
}

async function send(service: TestService, body: unknown, headers = {}): Promise<PlatformTest> {
  const response = await post(service, "/v1/platforms/telegram/test", body, headers);
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as PlatformTest;
}

const outbox = ({ service: { store } }: TestService) =>
  store.read.selectFrom("outbox").select("id").execute();

scenario(
  "listPlatforms",
  200,
  {
    title: "each platform has its readiness, its missing settings and the messages of the owner",
    get config() {
      return withTelegram.config;
    },
  },
  async (service) => {
    const { store } = service.service;
    for (const owner of ["default", "default", "ann"]) {
      const message = { owner, target: "sms:+1", payload: {}, availableAtMs: Date.now() + 1e7 };
      await store.write((tx) => store.outbox.enqueue(tx, message));
    }
    const all = await list<Platform>(service, "/v1/platforms?limit=5");
    assert.equal(all.length, 17);
    const named = new Map(all.map((platform) => [platform.name, platform]));
    const { settings_schema: schema, missing, keys, home, status } = named.get("telegram") ?? assert.fail();
    assert.deepEqual([schema, missing, home, status], [null, [], "42", "ready"]);
    assert.deepEqual(keys.toSorted(), ["base_url", "home_channel", "token"]);
    assert.deepEqual(
      ["signal", "slack", "sms"].map((name) => named.get(name)?.status),
      ["incomplete", "off", "unset"],
    );
    assert.deepEqual(named.get("sms")?.outbox, { due: 2, sending: 0, dead: 0, unknown: 0 });
    assert.doesNotMatch(JSON.stringify(all), new RegExp(TELEGRAM_TOKEN));
    const everyone = await list<Platform>(service, "/v1/platforms", { "x-agent-owner": "*" });
    assert.equal(everyone.find(({ name }) => name === "sms")?.outbox.due, 3);
  },
);

scenario("listPlatforms", 400, { title: "a cursor of another list" }, async (service) => {
  await assertError(await service.request("/v1/platforms?after=log"), 400, "invalid_cursor");
});

scenario("getPlatform", 200, { title: "one platform has the schema of its settings" }, async (service) => {
  const { status, missing, settings_schema: schema } = await get(service, "telegram");
  assert.deepEqual([status, missing], ["unset", ["token (TELEGRAM_BOT_TOKEN)"]]);
  const { token } = (schema?.["properties"] ?? {}) as Record<string, { "x-secret"?: boolean }>;
  assert.equal(token?.["x-secret"], true);
});

scenario("getPlatform", 404, { title: "an unknown platform" }, async (service) => {
  for (const name of ["log", "constructor"]) {
    await assertError(await service.request(`/v1/platforms/${name}`), 404, "platform_not_found");
  }
});

scenario("getPlatform", 400, { title: "an unknown parameter" }, async (service) => {
  await assertError(await service.request("/v1/platforms/sms?x=1"), 400, "unsupported_parameter");
});

scenario(
  "testPlatform",
  200,
  {
    title: "a platform test leaves no row in the outbox",
    get config() {
      return withTelegram.config;
    },
  },
  async (service) => {
    const asked = telegram.asked.length;
    const first = await send(service, undefined);
    assert.deepEqual([first.outcome, first.error, first.address], ["delivered", null, "42"]);
    assert.match(String(telegram.asked.at(-1)?.body?.["text"]), /^Test message from agentd on /);
    const chat = { chat_id: "-100123", thread_id: "17", text: "hello" };
    assert.equal((await send(service, chat)).address, "-100123:17");
    const { body } = telegram.asked.at(-1) ?? assert.fail();
    assert.deepEqual([body?.["message_thread_id"], body?.["text"]], [17, "hello"]);
    const refused = await send(service, { chat_id: "7" });
    assert.equal(refused.outcome, "permanent");
    assert.match(refused.error ?? "", /chat not found/);
    telegram.next("hang");
    const late = await send(service, { timeout_seconds: 1 });
    assert.equal(late.outcome, "unknown");
    assert.equal(telegram.asked.length, asked + 4, "nothing is tried again");
    assert.deepEqual(await outbox(service), []);
  },
);

scenario(
  "testPlatform",
  200,
  {
    title: "a repeated test with the same Idempotency-Key sends one message",
    get config() {
      return withTelegram.config;
    },
  },
  async (service) => {
    const asked = telegram.asked.length;
    const key = { "idempotency-key": "k" };
    const first = await send(service, { text: "once" }, key);
    assert.deepEqual(await send(service, { text: "once" }, key), first);
    assert.equal(telegram.asked.length, asked + 1);
  },
);

scenario(
  "testPlatform",
  409,
  {
    title: "a platform without its token lists what is missing and its test is 409",
    get config() {
      return withTelegram.config;
    },
  },
  async (service) => {
    const { missing } = await get(service, "discord");
    assert.match(missing.join(), /token \(DISCORD_BOT_TOKEN\)/);
    for (const [name, status] of [
      ["discord", "unset"],
      ["signal", "incomplete"],
      ["slack", "off"],
    ] as const) {
      const response = await post(service, `/v1/platforms/${name}/test`, {});
      const error = await assertError(response, 409, "platform_not_ready");
      const { details } = error as never as { details: { status: string; missing: string[] } };
      assert.deepEqual(details, { status, missing: (await get(service, name)).missing });
    }
  },
);

scenario("testPlatform", 404, { title: "an unknown platform" }, async (service) => {
  await assertError(await post(service, "/v1/platforms/log/test", {}), 404, "platform_not_found");
});

scenario(
  "testPlatform",
  400,
  {
    title: "a wrong field is named, and nothing is sent",
    get config() {
      return withTelegram.config;
    },
  },
  async (service) => {
    const asked = telegram.asked.length;
    for (const [body, param] of [
      [{ timeout_seconds: 51 }, "timeout_seconds"],
      [{ chat: "42" }, "chat"],
      [{ extra: { chat_id: 2 ** 60 } }, "extra"],
    ] as const) {
      const response = await post(service, "/v1/platforms/telegram/test", body);
      assert.equal((await assertError(response, 400, "invalid_request")).param, param);
    }
    assert.equal(telegram.asked.length, asked);
  },
);

scenario(
  "testPlatform",
  403,
  {
    title: "a key with scope read lists platforms and cannot send",
    keys: [{ key: KEY, name: "default", scopes: ["read"] }],
  },
  async (service) => {
    await get(service, "telegram");
    await assertError(await post(service, "/v1/platforms/telegram/test", {}), 403, "insufficient_scope");
  },
);
