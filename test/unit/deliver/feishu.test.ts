import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { offTracer } from "../../../src/base/observe.ts";
import { feishu } from "../../../src/deliver/targets/feishu.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import type { Reply } from "../../harness/platforms/fake.ts";
import {
  CHAT,
  error,
  FEISHU_APP,
  MESSAGE,
  startFeishu,
  tokenReply,
  USER,
} from "../../harness/platforms/feishu.ts";
import { doubting } from "../../harness/platforms/uncertain.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup) {
  const fake = await startFeishu(t);
  const settings = { ...FEISHU_APP, base_url: fake.url };
  const sent = () => fake.asked.filter(({ path }) => path.includes("/im/"));
  return {
    fake,
    sent,
    send: (request: SendRequest, more = {}) => sendThrough(feishu, { ...settings, ...more }, request),
  };
}

/** One target for several messages. */
async function target(t: Cleanup) {
  const fake = await startFeishu(t);
  const clock = new FakeClock();
  const made = feishu.create({ ...FEISHU_APP, base_url: fake.url }, platformParts({ clock }));
  const sendDoubting = doubting(made, clock);
  const send = (id = "out_01") =>
    sendDoubting(
      {
        id,
        address: CHAT,
        payload: { text: "Hello" },
        ref: undefined,
        attempt: 1,
        partsSent: 0,
        createdAtMs: 0,
      },
      { signal: new AbortController().signal, span: offTracer.start("send", {}), progress: async () => {} },
    );
  const tokens = () => fake.asked.filter(({ path }) => path.includes("/auth/")).length;
  return { fake, clock, made, send, tokens };
}

