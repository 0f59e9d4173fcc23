import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { offTracer } from "../../../src/base/observe.ts";
import { discord } from "../../../src/deliver/targets/discord.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import {
  DISCORD_TOKEN,
  error,
  FORUM,
  invalidContent,
  startDiscord,
  TEXT_CHANNEL,
  THREAD,
  VOICE_CATEGORY,
} from "../../harness/platforms/discord.ts";
import { doubting } from "../../harness/platforms/uncertain.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import { lacksVendorSpec, vendorBody } from "../../harness/platforms/vendor-schema.ts";

const token = DISCORD_TOKEN;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup) {
  const fake = await startDiscord(t);
  const settings = { token, base_url: fake.url };
  return {
    fake,
    send: (request: SendRequest, more = {}) => sendThrough(discord, { ...settings, ...more }, request),
  };
}

/** One target for several attempts. */
async function target(t: Cleanup) {
  const fake = await startDiscord(t);
  const clock = new FakeClock();
  const made = discord.create({ token, base_url: fake.url }, platformParts({ clock }));
  const sendDoubting = doubting(made, clock);
  const send = (
    partsSent = 0,
    extra = {},
    { address = TEXT_CHANNEL, text = "Hello", signal = new AbortController().signal } = {},
  ) =>
    sendDoubting(
      {
        id: "out_01",
        address,
        payload: { text, extra },
        ref: undefined,
        attempt: 1,
        partsSent,
        createdAtMs: 0,
      },
      {
        signal,
        span: offTracer.start("send", {}),
        progress: async () => {},
      },
    );
  return { fake, clock, made, send };
}

test("a message is one POST to the channel's messages, mentions no one, and has an enforced nonce", async (t) => {
  const { fake, send } = await place(t);
  const { outcome } = await send({ address: TEXT_CHANNEL, text: "Hello @everyone <@123>" });
  assert.deepEqual(outcome, { status: "delivered" });
  const [asked] = fake.asked;
  assert.deepEqual([asked?.method, asked?.path], ["POST", "/api/v10/channels/100/messages"]);
  const { nonce, ...body } = asked?.body ?? {};
  assert.deepEqual(body, {
    content: "Hello @everyone <@123>",
    allowed_mentions: { parse: [] },
    enforce_nonce: true,
  });
  assert.match(String(nonce), /^.{8,25}$/);
  assert.deepEqual(fake.violations, []);
});

test("the nonce is the same for every attempt at a part, and another for each part", async (t) => {
  const { fake, send } = await place(t);
  const text = "One sentence of some length. ".repeat(150);
  await send({ address: TEXT_CHANNEL, text });
  await send({ address: TEXT_CHANNEL, text, attempt: 2 });
  await send({ address: TEXT_CHANNEL, text, id: "out_02" });
  const nonces = fake.asked.map(({ body }) => body?.["nonce"]);
  const parts = nonces.length / 3;
  assert.ok(parts >= 2);
  assert.deepEqual(nonces.slice(0, parts), nonces.slice(parts, 2 * parts));
  assert.equal(new Set(nonces).size, 2 * parts);
});

test("deliver_extra allows mentions, hides link previews and suppresses notifications", async (t) => {
  const { fake, send } = await place(t);
  const extra = { allow_mentions: true, disable_notification: true, disable_web_page_preview: true };
  await send({ address: TEXT_CHANNEL, extra });
  assert.deepEqual(fake.asked[0]?.body?.["allowed_mentions"], { parse: ["users", "roles", "everyone"] });
  assert.equal(fake.asked[0]?.body?.["flags"], 4 | 4096);
});

test("a thread is a channel: the thread of the address, or of deliver_extra, gets the message", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: `${TEXT_CHANNEL}:${THREAD}` });
  await send({ address: TEXT_CHANNEL, extra: { thread_id: THREAD } });
  assert.deepEqual(
    fake.asked.map(({ path }) => path),
    [`/api/v10/channels/${THREAD}/messages`, `/api/v10/channels/${THREAD}/messages`],
  );
});

test("long texts go out in parts of at most 2000 code points", async (t) => {
  const { fake, send } = await place(t);
  const text = "\u{1f600}".repeat(4_500);
  const { outcome, progress } = await send({ address: TEXT_CHANNEL, text });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.violations, []);
  assert.equal(fake.asked.length, 3);
  assert.deepEqual(progress, [1, 2]);
});

