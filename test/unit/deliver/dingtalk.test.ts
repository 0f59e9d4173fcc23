import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { offTracer } from "../../../src/base/observe.ts";
import { dingtalk } from "../../../src/deliver/targets/dingtalk/dingtalk.ts";
import type { Delivery, SendOutcome, Target } from "../../../src/deliver/target.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import {
  appError,
  DINGTALK,
  robotError,
  startDingtalk,
  tokenReply,
} from "../../harness/platforms/dingtalk.ts";
import { platformParts, sendThrough } from "../../harness/platforms/send.ts";

const webhook = (url: string) => ({ webhook_url: `${url}/robot/send?access_token=${DINGTALK.webhookToken}` });
const app = (url: string) => ({
  base_url: url,
  client_id: DINGTALK.clientId,
  client_secret: DINGTALK.clientSecret,
});

function sendTo(target: Target, delivery: Partial<Delivery> = {}): Promise<SendOutcome> {
  return target.send(
    {
      id: "out_1",
      address: "",
      payload: { text: "Hello", extra: {} },
      ref: undefined,
      attempt: 1,
      partsSent: 0,
      createdAtMs: 0,
      ...delivery,
    },
    { signal: new AbortController().signal, span: offTracer.start("send", {}), progress: async () => {} },
  );
}

function said(outcome: SendOutcome): string {
  return "error" in outcome ? outcome.error : "";
}