test("a message is a POST to im/v1/messages with a tenant token, its text as JSON in JSON", async (t) => {
  const { fake, sent, send } = await place(t);
  const { outcome } = await send({ address: CHAT, text: 'Say "hi"', id: "out_01" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.asked[0]?.body, FEISHU_APP);
  const [asked] = sent();
  assert.deepEqual(
    [asked?.method, asked?.path, asked?.query.get("receive_id_type"), asked?.headers.authorization],
    ["POST", "/open-apis/im/v1/messages", "chat_id", "Bearer t-tenant-token-number-1"],
  );
  assert.deepEqual(asked?.body, {
    receive_id: CHAT,
    msg_type: "text",
    content: '{"text":"Say \\"hi\\""}',
    uuid: "out_01.0",
  });
  assert.deepEqual(fake.violations, []);
});

test("the prefix of an id determines its kind", async (t) => {
  const { sent, send } = await place(t);
  for (const address of [CHAT, USER, "on_user", "user@example.org"]) {
    assert.deepEqual((await send({ address })).outcome, { status: "delivered" }, address);
  }
  await send({ address: "e33ggbyz", extra: { receive_id_type: "user_id" } });
  assert.deepEqual(
    sent().map(({ query }) => query.get("receive_id_type")),
    ["chat_id", "open_id", "union_id", "email", "user_id"],
  );
});

test("a thread is a reply to its message, in the thread", async (t) => {
  const { fake, sent, send } = await place(t);
  await send({ address: `${CHAT}:${MESSAGE}` });
  await send({ address: CHAT, extra: { thread_id: MESSAGE } });
  assert.equal(sent().length, 2);
  for (const { path, body } of sent()) {
    assert.equal(path, `/open-apis/im/v1/messages/${MESSAGE}/reply`);
    assert.equal(body?.["reply_in_thread"], true);
    assert.equal(body?.["receive_id"], undefined);
  }
  assert.deepEqual(fake.violations, []);
});

test("a token is kept until shortly before it ends", async (t) => {
  const { clock, send, tokens } = await target(t);
  await send("out_01");
  await send("out_02");
  assert.equal(tokens(), 1);
  clock.tick(7_000_000);
  await send("out_03");
  assert.equal(tokens(), 1);
  clock.tick(199_000);
  await send("out_04");
  assert.equal(tokens(), 2);
});

test("a kept token that is refused is asked for anew once, and the message arrives", async (t) => {
  const { fake, send, tokens } = await target(t);
  await send("out_01");
  for (const code of [99991663, 99991664, 99991671, 99991677]) {
    const before = tokens();
    fake.next(error(code === 99991663 ? 400 : 401, code, "Invalid access token for authorization."));
    assert.deepEqual(await send(`out_${code}`), { status: "delivered" });
    assert.equal(tokens(), before + 1);
  }
});

test("a new token that is refused too is given up, and the settings are named", async (t) => {
  const { fake, send, tokens } = await target(t);
  fake.next(tokenReply(7));
  const outcome = await send();
  assert.equal(outcome.status, "permanent");
  assert.match((outcome as { error: string }).error, /99991663.*platforms\.feishu/);
  assert.equal(tokens(), 1);
});

test("wrong credentials of the app are given up, and the keys are named", async (t) => {
  const { sent, send } = await place(t);
  for (const more of [{ app_secret: "another-secret" }, { app_id: "cli_other" }]) {
    const { outcome } = await send({ address: CHAT }, more);
    assert.equal(outcome.status, "permanent");
    assert.match((outcome as { error: string }).error, /FEISHU_APP_ID.*FEISHU_APP_SECRET.*domain/);
    assert.doesNotMatch((outcome as { error: string }).error, /another-secret/);
  }
  assert.equal(sent().length, 0);
});

test("a token that cannot be had is tried again: nothing was sent", async (t) => {
  const { fake, send } = await place(t);
  for (const fault of ["close", "truncate", "html", { status: 500, body: {} }] as const) {
    fake.next(fault);
    assert.equal((await send({ address: CHAT })).outcome.status, "retry");
  }
});

test("mention tags in any spelling are neutralized unless allow_mentions is set", async (t) => {
  const { sent, send } = await place(t);
  const tags = [
    '<at user_id="all">everybody</at>',
    '<AT user_id="ou_user"></AT>',
    '&lt;at user_id="all"&gt;&lt;/at&gt;',
    '<\u0000at user_id="all"></at>',
    '`<at user_id="all"></at>`',
    '\\<at user_id="all"\\>',
  ];
  for (const text of tags) await send({ address: CHAT, text });
  assert.equal(sent().length, tags.length);
  for (const { body } of sent()) assert.doesNotMatch(String(body?.["content"]), /<\/?at\b/i);
  await send({ address: CHAT, text: '`<at user_id="all"></at>`', extra: { allow_mentions: true } });
  assert.match(String(sent().at(-1)?.body?.["content"]), /<at user_id/);
});

test("rate limits are waited for as x-ogw-ratelimit-reset says", async (t) => {
  const { fake, send } = await target(t);
  await send("out_00");
  const limits = [
    {
      ...error(429, 99991400, "request trigger frequency limit"),
      headers: { "x-ogw-ratelimit-reset": "52" },
    },
    { ...error(400, 99991400, "request trigger frequency limit"), headers: { "x-ogw-ratelimit-reset": "5" } },
    error(400, 230020, "This operation triggers the frequency limit."),
    error(200, 11232, "frequency limited psm[lark.oapi.app_platform_runtime]appID[1500]"),
  ];
  const outcomes = [];
  for (const limit of limits) {
    fake.next(limit);
    outcomes.push(await send());
  }
  assert.ok(outcomes.every((outcome) => "isThrottled" in outcome && outcome.isThrottled));
  assert.deepEqual(
    outcomes.map((outcome) => ("afterMs" in outcome ? outcome.afterMs : undefined)),
    [52_000, 5_000, undefined, undefined],
  );
});

test("errors, also those with status 200, are given up, and it is said what to do", async (t) => {
  const { fake, send } = await place(t);
  const said = async (address: string, ...replies: readonly Reply[]) => {
    if (replies.length > 0) fake.next(tokenReply(), ...replies);
    const { outcome } = await send({ address });
    return `${outcome.status} ${"error" in outcome ? outcome.error : ""}`;
  };
  assert.match(await said("oc_outside"), /^permanent .*230002.*Add the app's bot/);
  assert.match(await said("ou_nobody"), /^permanent .*230034.*Check the chat's id/);
  assert.match(await said(`${CHAT}:om_gone`), /^permanent .*230001/);
  assert.match(
    await said(CHAT, error(400, 99991672, "Access denied.")),
    /^permanent .*im:message:send_as_bot/,
  );
  assert.match(await said(CHAT, error(200, 230013, "Bot has NO availability.")), /^permanent .*available/);
  assert.match(await said(CHAT, error(400, 230025, "The length.")), /^permanent .*text_limit/);
  assert.match(await said(CHAT, error(400, 230049, "The message is being sent.")), /^retry /);
  assert.match(await said(CHAT, error(500, 2200, "Internal Error")), /^retry /);
});

test("what may have arrived is sent again under its uuid for most of an hour, and stays unknown afterwards", async (t) => {
  const { fake, clock, made, send } = await target(t);
  assert.equal(made.supportsIdempotency, true);
  fake.next(tokenReply(), "close");
  assert.equal((await send()).status, "unknown");
  clock.tick(3_300_001);
  const late = await send();
  assert.equal(late.status === "unknown" && late.isFinal, true);
  assert.match((late as { error: string }).error, /may have arrived/);
  assert.equal((await send()).status, "delivered");
});

test("long texts go out in parts of at most 8000 units, each with a uuid of its own", async (t) => {
  const { fake, sent, send } = await place(t);
  const { outcome } = await send({ address: CHAT, text: "\u6d4b\u8bd5\u6587\u672c\u3002".repeat(4_000) });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.violations, []);
  assert.ok(sent().length >= 3);
  assert.equal(new Set(sent().map(({ body }) => body?.["uuid"])).size, sent().length);
});

test("no chat, or what can be none: given up before anything is asked", async (t) => {
  const { fake, send } = await place(t);
  for (const address of ["", "general", "e33ggbyz", `${CHAT}:omt_topic`, "oc_a/../b"]) {
    assert.equal((await send({ address })).outcome.status, "permanent", address);
  }
  const { outcome } = await send({ address: "" });
  assert.match((outcome as { error: string }).error, /FEISHU_HOME_CHANNEL/);
  assert.equal(fake.asked.length, 0);
});

test("without an app Feishu is incomplete, and each key is named; the home channel is the target's home", () => {
  assert.deepEqual(feishu.missing({}), ["app_id (FEISHU_APP_ID)", "app_secret (FEISHU_APP_SECRET)"]);
  assert.deepEqual(feishu.missing(FEISHU_APP), []);
  assert.equal(feishu.create({ ...FEISHU_APP, home_channel: CHAT }, platformParts()).home, CHAT);
});

testBadPlatform("Feishu", {
  platform: feishu,
  start: startFeishu,
  settings: (url) => ({ ...FEISHU_APP, base_url: url }),
  request: { address: CHAT },
  before: [tokenReply()],
  secrets: [FEISHU_APP.app_secret, "t-tenant-token-number-1"],
});
