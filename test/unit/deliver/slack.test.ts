import assert from "node:assert/strict";
import { test } from "node:test";
import { slack } from "../../../src/deliver/targets/slack.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import {
  CHANNEL,
  refusal,
  REFUSING,
  SLACK_TOKEN,
  startSlack,
  THREAD_TS,
} from "../../harness/platforms/slack.ts";
import { lacksVendorSpec, vendorBody } from "../../harness/platforms/vendor-schema.ts";

const token = SLACK_TOKEN;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup) {
  const fake = await startSlack(t);
  const settings = { token, base_url: fake.url };
  return {
    fake,
    send: (request: SendRequest, more = {}) => sendThrough(slack, { ...settings, ...more }, request),
  };
}

test("a message is one POST of channel and text to chat.postMessage, as JSON with its charset", async (t) => {
  const { fake, send } = await place(t);
  const { outcome } = await send({ address: CHANNEL, text: "Hello" });
  assert.deepEqual(outcome, { status: "delivered" });
  const [asked] = fake.asked;
  assert.deepEqual([asked?.method, asked?.path], ["POST", "/chat.postMessage"]);
  assert.match(asked?.headers["content-type"] ?? "", /charset=utf-8/);
  assert.deepEqual(asked?.body, { channel: CHANNEL, text: "Hello", mrkdwn: true });
  assert.deepEqual(fake.violations, []);
});

test("Markdown becomes mrkdwn; &, < and > are escaped, so that no one is mentioned", async (t) => {
  const { fake, send } = await place(t);
  const text = "**bold** [site](https://example.org/?a=1&b=2) a<b & c>d <!channel> <@U012AB3CD> <!everyone>";
  const { outcome } = await send({ address: CHANNEL, text });
  assert.deepEqual(outcome, { status: "delivered" });
  const said = String(fake.asked[0]?.body?.["text"]);
  assert.match(said, /\*bold\*/);
  assert.match(said, /<https:\/\/example\.org\/\?a=1&amp;b=2\|site>/);
  assert.match(said, /a&lt;b &amp; c&gt;d/);
  assert.doesNotMatch(said, /<[!@#]/);
  assert.deepEqual(fake.violations, []);
});

test("the thread of the address, or of deliver_extra, is thread_ts", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: `${CHANNEL}:${THREAD_TS}` });
  await send({ address: CHANNEL, extra: { thread_id: THREAD_TS, reply_broadcast: true } });
  assert.deepEqual(
    fake.asked.map(({ body }) => body?.["thread_ts"]),
    [THREAD_TS, THREAD_TS],
  );
  assert.equal(fake.asked[1]?.body?.["reply_broadcast"], true);
});

test("unfurling is as deliver_extra says, and Slack's default where it says nothing", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: CHANNEL, extra: { unfurl_links: false, unfurl_media: true, unknown: 1 } });
  await send({ address: CHANNEL, extra: { unfurl_links: "no" } });
  assert.deepEqual(fake.asked[0]?.body, {
    channel: CHANNEL,
    text: "Hello",
    mrkdwn: true,
    unfurl_links: false,
    unfurl_media: true,
  });
  assert.equal(fake.asked[1]?.body?.["unfurl_links"], undefined);
});

test("long texts go out in parts of at most 4000 units", async (t) => {
  const { fake, send } = await place(t);
  const { outcome, progress } = await send({ address: CHANNEL, text: "a & b < c. ".repeat(1_000) });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.violations, []);
  assert.equal(progress.length, fake.asked.length - 1);
  for (const { body } of fake.asked) assert.ok(String(body?.["text"]).length <= 4_000);
});