describe("dingtalk: the webhook of a group's robot", () => {
  test("a message is one POST of a Markdown with a title to /robot/send?access_token=", async (t) => {
    const fake = await startDingtalk(t);
    const text = "# Report\n\nAll **well**.";
    const { outcome } = await sendThrough(dingtalk, webhook(fake.url), { text });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.violations, []);
    const [asked] = fake.asked;
    assert.equal(asked?.query.toString(), `access_token=${DINGTALK.webhookToken}`);
    const { msgtype, markdown } = (asked?.body ?? {}) as {
      msgtype: string;
      markdown: { title: string; text: string };
    };
    assert.equal(msgtype, "markdown");
    assert.match(markdown.title, /^Report/);
    assert.match(markdown.text, /# Report\n+All \*\*well\*\*\./);
  });

  test("deliver_extra.title is the title, msgtype text sends plain words", async (t) => {
    const fake = await startDingtalk(t);
    await sendThrough(dingtalk, webhook(fake.url), { text: "x", extra: { title: "Night run" } });
    assert.deepEqual(fake.asked[0]?.body?.["markdown"], { title: "Night run", text: "x" });
    await sendThrough(dingtalk, webhook(fake.url), {
      text: "x",
      extra: { title: `\u0000${"long ".repeat(99)}` },
    });
    const { title } = Object(fake.asked[1]?.body?.["markdown"]) as { readonly title: string };
    assert.equal(title, `${"long ".repeat(8).slice(0, 39)}…`);
    await sendThrough(dingtalk, webhook(fake.url), { text: "**x**", extra: { msgtype: "text" } });
    assert.deepEqual(fake.asked[2]?.body, { msgtype: "text", text: { content: "x" } });
    assert.deepEqual(fake.violations, []);
  });

  test("a value from outside arrives as the text that it is", async (t) => {
    const fake = await startDingtalk(t);
    const text = "**Fixed** [safe](https://evil.example) in __init__.py";
    const payload = { text, literals: [[10, text.length]], extra: {} };
    const { outcome } = await sendThrough(dingtalk, webhook(fake.url), { payload });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.asked[0]?.body, {
      msgtype: "text",
      text: { content: "Fixed [safe](https://evil.example) in __init__.py" },
    });
  });

  test("with webhook_secret each request is signed with its own timestamp", async (t) => {
    const clock = new FakeClock();
    const fake = await startDingtalk(t, { signedAtMs: clock.now() });
    const settings = { ...webhook(fake.url), webhook_secret: DINGTALK.webhookSecret };
    const { outcome } = await sendThrough(dingtalk, settings, {}, { clock });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.equal(fake.asked[0]?.query.get("timestamp"), String(clock.now()));
    clock.tick(3_600_001);
    const late = await sendThrough(dingtalk, settings, {}, { clock });
    assert.equal(late.outcome.status, "permanent");
  });

  test("310000 is given up, and it is said which of the robot's rules is meant", async (t) => {
    const fake = await startDingtalk(t);
    for (const [reason, hint] of [
      [
        "description:机器人发送签名不匹配;solution:sign not match",
        /webhook_secret \(DINGTALK_WEBHOOK_SECRET\)/,
      ],
      ["description:关键词不匹配;solution:keywords not in content", /keywords/],
      ["description:来源IP不在IP列表中;solution:ip 1.2.3.4 not in whitelist", /address/],
    ] as const) {
      fake.next(robotError(310000, reason));
      const { outcome } = await sendThrough(dingtalk, webhook(fake.url), {});
      assert.equal(outcome.status, "permanent");
      assert.match(said(outcome), hint);
      assert.match(said(outcome), /\(310000\)/);
    }
  });

  test("a key that DingTalk does not know is given up with the setting's name", async (t) => {
    const fake = await startDingtalk(t);
    const settings = { webhook_url: `${fake.url}/robot/send?access_token=some-other-key-of-nobody` };
    const { outcome } = await sendThrough(dingtalk, settings, {});
    assert.equal(outcome.status, "permanent");
    assert.match(said(outcome), /300005.*DINGTALK_WEBHOOK_URL/);
    assert.ok(!said(outcome).includes("some-other-key"));
  });

  test("error 130101 stops all sending by the robot for 10 minutes", async (t) => {
    const fake = await startDingtalk(t);
    const clock = new FakeClock();
    const target = dingtalk.create(webhook(fake.url), platformParts({ clock }));
    assert.equal(target.isReady?.(), true);
    fake.next(robotError(130101, "send too fast, exceed 20 times per minute"));
    const first = await sendTo(target);
    assert.deepEqual(
      { ...first, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 600_000 },
    );
    assert.equal(target.isReady?.(), false);
    clock.tick(60_000);
    const second = await sendTo(target);
    assert.deepEqual(
      { ...second, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 540_000 },
    );
    assert.equal(fake.asked.length, 1);
    clock.tick(540_000);
    assert.equal(target.isReady?.(), true);
    assert.deepEqual(await sendTo(target), { status: "delivered" });
  });

  test("20 messages go out in a minute; the 21st waits, before DingTalk punishes it", async (t) => {
    const fake = await startDingtalk(t);
    const clock = new FakeClock();
    const target = dingtalk.create(webhook(fake.url), platformParts({ clock }));
    for (let n = 0; n < 20; n += 1) assert.deepEqual(await sendTo(target), { status: "delivered" });
    const outcome = await sendTo(target);
    assert.deepEqual(
      { ...outcome, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 60_000 },
    );
    assert.equal(fake.asked.length, 20);
    assert.equal(target.isReady?.(), false);
  });

  test("a limit of another kind is waited for a minute; a busy system is tried again", async (t) => {
    const fake = await startDingtalk(t);
    fake.next(robotError(410100, "too fast"));
    const limited = await sendThrough(dingtalk, webhook(fake.url), {});
    assert.deepEqual(
      { ...limited.outcome, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 60_000 },
    );
    fake.next(robotError(-1, "system busy"));
    const busy = await sendThrough(dingtalk, webhook(fake.url), {});
    assert.deepEqual({ ...busy.outcome, error: "" }, { status: "retry", error: "" });
  });

  test("what only grows as JSON still fits into 20,000 bytes", async (t) => {
    const fake = await startDingtalk(t);
    for (const text of ['"\\'.repeat(20_000), "漢字".repeat(9_000), "a\n\n".repeat(9_000)]) {
      const settings = { ...webhook(fake.url), text_limit: 1_000_000 };
      const { outcome } = await sendThrough(dingtalk, settings, { text });
      assert.deepEqual(outcome, { status: "delivered" });
    }
    assert.deepEqual(fake.violations, []);
  });

  test("a later attempt begins behind the parts that have arrived", async (t) => {
    const fake = await startDingtalk(t);
    const request = { text: "One sentence stands here. ".repeat(1200), partsSent: 1, attempt: 2 };
    const { outcome } = await sendThrough(dingtalk, webhook(fake.url), request);
    assert.deepEqual(outcome, { status: "delivered" });
    assert.equal(fake.asked.length, 2);
  });

  test("a chat is not sent to another group: without an app it is given up", async (t) => {
    const fake = await startDingtalk(t);
    const { outcome } = await sendThrough(dingtalk, webhook(fake.url), { address: DINGTALK.group });
    assert.equal(outcome.status, "permanent");
    assert.match(said(outcome), /DINGTALK_CLIENT_ID/);
    assert.equal(fake.asked.length, 0);
  });
});