test("in a forum a message opens a post that is named by its first line; further parts follow in the post", async (t) => {
  const { fake, send } = await place(t);
  const text = `# Nightly **report**\n\n${"A sentence of some length stands here. ".repeat(100)}`;
  const { outcome } = await send({ address: FORUM, text, extra: { forum: true, tags: ["77"] } });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.violations, []);
  const [post, ...rest] = fake.asked;
  assert.equal(post?.path, `/api/v10/channels/${FORUM}/threads`);
  assert.equal(post.body?.["name"], "Nightly report");
  assert.deepEqual(post.body?.["applied_tags"], ["77"]);
  assert.ok(rest.length >= 1);
  for (const { path } of rest) assert.match(path, /^\/api\/v10\/channels\/1\d\d\d\/messages$/);
});

test("a forum that was not named as one is found out by the API's error", async (t) => {
  const { fake, send } = await place(t);
  const { outcome } = await send({ address: FORUM, text: `${"x".repeat(150)} end` });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(
    fake.asked.map(({ path }) => path.split("/").at(-1)),
    ["messages", "threads"],
  );
  assert.equal(String(fake.asked[1]?.body?.["name"]).length, 100);
});

test("further attempts at a forum's message go on in the post that it opened", async (t) => {
  const { fake, send } = await target(t);
  const text = "A sentence of some length stands here. ".repeat(100);
  fake.next(
    { status: 201, body: { id: "100", message: { id: "100" } } },
    error(500, 0, "500: Internal Server Error"),
  );
  const first = await send(0, { forum: true }, { address: FORUM, text });
  assert.equal(first.status, "retry");
  const second = await send(1, { forum: true }, { address: FORUM, text });
  assert.equal(second.status, "delivered");
  assert.deepEqual(
    fake.asked.slice(1).map(({ path }) => path),
    Array.from({ length: fake.asked.length - 1 }, () => "/api/v10/channels/100/messages"),
  );
});

test("a post whose creation had no answer is not created twice: a person checks it and may send it again", async (t) => {
  const { fake, send } = await target(t);
  fake.next("close");
  const outcome = await send(0, { forum: true }, { address: FORUM });
  assert.equal(outcome.status === "unknown" && outcome.isFinal, true);
  assert.match((outcome as { error: string }).error, /Check whether the post exists/);
  assert.equal((await send(0, { forum: true }, { address: FORUM })).status, "delivered");
});

test("a post whose opening was cut is not opened twice either", async (t) => {
  const { fake, send } = await target(t);
  const cut = new AbortController();
  fake.next("hang");
  const sent = send(0, { forum: true }, { address: FORUM, signal: cut.signal }).then(
    ({ status }) => status,
    () => "threw",
  );
  await fake.count(1);
  cut.abort(new Error("The attempt is over."));
  assert.equal(await sent, "threw");
  const again = await send(0, { forum: true }, { address: FORUM });
  assert.equal(again.status === "unknown" && again.isFinal, true);
  assert.equal(fake.asked.length, 1);
  assert.equal((await send(0, { forum: true }, { address: FORUM })).status, "delivered");
});

