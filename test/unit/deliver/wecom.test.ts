import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { offTracer } from "../../../src/base/observe.ts";
import { wecom } from "../../../src/deliver/targets/wecom/wecom.ts";
import type { SendOutcome, Target } from "../../../src/deliver/target.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { platformParts, sendThrough } from "../../harness/platforms/send.ts";
import { robotError, startWecom, WECOM_KEY } from "../../harness/platforms/wecom.ts";

const webhook = (url: string) => ({ webhook_url: `${url}/cgi-bin/webhook/send?key=${WECOM_KEY}` });
const bot = (url: string) => ({ bot_id: "bot-of-nobody", secret: "secret-of-nobody", websocket_url: url });

function sendTo(target: Target, { address }: { readonly address: string }): Promise<SendOutcome> {
  const payload = { text: "Hello", extra: {} };
  return target.send(
    { id: "out_1", address, payload, ref: undefined, attempt: 1, partsSent: 0, createdAtMs: 0 },
    { signal: new AbortController().signal, span: offTracer.start("send", {}), progress: async () => {} },
  );
}

function said(outcome: SendOutcome): string {
  return "error" in outcome ? outcome.error : "";
}

describe("wecom: the webhook of a group's robot", () => {
  test("a message is one POST of a Markdown to /cgi-bin/webhook/send?key=", async (t) => {
    const fake = await startWecom(t);
    const { outcome } = await sendThrough(wecom, webhook(fake.url), { text: "All **well**." });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.violations, []);
    assert.equal(fake.asked[0]?.query.get("key"), WECOM_KEY);
    assert.deepEqual(fake.asked[0]?.body, { msgtype: "markdown", markdown: { content: "All **well**." } });
  });

  test("a Markdown has up to 4096 bytes, a plain text (msgtype text) up to 2048", async (t) => {
    const fake = await startWecom(t);
    for (const extra of [{}, { msgtype: "text" }]) {
      const request = { text: "漢字 and words. ".repeat(700), extra };
      const settings = { ...webhook(fake.url), text_limit: 1_000_000 };
      assert.deepEqual((await sendThrough(wecom, settings, request)).outcome, { status: "delivered" });
    }
    assert.deepEqual(fake.violations, []);
  });

  test("a value from outside arrives as the text that it is", async (t) => {
    const fake = await startWecom(t);
    const text = "**Fixed** [safe](https://evil.example) in __init__.py";
    const payload = { text, literals: [[10, text.length]], extra: {} };
    const { outcome } = await sendThrough(wecom, webhook(fake.url), { payload });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.asked[0]?.body, {
      msgtype: "text",
      text: { content: "Fixed [safe](https://evil.example) in __init__.py" },
    });
  });

  test("no one is mentioned, however the text is rendered", async (t) => {
    const fake = await startWecom(t);
    for (const text of ["<@all> <@zhangsan>", "<\u0000@all>", `${"<@".repeat(5000)}`]) {
      assert.deepEqual((await sendThrough(wecom, webhook(fake.url), { text })).outcome, {
        status: "delivered",
      });
    }
    assert.deepEqual(fake.violations, []);
    assert.ok(fake.asked.length >= 3);
    for (const { raw } of fake.asked) assert.doesNotMatch(raw, /<@/);
  });

  test("45009 is waited for a minute, in which nothing is sent", async (t) => {
    const fake = await startWecom(t);
    const clock = new FakeClock();
    const target = wecom.create(webhook(fake.url), platformParts({ clock }));
    fake.next(robotError(45009, "api freq out of limit, hint: [123], more info at x"));
    const outcome = await sendTo(target, { address: "" });
    assert.deepEqual(
      { ...outcome, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 60_000 },
    );
    assert.equal(said(outcome), "WeCom refused the message: api freq out of limit (45009).");
    assert.equal(target.isReady?.(), false);
    assert.equal((await sendTo(target, { address: "webhook" })).status, "retry");
    assert.equal(fake.asked.length, 1);
    clock.tick(60_000);
    assert.equal(target.isReady?.(), true);
    assert.deepEqual(await sendTo(target, { address: "webhook" }), { status: "delivered" });
  });

  test("20 messages go out in a minute, the 21st waits", async (t) => {
    const fake = await startWecom(t);
    const target = wecom.create(webhook(fake.url), platformParts({ clock: new FakeClock() }));
    for (let n = 0; n < 20; n += 1) {
      assert.deepEqual(await sendTo(target, { address: "" }), { status: "delivered" });
    }
    const outcome = await sendTo(target, { address: "" });
    assert.deepEqual(
      { ...outcome, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 60_000 },
    );
    assert.equal(fake.asked.length, 20);
  });

  test("93000 is given up with the setting's name, other refusals with WeCom's words", async (t) => {
    const fake = await startWecom(t);
    const wrong = { webhook_url: `${fake.url}/cgi-bin/webhook/send?key=some-other-key-of-nobody` };
    const { outcome } = await sendThrough(wecom, wrong, {});
    assert.equal(outcome.status, "permanent");
    assert.match(said(outcome), /93000.*WECOM_WEBHOOK_URL/);
    assert.ok(!said(outcome).includes("some-other-key"));
    fake.next(robotError(40058, "invalid Request Parameter"), robotError(-1, "system busy"));
    const refused = await sendThrough(wecom, webhook(fake.url), {});
    assert.deepEqual(refused.outcome, {
      status: "permanent",
      error: "WeCom refused the message: invalid Request Parameter (40058).",
    });
    assert.equal((await sendThrough(wecom, webhook(fake.url), {})).outcome.status, "retry");
  });

  test("a chat is not sent to another group: without a bot it is given up", async (t) => {
    const fake = await startWecom(t);
    const { outcome } = await sendThrough(wecom, webhook(fake.url), { address: "zhangsan" });
    assert.equal(outcome.status, "permanent");
    assert.match(said(outcome), /WECOM_BOT_ID/);
    assert.equal(fake.asked.length, 0);
  });
});

describe("wecom: both ways", () => {
  test("the home is home_channel with a bot, else the webhook", () => {
    const home = (settings: object) => wecom.create(settings, platformParts()).home;
    assert.equal(home({ ...bot("ws://x"), home_channel: "zhangsan" }), "zhangsan");
    assert.equal(home(webhook("http://x")), "webhook");
    assert.equal(home({ ...webhook("http://x"), home_channel: "zhangsan" }), "webhook");
    assert.equal(home(bot("ws://x")), undefined);
  });

  test("the settings that lack are named with their variables", () => {
    assert.match(wecom.missing({}).join(), /WECOM_BOT_ID.*WECOM_SECRET.*WECOM_WEBHOOK_URL/);
    assert.deepEqual(wecom.missing({ bot_id: "x" }), ["secret (WECOM_SECRET)"]);
    assert.deepEqual(wecom.missing({ secret: "x" }), ["bot_id (WECOM_BOT_ID)"]);
    assert.deepEqual(wecom.missing(webhook("https://qyapi.weixin.qq.com")), []);
    assert.deepEqual(wecom.missing(bot("wss://x")), []);
    assert.match(wecom.missing({ webhook_url: "https://qyapi.weixin.qq.com/" }).join(), /webhook_url/);
  });
});

testBadPlatform("WeCom's webhook", {
  platform: wecom,
  start: startWecom,
  settings: webhook,
  request: {},
  secrets: [WECOM_KEY],
});