describe("dingtalk: the robot of an app", () => {
  test("a group gets one POST to groupMessages/send, after one for the token", async (t) => {
    const fake = await startDingtalk(t);
    const { outcome } = await sendThrough(dingtalk, app(fake.url), {
      address: DINGTALK.group,
      text: "**Hi**",
    });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.violations, []);
    const [token, message] = fake.asked;
    assert.deepEqual(token?.body, { appKey: DINGTALK.clientId, appSecret: DINGTALK.clientSecret });
    assert.equal(message?.headers["x-acs-dingtalk-access-token"], DINGTALK.accessToken);
    assert.deepEqual(message?.body, {
      robotCode: DINGTALK.clientId,
      openConversationId: DINGTALK.group,
      msgKey: "sampleMarkdown",
      msgParam: JSON.stringify({ title: "Hi", text: "**Hi**" }),
    });
  });

  test("user:ID gets one POST to oToMessages/batchSend; msgtype text sends sampleText", async (t) => {
    const fake = await startDingtalk(t);
    const request = { address: `user:${DINGTALK.user}`, extra: { msgtype: "text" } };
    const { outcome } = await sendThrough(dingtalk, app(fake.url), request);
    assert.deepEqual(outcome, { status: "delivered" });
    const [, message] = fake.asked;
    assert.equal(message?.path, "/v1.0/robot/oToMessages/batchSend");
    assert.deepEqual(message?.body, {
      robotCode: DINGTALK.clientId,
      userIds: [DINGTALK.user],
      msgKey: "sampleText",
      msgParam: '{"content":"Hello"}',
    });
  });

  test("msgParam keeps to 15,000 bytes, whatever JSON makes of the text", async (t) => {
    const fake = await startDingtalk(t);
    for (const text of ['"\\'.repeat(20_000), "漢字".repeat(9_000), "a\n\n".repeat(9_000)]) {
      const { outcome } = await sendThrough(dingtalk, app(fake.url), { address: DINGTALK.group, text });
      assert.deepEqual(outcome, { status: "delivered" });
    }
    assert.deepEqual(fake.violations, []);
  });

  test("an unknown user or group is given up, and it is said what to look at", async (t) => {
    const fake = await startDingtalk(t);
    for (const [address, hint] of [
      ["user:nobody", /user id of the organization/],
      ["cidother==", /robot is still in the group/],
    ] as const) {
      const { outcome } = await sendThrough(dingtalk, app(fake.url), { address });
      assert.equal(outcome.status, "permanent");
      assert.match(said(outcome), hint);
    }
  });

  test("an address that cannot be a chat is given up before anything is asked", async (t) => {
    const fake = await startDingtalk(t);
    for (const address of ["", "webhook", "user:", "user:a b", "a b", "x\ny"]) {
      const { outcome } = await sendThrough(dingtalk, app(fake.url), { address });
      assert.equal(outcome.status, "permanent", address);
    }
    assert.equal(fake.asked.length, 0);
  });

  test("a user whose flow is controlled, and too many questions, are waited for", async (t) => {
    const fake = await startDingtalk(t);
    fake.next(
      tokenReply,
      { status: 200, body: { processQueryKey: "k", flowControlledStaffIdList: [DINGTALK.user] } },
      tokenReply,
      appError(403, "Forbidden.AccessDenied.QpsLimitForApi", "qps"),
    );
    for (const _ of [1, 2]) {
      const { outcome } = await sendThrough(dingtalk, app(fake.url), { address: `user:${DINGTALK.user}` });
      assert.deepEqual(
        { ...outcome, error: "" },
        { status: "retry", error: "", isThrottled: true, afterMs: 60_000 },
      );
    }
  });

  test("unknown.send.result is unknown, as DingTalk says", async (t) => {
    const fake = await startDingtalk(t);
    fake.next(tokenReply, appError(400, "unknown.send.result", "unknown"));
    const { outcome } = await sendThrough(dingtalk, app(fake.url), { address: DINGTALK.group });
    assert.equal(outcome.status, "unknown");
  });

  test("the token is kept, and asked for anew once when it is refused", async (t) => {
    const fake = await startDingtalk(t);
    const target = dingtalk.create(app(fake.url), platformParts());
    const address = DINGTALK.group;
    await sendTo(target, { address });
    await sendTo(target, { address });
    assert.equal(fake.asked.length, 3);
    fake.next(appError(400, "InvalidAuthentication", "不合法的access_token"));
    assert.deepEqual(await sendTo(target, { address }), { status: "delivered" });
    assert.equal(fake.asked.length, 6);
  });

  test("a wrong client_id or client_secret is given up with the keys' names", async (t) => {
    const fake = await startDingtalk(t);
    const wrong = { ...app(fake.url), client_secret: "another-secret-of-nobody" };
    const { outcome } = await sendThrough(dingtalk, wrong, { address: DINGTALK.group });
    assert.equal(outcome.status, "permanent");
    assert.match(said(outcome), /DINGTALK_CLIENT_ID.*DINGTALK_CLIENT_SECRET/);
    assert.ok(!said(outcome).includes("another-secret"));
  });
});

