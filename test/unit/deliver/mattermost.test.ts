import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { mattermost } from "../../../src/deliver/targets/mattermost.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import {
  ARCHIVED,
  CHANNEL,
  error,
  MATTERMOST_TOKEN,
  ROOT_POST,
  startMattermost,
} from "../../harness/platforms/mattermost.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";

const token = MATTERMOST_TOKEN;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup) {
  const fake = await startMattermost(t);
  const clock = new FakeClock();
  const settings = { token, base_url: fake.url };
  return {
    fake,
    clock,
    send: (request: SendRequest, more = {}) =>
      sendThrough(mattermost, { ...settings, ...more }, request, { clock }),
  };
}

test("a message is one POST of channel_id and message to /api/v4/posts, as Markdown", async (t) => {
  const { fake, send } = await place(t);
  const { outcome } = await send({ address: CHANNEL, text: "**bold** and `code`", id: "out_01" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(
    fake.asked.map(({ method, path, body }) => ({ method, path, body })),
    [
      {
        method: "POST",
        path: "/api/v4/posts",
        body: { channel_id: CHANNEL, message: "**bold** and `code`", pending_post_id: "out_01.0" },
      },
    ],
  );
  assert.deepEqual(fake.violations, []);
});

test("a repeat has the same pending_post_id, each part its own", async (t) => {
  const { fake, send } = await place(t);
  const text = "One sentence of some length. ".repeat(700);
  await send({ address: CHANNEL, text });
  await send({ address: CHANNEL, text, attempt: 2, partsSent: 1 });
  assert.deepEqual(
    fake.asked.map(({ body }) => body?.["pending_post_id"]),
    ["out_01.0", "out_01.1", "out_01.1"],
  );
});

test("the thread of the address, or of deliver_extra, is root_id", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: `${CHANNEL}:${ROOT_POST}` });
  await send({ address: CHANNEL, extra: { thread_id: ROOT_POST } });
  assert.deepEqual(
    fake.asked.map(({ body }) => body?.["root_id"]),
    [ROOT_POST, ROOT_POST],
  );
});

test("@all, @channel and @here mention no one, in any case, unless allow_mentions is set", async (t) => {
  const { fake, send } = await place(t);
  const text = "@all (@Channel) **@HERE**, \\@all. &#64;all &#x40;here @&#97;ll @c&#104;annel";
  const harmless = "@allan bob@all.example.org @someone @hereafter R&D@ AT&T";
  await send({ address: CHANNEL, text: `${text} ${harmless}` });
  await send({ address: CHANNEL, text, extra: { allow_mentions: true } });
  const [defused = "", open] = fake.asked.map(({ body }) => String(body?.["message"]));
  assert.equal(defused.split("\u2060").length - 1, 8);
  assert.ok(defused.endsWith(harmless));
  assert.equal(defused.replaceAll("\u2060", ""), `${text} ${harmless}`);
  assert.equal(open, text);
});

test("a mention that forms when control characters are removed mentions no one either", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: CHANNEL, text: "@\u0000all @cha\u0007nnel @he\ufeffre" });
  const shown = String(fake.asked[0]?.body?.["message"]);
  assert.equal(shown.replaceAll("\u2060", ""), "@all @channel @here");
  assert.doesNotMatch(shown, /@(all|channel|here)/);
});

test("long texts go out in parts of at most 16383 code points, or of text_limit", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: CHANNEL, text: "\u{1f600}".repeat(20_000) });
  assert.equal(fake.asked.length, 2);
  await send({ address: CHANNEL, text: "One sentence of some length. ".repeat(400) }, { text_limit: 4_000 });
  for (const { body } of fake.asked.slice(2)) assert.ok(String(body?.["message"]).length <= 4_000);
  assert.deepEqual(fake.violations, []);
});

test("errors are given up, and it is said what to do", async (t) => {
  const { fake, send } = await place(t);
  const said = async (address: string, more = {}) => {
    const { outcome } = await send({ address }, more);
    return `${outcome.status} ${"error" in outcome ? outcome.error : ""}`;
  };
  assert.match(await said(ARCHIVED), /^permanent .*deleted channel.*archived/);
  assert.match(await said("unknownaaaaaaaaaaaaaaaaaaa"), /^permanent .*Add the bot to the team/);
  assert.match(await said(`${CHANNEL}:otherpostaaaaaaaaaaaaaaaaa`), /^permanent .*RootId.*its first post/);
  assert.match(
    await said(CHANNEL, { token: "a-wrong-token" }),
    /^permanent .*session.*platforms\.mattermost/,
  );
  fake.next(error(400, "model.post.is_valid.message_length.app_error", "Post Message property is longer."));
  assert.match(await said(CHANNEL), /^permanent .*text_limit.*4000/);
});

test("the first of two that is still being saved is waited for", async (t) => {
  const { fake, send } = await place(t);
  fake.next(error(500, "api.post.deduplicate_create_post.pending", "The post is being saved."));
  assert.equal((await send({ address: CHANNEL })).outcome.status, "retry");
});

test("429 waits as X-Ratelimit-Reset says, in seconds from now or as a point in time", async (t) => {
  const { fake, clock, send } = await place(t);
  const at = clock.now() / 1000 + 9;
  for (const reset of ["4", String(at), "soon"]) {
    fake.next({ status: 429, headers: { "x-ratelimit-reset": reset }, body: "limit exceeded" });
  }
  const waits = [];
  for (let index = 0; index < 3; index += 1) waits.push((await send({ address: CHANNEL })).outcome);
  assert.deepEqual(
    waits.map((outcome) => ("afterMs" in outcome ? outcome.afterMs : undefined)),
    [4_000, 9_000, undefined],
  );
  assert.ok(waits.every((outcome) => "isThrottled" in outcome && outcome.isThrottled));
});

test("no channel, or what can be none: given up before anything is asked", async (t) => {
  const { fake, send } = await place(t);
  for (const address of ["", "town-square", "~town-square", `${CHANNEL}:x`]) {
    assert.equal((await send({ address })).outcome.status, "permanent", address);
  }
  const { outcome } = await send({ address: "" });
  assert.match((outcome as { error: string }).error, /MATTERMOST_HOME_CHANNEL/);
  assert.equal(fake.asked.length, 0);
});

test("what may have arrived stays unknown: a server remembers pending ids for 30 s only", () => {
  const target = mattermost.create(
    { token, base_url: "http://127.0.0.1:9", home_channel: CHANNEL },
    platformParts(),
  );
  assert.equal(target.supportsIdempotency, undefined);
  assert.equal(target.home, CHANNEL);
});

test("without an address or a token Mattermost is incomplete, and each is named", () => {
  assert.deepEqual(mattermost.missing({}), ["base_url (MATTERMOST_URL)", "token (MATTERMOST_TOKEN)"]);
  assert.deepEqual(mattermost.missing({ token, base_url: "http://127.0.0.1:9" }), []);
});

testBadPlatform("Mattermost", {
  platform: mattermost,
  start: startMattermost,
  settings: (url) => ({ token, base_url: url }),
  request: { address: CHANNEL },
  secrets: [token],
});