test("errors come with status 200: they are given up, and it is said what to do", async (t) => {
  const { fake, send } = await place(t);
  const said = async (address: string, more = {}) => {
    const { outcome } = await send({ address }, more);
    return `${outcome.status} ${"error" in outcome ? outcome.error : ""}`;
  };
  const [outside = "", archived = "", readOnly = ""] = Object.keys(REFUSING);
  assert.match(await said("C0000000999"), /^permanent .*channel_not_found.*invited/);
  assert.match(await said(outside), /^permanent .*not_in_channel.*Invite the bot.*\/invite/);
  assert.match(await said(archived), /^permanent .*is_archived.*another channel/);
  assert.match(await said(readOnly), /^permanent .*read_only_channel.*allow the bot to post/);
  assert.match(await said(CHANNEL, { token: "another-token" }), /^permanent .*invalid_auth.*SLACK_BOT_TOKEN/);
  assert.match(await said(`${CHANNEL}:1700000009.000900`), /^permanent .*thread_not_found/);
  fake.next(refusal("missing_scope", { needed: "chat:write", provided: "users:read" }));
  assert.match(await said(CHANNEL), /^permanent .*needs chat:write.*Add the scope/);
  fake.next(refusal("msg_too_long"));
  assert.match(await said(CHANNEL), /^permanent .*msg_too_long.*text_limit/);
  fake.next(refusal("message_limit_exceeded"));
  assert.match(await said(CHANNEL), /^permanent .*administrator/);
  fake.next(refusal("an_error_of_tomorrow"));
  assert.match(await said(CHANNEL), /^permanent .*an_error_of_tomorrow/);
});

test("errors of the service itself are tried again", async (t) => {
  const { fake, send } = await place(t);
  for (const name of ["internal_error", "fatal_error", "service_unavailable", "request_timeout"]) {
    fake.next(refusal(name));
    const { outcome } = await send({ address: CHANNEL });
    assert.deepEqual(outcome, { status: "retry", error: `Slack refused it: ${name}.` });
  }
});

test("a rate limit is waited for as Retry-After says, whatever the status", async (t) => {
  const { fake, send } = await place(t);
  fake.next(
    { status: 429, headers: { "retry-after": "30" }, body: { ok: false, error: "ratelimited" } },
    { ...refusal("rate_limited"), headers: { "retry-after": "3" } },
  );
  const first = await send({ address: CHANNEL });
  const second = await send({ address: CHANNEL });
  assert.deepEqual(
    [first.outcome, second.outcome].map((outcome) => ({ ...outcome, error: "" })),
    [30_000, 3_000].map((afterMs) => ({ status: "retry", error: "", isThrottled: true, afterMs })),
  );
});

test("names of errors do not bring text of their own into what people read", async (t) => {
  const { fake, send } = await place(t);
  fake.next(refusal(`bad\n\u001b[31m${"x".repeat(500)}`));
  const { outcome } = await send({ address: CHANNEL });
  const said = (outcome as { error: string }).error;
  assert.ok(said.length < 150);
  assert.doesNotMatch(said, /\p{Cc}/u);
});

test("no channel, or what can be none: given up before anything is asked", async (t) => {
  const { fake, send } = await place(t);
  for (const address of ["", "two words", "<!channel>", `${CHANNEL}:yesterday`]) {
    assert.equal((await send({ address })).outcome.status, "permanent", address);
  }
  const { outcome } = await send({ address: "" });
  assert.match((outcome as { error: string }).error, /SLACK_HOME_CHANNEL/);
  assert.equal(fake.asked.length, 0);
});

test("a channel may be named: #general", async (t) => {
  const { send } = await place(t);
  assert.equal((await send({ address: "#general" })).outcome.status, "delivered");
});

test("an uncertain message stays unknown: Slack does not detect repeats", () => {
  const target = slack.create({ token, home_channel: CHANNEL }, platformParts());
  assert.equal(target.supportsIdempotency, undefined);
  assert.equal(target.home, CHANNEL);
  assert.deepEqual(slack.missing({}), ["token (SLACK_BOT_TOKEN)"]);
});

test(
  "what is sent is what Slack's published description has",
  { skip: lacksVendorSpec("slack.json") },
  async (t) => {
    const { fake, send } = await place(t);
    const check = vendorBody("slack.json", "/chat.postMessage");
    await send({ address: `${CHANNEL}:${THREAD_TS}`, extra: { unfurl_links: true, reply_broadcast: true } });
    assert.equal(check(fake.asked[0]?.body), undefined);
    assert.notEqual(check({ channel: CHANNEL, nothing: 1 }), undefined);
    assert.notEqual(check({ text: "no channel" }), undefined);
  },
);

testBadPlatform("Slack", {
  platform: slack,
  start: startSlack,
  settings: (url) => ({ token, base_url: url }),
  request: { address: CHANNEL },
  secrets: [token],
});