describe("dingtalk: both robots", () => {
  test("what names a chat goes through the app, what names none or webhook through the webhook", async (t) => {
    const fake = await startDingtalk(t);
    const both = { ...app(fake.url), ...webhook(fake.url) };
    for (const address of ["", "webhook", DINGTALK.group]) {
      assert.deepEqual((await sendThrough(dingtalk, both, { address })).outcome, { status: "delivered" });
    }
    const paths = fake.asked.map(({ path }) => path).filter((path) => !path.includes("oauth2"));
    assert.deepEqual(paths, ["/robot/send", "/robot/send", "/v1.0/robot/groupMessages/send"]);
  });

  test("the home is home_channel with an app, else the webhook", () => {
    const home = (settings: object) => dingtalk.create(settings, platformParts()).home;
    assert.equal(home({ ...app("http://x"), home_channel: "cid1==" }), "cid1==");
    assert.equal(home(webhook("http://x")), "webhook");
    assert.equal(home({ ...webhook("http://x"), home_channel: "cid1==" }), "webhook");
    assert.equal(home(app("http://x")), undefined);
  });

  test("the settings that lack are named with their variables", () => {
    assert.match(
      dingtalk.missing({}).join(),
      /DINGTALK_WEBHOOK_URL.*DINGTALK_CLIENT_ID.*DINGTALK_CLIENT_SECRET/,
    );
    assert.deepEqual(dingtalk.missing({ client_id: "x" }), ["client_secret (DINGTALK_CLIENT_SECRET)"]);
    assert.deepEqual(dingtalk.missing({ client_secret: "x" }), ["client_id (DINGTALK_CLIENT_ID)"]);
    assert.deepEqual(dingtalk.missing(webhook("https://oapi.dingtalk.com")), []);
    assert.deepEqual(dingtalk.missing(app("http://x")), []);
    for (const url of [
      "https://oapi.dingtalk.com/robot/send",
      "https://example.com/?access_token=x",
      "no url",
    ]) {
      assert.match(dingtalk.missing({ webhook_url: url }).join(), /webhook_url/, url);
    }
  });
});

testBadPlatform("DingTalk's webhook", {
  platform: dingtalk,
  start: startDingtalk,
  settings: webhook,
  request: {},
  secrets: [DINGTALK.webhookToken],
});

testBadPlatform("DingTalk's app", {
  platform: dingtalk,
  start: startDingtalk,
  settings: app,
  request: { address: DINGTALK.group },
  before: [tokenReply],
  secrets: [DINGTALK.clientSecret, DINGTALK.accessToken],
});