test("a body that the API does not take goes out plain once", async (t) => {
  const { fake, send } = await place(t);
  fake.next(invalidContent());
  const { outcome } = await send({ address: TEXT_CHANNEL, text: "**bold**" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(
    fake.asked.map(({ body }) => body?.["content"]),
    ["**bold**", "bold"],
  );
  fake.next(invalidContent(), invalidContent());
  const again = await send({ address: TEXT_CHANNEL, text: "**bold**" });
  assert.equal(again.outcome.status, "permanent");
  assert.match((again.outcome as { error: string }).error, /text_limit/);
});

test("429 waits as long as retry_after says, with its fractions, and the channel alone is quiet", async (t) => {
  const { fake, made, send } = await target(t);
  const body = { message: "You are being rate limited.", retry_after: 0.557, global: false };
  fake.next({ status: 429, headers: { "retry-after": "1", "x-ratelimit-scope": "user" }, body });
  assert.deepEqual(await send(), {
    status: "retry",
    error: "Discord answered 429: You are being rate limited.",
    afterMs: 557,
    isThrottled: true,
  });
  assert.equal(made.isReady?.(), true);
});

test("a global 429 keeps the whole bot quiet until it is over", async (t) => {
  const { fake, clock, made, send } = await target(t);
  const body = { message: "You are being rate limited.", retry_after: 64.57, global: true };
  fake.next({ status: 429, headers: { "retry-after": "65", "x-ratelimit-global": "true" }, body });
  assert.equal((await send()).status, "retry");
  clock.tick(64_569);
  assert.equal(made.isReady?.(), false);
  clock.tick(1);
  assert.equal(made.isReady?.(), true);
});

test("what may have arrived is sent again while the nonce is remembered, and stays unknown afterwards", async (t) => {
  const { fake, clock, made, send } = await target(t);
  assert.equal(made.supportsIdempotency, true);
  fake.next("close");
  assert.equal((await send()).status, "unknown");
  clock.tick(120_000);
  fake.next("close");
  assert.equal((await send()).status, "unknown");
  assert.equal(fake.asked[0]?.body?.["nonce"], fake.asked[1]?.body?.["nonce"]);
  clock.tick(1);
  const late = await send();
  assert.equal(late.status === "unknown" && late.isFinal, true);
  assert.match((late as { error: string }).error, /may have arrived.*outbox retry/);
  assert.equal(fake.asked.length, 2);
  assert.equal((await send()).status, "delivered");
});

test("errors are given up, and it is said what to do", async (t) => {
  const { fake, send } = await place(t);
  const said = async (address: string, more = {}) => {
    const { outcome } = await send({ address }, more);
    return `${outcome.status} ${"error" in outcome ? outcome.error : ""}`;
  };
  assert.match(await said("7"), /^permanent .*Unknown Channel.*Check the channel's id/);
  assert.match(await said("500"), /^permanent .*Missing Access.*Invite the bot/);
  assert.match(await said("600"), /^permanent .*Missing Permissions.*permission to send/);
  assert.match(await said(VOICE_CATEGORY), /^permanent .*Cannot execute action/);
  assert.match(await said(TEXT_CHANNEL, { token: "a-wrong-token" }), /^permanent .*401.*platforms\.discord/);
  fake.next(error(403, 50007, "Cannot send messages to this user"));
  assert.match(await said(TEXT_CHANNEL), /^permanent .*direct messages/);
  fake.next(error(503, 130000, "API resource is currently overloaded. Try again a little later"));
  assert.match(await said(TEXT_CHANNEL), /^retry /);
});

test("no channel, or none that can be one: given up before anything is asked", async (t) => {
  const { fake, send } = await place(t);
  for (const address of ["", "general", "1;2", "100:abc", "../users/@me"]) {
    assert.equal((await send({ address })).outcome.status, "permanent", address);
  }
  const { outcome } = await send({ address: "" });
  assert.match((outcome as { error: string }).error, /DISCORD_HOME_CHANNEL/);
  assert.equal(fake.asked.length, 0);
});

test("without a token Discord is incomplete; the home channel is the target's home", () => {
  assert.deepEqual(discord.missing({}), ["token (DISCORD_BOT_TOKEN)"]);
  assert.deepEqual(discord.missing({ token }), []);
  assert.equal(discord.create({ token, home_channel: "100" }, platformParts()).home, "100");
});

test(
  "what is sent is what Discord's published description has",
  { skip: lacksVendorSpec("discord.json") },
  async (t) => {
    const { fake, send } = await place(t);
    const check = vendorBody("discord.json", "/channels/{channel_id}/messages");
    await send({ address: TEXT_CHANNEL, text: "**bold**", extra: { disable_notification: true } });
    await send({ address: FORUM, extra: { forum: true } });
    assert.equal(check(fake.asked[0]?.body), undefined);
    assert.equal(check(fake.asked[1]?.body?.["message"]), undefined);
    assert.notEqual(check({ content: 1 }), undefined);
  },
);

testBadPlatform("Discord", {
  platform: discord,
  start: startDiscord,
  settings: (url) => ({ token, base_url: url }),
  request: { address: TEXT_CHANNEL },
  secrets: [token],
});
