/** What chats are owed, as targets read it, and ids that are none. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { idProblem, readMessage, type Delivery } from "../../../src/deliver/target.ts";

const delivery = (address: string, payload: unknown): Delivery => ({
  id: "out_01",
  address,
  payload,
  ref: undefined,
  attempt: 1,
  partsSent: 0,
  createdAtMs: 0,
});
const chatOf = (platform: string, address: string, extra: unknown) => {
  const { chat, thread } = readMessage(platform, delivery(address, { text: "Hello", extra })) ?? {};
  return [chat, thread];
};

test("an absent, empty or blank thread counts as none, and the first one set is used", () => {
  for (const extra of [{}, { thread_id: "" }, { message_thread_id: " ", thread_id: null }]) {
    assert.deepEqual(chatOf("telegram", "42", extra), ["42", undefined], JSON.stringify(extra));
  }
  assert.deepEqual(chatOf("telegram", "42", { message_thread_id: "", thread_id: 7 }), ["42", "7"]);
  assert.deepEqual(chatOf("telegram", "42:9", { thread_id: 7 }), ["42", "9"]);
});

test("an address is split into chat and thread; Matrix rooms and chats without threads may contain colons", () => {
  assert.deepEqual(chatOf("matrix", "!a:b:8448:$c", {}), ["!a:b:8448", "$c"]);
  assert.deepEqual(chatOf("matrix", "!a:b:8448", {}), ["!a:b:8448", undefined]);
  assert.deepEqual(chatOf("qqbot", "group:1", {}), ["group:1", undefined]);
  assert.deepEqual(chatOf("sms", "+1 555", {}), ["+1 555", undefined]);
});

test("an invalid payload is not a message", () => {
  for (const payload of [
    null,
    7,
    "text",
    [],
    {},
    { text: 7 },
    { text: "", extra: null },
    { text: "", extra: 1 },
  ]) {
    assert.equal(readMessage("telegram", delivery("42", payload)), undefined, JSON.stringify(payload));
  }
});

test("an inexact or invalid id is refused with its key, except on platforms without chats", () => {
  const problem = (extra: unknown, platform = "discord") => idProblem(platform, { text: "", extra });
  assert.match(
    problem({ chat_id: Number("1234567890123456789") }) ?? "",
    /Quote deliver_extra\.chat_id.*lost digits/,
  );
  assert.match(problem({ thread_id: 1_712_345_678.12 }, "slack") ?? "", /Quote deliver_extra\.thread_id/);
  for (const id of [true, {}, ["42"]]) {
    assert.match(
      problem({ message_thread_id: id }) ?? "",
      /deliver_extra\.message_thread_id must be an id.*quoted string/,
    );
  }
  assert.match(problem({ chat_id: "4".repeat(501) }) ?? "", /deliver_extra\.chat_id is too long/);
  for (const good of ["42", "4".repeat(500), "", null, undefined, 42, -100_123_456_789_012]) {
    assert.equal(problem({ chat_id: good }), undefined, String(good));
  }
  assert.equal(problem({ chat_id: 1e300 }, "github_comment"), undefined);
  assert.equal(problem({ chat_id: 1e300 }, "constructor"), undefined);
  for (const payload of [undefined, null, "x", {}, { extra: 7 }])
    assert.equal(idProblem("discord", payload), undefined);
});
