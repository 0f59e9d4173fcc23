import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { weixin } from "../../../src/deliver/targets/weixin.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import { result, startWeixin, WEIXIN } from "../../harness/platforms/weixin.ts";

const settings = (url: string) => ({
  token: WEIXIN.token,
  base_url: url,
  context_tokens: { [WEIXIN.user]: WEIXIN.context },
});
const request: SendRequest = { address: WEIXIN.user };

describe("weixin: POST /ilink/bot/sendmessage", () => {
  test("a message is one POST with the documented headers and the user's context token", async (t) => {
    const fake = await startWeixin(t);
    const { outcome } = await sendThrough(weixin, settings(fake.url), { ...request, text: "**Hello**" });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.violations, []);
    const [asked] = fake.asked;
    assert.equal(asked?.headers["ilink-app-clientversion"], String(0x010203));
    assert.deepEqual(asked?.body, {
      msg: {
        from_user_id: "",
        to_user_id: WEIXIN.user,
        client_id: "out_01.0",
        message_type: 2,
        message_state: 2,
        item_list: [{ type: 1, text_item: { text: "Hello" } }],
        context_token: WEIXIN.context,
      },
      base_info: { channel_version: "1.2.3", bot_agent: "agentd" },
    });
  });

  test("X-WECHAT-UIN differs from request to request", async (t) => {
    const fake = await startWeixin(t);
    for (const id of ["out_1", "out_2"]) await sendThrough(weixin, settings(fake.url), { ...request, id });
    const [first, second] = fake.asked.map(({ headers }) => headers["x-wechat-uin"]);
    assert.notEqual(first, second);
  });

  test("deliver_extra.context_token goes before the one of the settings", async (t) => {
    const fake = await startWeixin(t);
    const stale = { ...settings(fake.url), context_tokens: { [WEIXIN.user]: "stale" } };
    const { outcome } = await sendThrough(weixin, stale, {
      ...request,
      extra: { context_token: WEIXIN.context },
    });
    assert.deepEqual(outcome, { status: "delivered" });
  });

  test("without a context token nothing is asked, and it is said that the user must write first", async (t) => {
    const fake = await startWeixin(t);
    for (const address of ["somebody@im.wechat", "constructor", "__proto__"]) {
      const { outcome } = await sendThrough(weixin, settings(fake.url), { address });
      assert.equal(outcome.status, "permanent");
      assert.match((outcome as { error: string }).error, /must write to the bot first.*context_token/);
    }
    assert.equal(fake.asked.length, 0);
  });

  test("no user, and what can be none, are given up before anything is asked", async (t) => {
    const fake = await startWeixin(t);
    for (const address of ["", "a b", "x/../y", "u\n"]) {
      const { outcome } = await sendThrough(weixin, settings(fake.url), { address });
      assert.equal(outcome.status, "permanent", address);
    }
    assert.equal(fake.asked.length, 0);
  });

  test("client_id is the delivery's id and the part, the same in each attempt", async (t) => {
    const fake = await startWeixin(t);
    const text = "word ".repeat(1500);
    const { progress } = await sendThrough(weixin, settings(fake.url), { ...request, text });
    assert.deepEqual(progress, [1]);
    await sendThrough(weixin, settings(fake.url), { ...request, text, attempt: 2, partsSent: 1 });
    const ids = fake.asked.map(
      ({ body }) => (body as { readonly msg: { readonly client_id: string } }).msg.client_id,
    );
    assert.deepEqual(ids, ["out_01.0", "out_01.1", "out_01.1"]);
  });

  test("at most ten parts go out: the service takes no more until the user writes again", async (t) => {
    const fake = await startWeixin(t);
    const { outcome } = await sendThrough(weixin, settings(fake.url), {
      ...request,
      text: "word ".repeat(50_000),
    });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.equal(fake.asked.length, 10);
    const more = await sendThrough(weixin, settings(fake.url), { ...request, id: "out_02" });
    assert.equal(more.outcome.status, "retry");
    assert.match((more.outcome as { error: string }).error, /prepare failed \(-2\).*write to the bot again/);
  });

  test("-14: the session expired, which only signing in by QR code mends", async (t) => {
    const fake = await startWeixin(t);
    const { outcome } = await sendThrough(weixin, { ...settings(fake.url), token: "expired" }, request);
    assert.equal(outcome.status, "permanent");
    assert.match((outcome as { error: string }).error, /-14.*QR code.*WEIXIN_TOKEN/);
  });

  test("-12 is waited for; other codes are tried again; an empty object is a success", async (t) => {
    const fake = await startWeixin(t);
    fake.next(result(-12, "freq limit"));
    const limited = await sendThrough(weixin, settings(fake.url), request);
    assert.deepEqual(
      { ...limited.outcome, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 60_000 },
    );
    fake.next(result(-1, "system error"), { status: 200, body: { errcode: 500 } });
    for (const code of ["-1", "500"]) {
      const { outcome } = await sendThrough(weixin, settings(fake.url), request);
      assert.equal(outcome.status, "retry");
      assert.match((outcome as { error: string }).error, new RegExp(`\\(${code}\\)`));
    }
    fake.next({ status: 200, body: {} });
    assert.deepEqual((await sendThrough(weixin, settings(fake.url), request)).outcome, {
      status: "delivered",
    });
  });

  test("a context token that the service repeats stands in no outcome", async (t) => {
    const fake = await startWeixin(t);
    fake.next(result(-2, `bad token ${WEIXIN.context}`), { status: 400, body: { errmsg: WEIXIN.context } });
    for (const _ of [1, 2]) {
      const { outcome } = await sendThrough(weixin, settings(fake.url), request);
      assert.ok(!(outcome as { error: string }).error.includes(WEIXIN.context));
    }
  });

  test("the home channel is the target's home; token is what may lack", () => {
    const target = weixin.create({ ...settings("http://x"), home_channel: WEIXIN.user }, platformParts());
    assert.equal(target.home, WEIXIN.user);
    assert.deepEqual(weixin.missing({}), ["token (WEIXIN_TOKEN)"]);
  });
});

testBadPlatform("WeChat", {
  platform: weixin,
  start: startWeixin,
  settings,
  request,
  secrets: [WEIXIN.token, WEIXIN.context],
});
