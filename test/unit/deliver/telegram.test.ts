import assert from "node:assert/strict";
import { test } from "node:test";
import { telegram } from "../../../src/deliver/targets/telegram.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import { error, startTelegram, TELEGRAM_TOKEN } from "../../harness/platforms/telegram.ts";

const token = TELEGRAM_TOKEN;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup) {
  const fake = await startTelegram(t);
  const settings = { token, base_url: fake.url };
  return {
    fake,
    send: (request: SendRequest, more = {}) => sendThrough(telegram, { ...settings, ...more }, request),
  };
}

test("a message is one POST of chat_id and text to the bot's sendMessage", async (t) => {
  const { fake, send } = await place(t);
  const { outcome } = await send({ address: "-100123", text: "Hello" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(
    fake.asked.map(({ method, path, body }) => ({ method, path, body })),
    [
      {
        method: "POST",
        path: `/bot${token}/sendMessage`,
        body: { chat_id: "-100123", text: "Hello", parse_mode: "HTML" },
      },
    ],
  );
  assert.deepEqual(fake.violations, []);
});

test("Markdown is sent as the HTML that the API takes", async (t) => {
  const { fake, send } = await place(t);
  await send({
    address: "42",
    text: "**bold** _it_ `a<b` [site](https://example.org/?a=1&b=2)\n\n# Head\n\n<script>x</script>",
  });
  const text = String(fake.asked[0]?.body?.["text"]);
  assert.match(text, /<b>bold<\/b> <i>it<\/i> <code>a&lt;b<\/code>/);
  assert.match(text, /<a href="https:\/\/example\.org\/\?a=1&amp;b=2">site<\/a>/);
  assert.match(text, /&lt;script&gt;/);
  assert.deepEqual(fake.violations, []);
});

test("the thread of the address, else message_thread_id, else thread_id selects the topic; topic 1 is left out", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: "-100123:17", extra: { thread_id: "9" } });
  await send({ address: "-100123", extra: { message_thread_id: 17, thread_id: "9" } });
  await send({ address: "-100123", extra: { thread_id: "17" } });
  await send({ address: "-100123:1" });
  assert.deepEqual(
    fake.asked.map(({ body }) => body?.["message_thread_id"]),
    [17, 17, 17, undefined],
  );
});

test("chat_id of deliver_extra selects the chat where the address names none", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: "", extra: { chat_id: "42" } });
  await send({ address: "-100123", extra: { chat_id: "42" } });
  assert.deepEqual(
    fake.asked.map(({ body }) => body?.["chat_id"]),
    ["42", "-100123"],
  );
});

test("no chat, or none that can be one: given up before anything is asked", async (t) => {
  const { fake, send } = await place(t);
  for (const address of ["", "general", "12;3", "42:abc"]) {
    const { outcome } = await send({ address });
    assert.equal(outcome.status, "permanent", address);
  }
  const { outcome } = await send({ address: "" });
  assert.match((outcome as { error: string }).error, /TELEGRAM_HOME_CHANNEL/);
  assert.equal(fake.asked.length, 0);
});

test("the home channel, with its topic, is the target's home", () => {
  const home = (settings: object) => telegram.create({ token, ...settings }, platformParts()).home;
  assert.equal(home({}), undefined);
  assert.equal(home({ home_channel: "42" }), "42");
  assert.equal(home({ home_channel: "-100123", home_thread: "17" }), "-100123:17");
});

test("long texts go out in parts of at most 4096 units, in order, each noted before the next", async (t) => {
  const { fake, send } = await place(t);
  const text = Array.from({ length: 1_500 }, (_, index) => `word${index}`).join(" ");
  const { outcome, progress } = await send({ address: "42", text });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.violations, []);
  assert.ok(fake.asked.length > 2);
  assert.deepEqual(
    progress,
    Array.from({ length: fake.asked.length - 1 }, (_, index) => index + 1),
  );
  const said = fake.asked.map(({ body }) => String(body?.["text"]).trim()).join(" ");
  assert.ok(said === text, `${said.length} characters came of ${text.length}`);
});

test("a later attempt begins behind the parts that have arrived", async (t) => {
  const { fake, send } = await place(t);
  const text = Array.from({ length: 1_500 }, (_, index) => `word${index}`).join(" ");
  fake.next({ status: 200, body: { ok: true, result: {} } }, error(500, "Internal Server Error"));
  const first = await send({ address: "42", text });
  assert.deepEqual([first.outcome.status, first.progress], ["retry", [1]]);
  const parts = fake.asked.length;
  await send({ address: "42", text, partsSent: 1, attempt: 2 });
  assert.match(String(fake.asked[parts]?.body?.["text"]), /^word[1-9]\d* /);
  assert.match(String(fake.asked[0]?.body?.["text"]), /^word0 /);
});

test("entities that cannot be parsed: the plain form goes out once", async (t) => {
  const { fake, send } = await place(t);
  fake.next(error(400, "Bad Request: can't parse entities: Unsupported start tag"));
  const { outcome } = await send({ address: "42", text: "**bold**" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.asked[1]?.body, { chat_id: "42", text: "bold" });
});

test("a group that became a supergroup is followed once", async (t) => {
  const { fake, send } = await place(t);
  fake.next(error(400, "Bad Request: group chat was upgraded", { migrate_to_chat_id: -100123 }));
  const { outcome } = await send({ address: "42" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.equal(fake.asked[1]?.body?.["chat_id"], "-100123");
});

test("429 waits as long as parameters.retry_after says", async (t) => {
  const { fake, send } = await place(t);
  fake.next(error(429, "Too Many Requests: retry after 35", { retry_after: 35 }));
  const { outcome } = await send({ address: "42" });
  assert.deepEqual(outcome, {
    status: "retry",
    error: "Telegram answered 429: Too Many Requests: retry after 35.",
    afterMs: 35_000,
    isThrottled: true,
  });
});

test("401, 403, an unknown chat and an unknown topic are given up, and it is said what to do", async (t) => {
  const { fake, send } = await place(t);
  const outcomes = [
    await send({ address: "42" }, { token: "999:wrong" }),
    await (fake.next(error(403, "Forbidden: bot was kicked from the group chat")), send({ address: "42" })),
    await send({ address: "7" }),
    await send({ address: "-100123:99" }),
  ];
  const said = outcomes.map(({ outcome }) => `${outcome.status} ${"error" in outcome ? outcome.error : ""}`);
  assert.match(said[0] ?? "", /^permanent .*Unauthorized.*platforms\.telegram/);
  assert.match(said[1] ?? "", /^permanent .*kicked/);
  assert.match(said[2] ?? "", /^permanent .*chat not found.*Add the bot to the chat/);
  assert.match(said[3] ?? "", /^permanent .*thread not found.*topic/);
});

test("without a token Telegram is incomplete, and the key and its variable are named", () => {
  assert.deepEqual(telegram.missing({}), ["token (TELEGRAM_BOT_TOKEN)"]);
  assert.deepEqual(telegram.missing({ token }), []);
});

testBadPlatform("Telegram", {
  platform: telegram,
  start: startTelegram,
  settings: (url) => ({ token, base_url: url }),
  request: { address: "42" },
  secrets: [token],
});
