import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { offTracer } from "../../../src/base/observe.ts";
import { qqbot } from "../../../src/deliver/targets/qqbot.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { error, QQ, startQq, tokenReply } from "../../harness/platforms/qqbot.ts";
import { platformParts, sendThrough } from "../../harness/platforms/send.ts";

const settings = (url: string) => ({
  app_id: QQ.appId,
  client_secret: QQ.clientSecret,
  base_url: url,
  token_url: url,
});

describe("qqbot: POST /v2/users|groups/{openid}/messages and /channels/{id}/messages", () => {
  test("a message is one POST of content and msg_type with Authorization: QQBot, after one for the token", async (t) => {
    const fake = await startQq(t);
    const { outcome } = await sendThrough(qqbot, settings(fake.url), {
      address: "user:U1",
      text: "**Hello**",
    });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.violations, []);
    const [token, message] = fake.asked;
    assert.deepEqual(token?.body, { appId: QQ.appId, clientSecret: QQ.clientSecret });
    assert.equal(message?.path, "/v2/users/U1/messages");
    assert.equal(message?.headers.authorization, `QQBot ${QQ.token}`);
    assert.deepEqual(message?.body, { content: "Hello", msg_type: 0 });
  });

  test("addresses are user:OPENID, group:OPENID and channel:ID; others are given up", async (t) => {
    const fake = await startQq(t);
    for (const address of ["group:G1", "channel:77"]) {
      const { outcome } = await sendThrough(qqbot, settings(fake.url), { address });
      assert.deepEqual(outcome, { status: "delivered" }, address);
    }
    assert.deepEqual(fake.violations, []);
    assert.deepEqual(fake.asked.at(-1)?.body, { content: "Hello" });
    const before = fake.asked.length;
    for (const address of ["", "U1", "guild:1", "user:", "user:../x", "user:a/b", "channel:1?x=1"]) {
      const { outcome } = await sendThrough(qqbot, settings(fake.url), { address });
      assert.equal(outcome.status, "permanent", address);
      assert.match((outcome as { error: string }).error, /chat/);
    }
    assert.equal(fake.asked.length, before);
  });

  test("the home channel is the target's home", () => {
    const target = qqbot.create({ ...settings("http://x"), home_channel: "group:G1" }, platformParts());
    assert.equal(target.home, "group:G1");
  });

  test("the token is asked for once while it is good, and anew once it is refused", async (t) => {
    const fake = await startQq(t);
    const clock = new FakeClock();
    const target = qqbot.create(settings(fake.url), platformParts({ clock }));
    const send = () =>
      target.send(
        {
          id: "out_1",
          address: "user:U1",
          payload: { text: "x", extra: {} },
          ref: undefined,
          attempt: 1,
          partsSent: 0,
          createdAtMs: 0,
        },
        { signal: new AbortController().signal, span: offTracer.start("send", {}), progress: async () => {} },
      );
    await send();
    await send();
    assert.equal(fake.asked.filter(({ path }) => path.startsWith("/app")).length, 1);
    fake.next(error(401, 11244, "token not exist or expire"));
    assert.deepEqual(await send(), { status: "delivered" });
    assert.equal(fake.asked.filter(({ path }) => path.startsWith("/app")).length, 2);
    clock.tick(7_200_000);
    await send();
    assert.equal(fake.asked.filter(({ path }) => path.startsWith("/app")).length, 3);
  });

  test("a wrong app_id or client_secret is given up with the keys' names, whatever status says so", async (t) => {
    for (const reply of [
      undefined,
      { status: 401, body: {} },
      { status: 400, body: { code: 100016, message: "invalid appid or secret" } },
    ]) {
      const fake = await startQq(t);
      if (reply) fake.next(reply);
      const wrong = { ...settings(fake.url), client_secret: "another-secret-of-no-bot" };
      const { outcome } = await sendThrough(qqbot, wrong, { address: "user:U1" });
      assert.equal(outcome.status, "permanent");
      const said = (outcome as { error: string }).error;
      assert.match(said, /QQ_APP_ID/);
      assert.match(said, /QQ_CLIENT_SECRET/);
      assert.ok(!said.includes("another-secret"));
      assert.equal(fake.asked.length, 1);
    }
  });

  test("a temporary failure to get a token is certain: the message is retried", async (t) => {
    for (const fault of ["close", "truncate", "html"] as const) {
      const fake = await startQq(t);
      fake.next(fault);
      const { outcome } = await sendThrough(qqbot, settings(fake.url), { address: "user:U1" });
      assert.equal(outcome.status, "retry", fault);
      assert.equal(fake.asked.length, 1);
    }
  });

  test("msg_id of deliver_extra makes an answer, whose msg_seq counts the parts and is the same in each attempt", async (t) => {
    const fake = await startQq(t);
    const text = "word ".repeat(1500);
    const request = { address: "group:G1", text, extra: { msg_id: "MSG_1" } };
    const { outcome, progress } = await sendThrough(qqbot, settings(fake.url), request);
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(progress, [1]);
    const sequences = fake.asked.slice(1).map(({ body }) => Number(body?.["msg_seq"]));
    assert.equal(sequences[1], sequences[0]! + 1);
    // Both arrived, and nobody knows: the repeat is refused as one, and so it is delivered.
    const again = await sendThrough(qqbot, settings(fake.url), { ...request, attempt: 2 });
    assert.deepEqual(again.outcome, { status: "delivered" });
    const repeated = fake.asked.slice(4).map(({ body }) => Number(body?.["msg_seq"]));
    assert.deepEqual(repeated, sequences);
    assert.deepEqual(fake.violations, []);
  });

  test("another message that answers the same one has other numbers", async (t) => {
    const fake = await startQq(t);
    for (const id of ["out_1", "out_2"]) {
      const request = { id, address: "user:U1", extra: { msg_id: "MSG_1" } };
      assert.deepEqual((await sendThrough(qqbot, settings(fake.url), request)).outcome, {
        status: "delivered",
      });
    }
  });

  test("msg_seq of deliver_extra is the first number; one that was used is given up at the first attempt", async (t) => {
    const fake = await startQq(t);
    const request = { address: "user:U1", extra: { msg_id: "MSG_1", msg_seq: 3 } };
    await sendThrough(qqbot, settings(fake.url), request);
    assert.equal(fake.asked.at(-1)?.body?.["msg_seq"], 3);
    const { outcome } = await sendThrough(qqbot, settings(fake.url), request);
    assert.equal(outcome.status, "permanent");
    assert.match((outcome as { error: string }).error, /msg_seq/);
    for (const bad of [0, -1, 1.5, "x"]) {
      const refused = await sendThrough(qqbot, settings(fake.url), {
        ...request,
        extra: { msg_id: "MSG_1", msg_seq: bad },
      });
      assert.equal(refused.outcome.status, "permanent", String(bad));
    }
  });

  test("at most five parts go out: a message may be answered five times", async (t) => {
    const fake = await startQq(t);
    const request = { address: "user:U1", text: "word ".repeat(20_000), extra: { msg_id: "MSG_1" } };
    assert.deepEqual((await sendThrough(qqbot, settings(fake.url), request)).outcome, {
      status: "delivered",
    });
    assert.equal(fake.asked.length, 6);
    const { outcome } = await sendThrough(qqbot, settings(fake.url), {
      ...request,
      id: "out_2",
      text: "six",
    });
    assert.equal(outcome.status, "permanent");
    assert.match((outcome as { error: string }).error, /msg limit exceed \(22009\).*msg_id/);
  });

  test("40034xxx, 22009 and 3040xx are given up with QQ's words and what to do", async (t) => {
    const fake = await startQq(t);
    for (const [code, text] of [
      [40034025, "请求参数msg_id无效或越权"],
      [40034102, "主动消息失败, 无权限"],
      [22009, "msg limit exceed"],
      [304027, "MSG_EXPIRE"],
      [304045, "push channel limit"],
      [304046, "not allowed"],
    ] as const) {
      fake.next(tokenReply, error(400, code, text));
      const { outcome } = await sendThrough(qqbot, settings(fake.url), { address: "group:G1" });
      assert.equal(outcome.status, "permanent");
      const said = (outcome as { error: string }).error;
      assert.ok(said.includes(`${text} (${code})`), said);
      assert.match(said, /deliver_extra\.msg_id/);
    }
  });

  test("304023 and 304024: QQ has the message and checks it, so it is delivered", async (t) => {
    const fake = await startQq(t);
    for (const code of [304023, 304024]) {
      fake.next(tokenReply, {
        status: 202,
        body: {
          code,
          message: "push message is waiting for audit now",
          data: { message_audit: { audit_id: "a" } },
        },
      });
      const { outcome } = await sendThrough(qqbot, settings(fake.url), { address: "channel:77" });
      assert.deepEqual(outcome, { status: "delivered" });
    }
  });

  test("201 and 202 with another code are not success", async (t) => {
    const fake = await startQq(t);
    fake.next(tokenReply, error(202, 304025, "message is hit"));
    const { outcome } = await sendThrough(qqbot, settings(fake.url), { address: "channel:77" });
    assert.equal(outcome.status, "permanent");
  });

  test("too fast is waited for; failures within QQ are tried again", async (t) => {
    const fake = await startQq(t);
    fake.next(tokenReply, error(400, 20028, "channel hit write rate limit"));
    const { outcome } = await sendThrough(qqbot, settings(fake.url), { address: "channel:77" });
    assert.deepEqual(
      { ...outcome, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 60_000 },
    );
    fake.next(tokenReply, error(400, 11252, "check app privilege failed"));
    const again = await sendThrough(qqbot, settings(fake.url), { address: "channel:77" });
    assert.equal(again.outcome.status, "retry");
    assert.equal("isThrottled" in again.outcome, false);
  });

  test("addresses that are not registered at QQ are named as the reason", async (t) => {
    const fake = await startQq(t);
    fake.next(tokenReply, error(400, 304003, "url not allowed"));
    const { outcome } = await sendThrough(qqbot, settings(fake.url), { address: "channel:77" });
    assert.match((outcome as { error: string }).error, /Register the links/);
  });

  test("no one is mentioned in a channel", async (t) => {
    const fake = await startQq(t);
    const text = "@everyone <@everyone> <qqbot-at-everyone /> <@!123> @\u0000everyone";
    await sendThrough(qqbot, settings(fake.url), { address: "channel:77", text });
    const content = String(fake.asked.at(-1)?.body?.["content"]);
    assert.doesNotMatch(content, /@everyone|<qqbot-at|<@!?\d/);
  });

  test("the settings that lack are named with their variables", () => {
    assert.deepEqual(qqbot.missing({}), ["app_id (QQ_APP_ID)", "client_secret (QQ_CLIENT_SECRET)"]);
    assert.deepEqual(qqbot.missing(settings("http://x")), []);
  });
});

testBadPlatform("QQ", {
  platform: qqbot,
  start: startQq,
  settings,
  request: { address: "user:U1" },
  before: [tokenReply],
  secrets: [QQ.clientSecret, QQ.token],
});
