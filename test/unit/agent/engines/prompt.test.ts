import assert from "node:assert/strict";
import { test } from "node:test";
import { toModelMessages, toPrompt } from "../../../../src/agent/engines/prompt.ts";
import type { AssistantPart, Message } from "../../../../src/agent/engine.ts";
import { saying, type ModelReply } from "../../../harness/openai-server.ts";
import { startLocalEngine } from "./local-engine.ts";
import { partsOf } from "./scenarios.ts";
import { probe } from "./turn-probe.ts";

const call = (callId: string, input: unknown = { city: "Paris" }): AssistantPart => ({
  type: "tool_call",
  callId,
  tool: "weather",
  input,
});
const answerTo = (callId: string, status: Extract<Message, { role: "tool" }>["status"] = "ok"): Message => ({
  role: "tool",
  callId,
  tool: "weather",
  status,
  text: `${status} ${callId}`,
});
const user = (text: string): Message => ({ role: "user", text });

/** Returns the messages of the first request for a history, as the server receives them. */
async function sent(messages: readonly Message[]): Promise<readonly Readonly<Record<string, unknown>>[]> {
  await using local = await startLocalEngine([saying("ok")]);
  await probe(local.engine, { turn: { messages } });
  return local.server.requests[0]!.body.messages;
}

test("a conversation is sent in order, after the instructions", async () => {
  const messages = await sent([
    user("one"),
    { role: "assistant", parts: [{ type: "text", text: "two" }] },
    user("three"),
  ]);
  assert.deepEqual(messages, [
    { role: "system", content: "Be brief." },
    { role: "user", content: "one" },
    { role: "assistant", content: "two" },
    { role: "user", content: "three" },
  ]);
});

test("system messages join the instructions at the top, in order", async () => {
  const messages = await sent([
    { role: "system", text: "In French." },
    user("hi"),
    { role: "system", text: "Now." },
  ]);
  assert.deepEqual(messages, [
    { role: "system", content: "Be brief.\n\nIn French.\n\nNow." },
    { role: "user", content: "hi" },
  ]);
});

test("a turn without instructions sends none", async () => {
  await using local = await startLocalEngine([saying("ok")]);
  await probe(local.engine, { turn: { instructions: "" } });
  assert.deepEqual(local.server.requests[0]!.body.messages, [{ role: "user", content: "hi" }]);
});

test("each call is sent with its answer, whatever its status", async () => {
  const messages = await sent([
    user("hi"),
    { role: "assistant", parts: [call("a"), call("b"), call("c"), call("d")] },
    answerTo("b", "error"),
    answerTo("a"),
    answerTo("d", "aborted"),
    answerTo("c", "denied"),
  ]);
  assert.deepEqual(
    messages.slice(3).map(({ role, tool_call_id: id, content }) => [role, id, content]),
    [
      ["tool", "a", "ok a"],
      ["tool", "b", "error b"],
      ["tool", "c", "denied c"],
      ["tool", "d", "aborted d"],
    ],
  );
});

test("an unanswered call is sent with an error, before the next user message", () => {
  const messages = toModelMessages([
    user("hi"),
    { role: "assistant", parts: [call("a"), call("b")] },
    answerTo("a"),
    user("and?"),
  ]);
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["user", "assistant", "tool", "user"],
  );
  const [first, second] = messages[2]!.content as { toolCallId: string; output: unknown }[];
  assert.equal(first?.toolCallId, "a");
  assert.equal(second?.toolCallId, "b");
  assert.deepEqual(second?.output, { type: "error-text", value: "The call was not answered." });
});

test("an answer without a call is omitted, wherever it occurs", () => {
  const messages = toModelMessages([
    answerTo("stray"),
    user("hi"),
    answerTo("other"),
    { role: "assistant", parts: [{ type: "text", text: "ok" }] },
    answerTo("late"),
  ]);
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["user", "assistant"],
  );
});

test("an answer belongs to the call before it, even when ids are reused", () => {
  const messages = toModelMessages([
    { role: "assistant", parts: [call("call_0")] },
    { ...answerTo("call_0"), text: "first" } as Message,
    { role: "assistant", parts: [call("call_0")] },
    { ...answerTo("call_0"), text: "second" } as Message,
  ]);
  const texts = messages.flatMap(({ role, content }) =>
    role === "tool" ? (content as { output: { value: string } }[]).map(({ output }) => output.value) : [],
  );
  assert.deepEqual(texts, ["first", "second"]);
});

for (const [title, parts] of [
  ["no parts", []],
  ["reasoning only", [{ type: "reasoning", text: "hm", provider: { anthropic: { signature: "c2ln" } } }]],
  ["an empty text", [{ type: "text", text: "" }]],
] as const) {
  test(`an assistant message with ${title} is omitted, because providers refuse it`, () => {
    const messages = toModelMessages([user("hi"), { role: "assistant", parts }, user("there")]);
    assert.deepEqual(
      messages.map(({ role }) => role),
      ["user", "user"],
    );
  });
}

test("a client's late answer replaces the placeholder, even after further messages", () => {
  const assistant = (...parts: AssistantPart[]): Message => ({ role: "assistant", parts });
  const said = assistant({ type: "text", text: "never mind" });
  const results = (messages: readonly Message[]) =>
    toModelMessages(messages).flatMap(({ role, content }) =>
      role === "tool" ? content.map((part) => part.type === "tool-result" && part.output) : [],
    );
  const pending = answerTo("c1", "pending");
  const late = [{ type: "text", value: "ok c1" }];
  assert.deepEqual(results([user("hi"), assistant(call("c1")), pending, answerTo("c1")]), late);
  assert.deepEqual(results([assistant(call("c1")), pending, user("well?"), said, answerTo("c1")]), late);
  const unanswered = { type: "error-text", value: "pending c1" };
  assert.deepEqual(results([assistant(call("c1")), pending, user("well?")]), [unanswered]);
  const again = [assistant(call("c1")), pending, user("x"), assistant(call("c1")), answerTo("c1")];
  assert.deepEqual(results(again), [unanswered, ...late]);
});

test("an empty history has no messages and no instructions", () => {
  assert.deepEqual(toPrompt([]), { instructions: [], messages: [] });
});

test("provider data of every kind of part is sent back with the part", () => {
  const provider = { anthropic: { signature: "c2ln" } };
  const [message] = toModelMessages([
    {
      role: "assistant",
      parts: [
        { type: "reasoning", text: "hm", provider },
        { type: "text", text: "so", provider },
        { ...call("a"), provider },
      ],
    },
  ]);
  const content = message!.content as { type: string; providerOptions?: unknown }[];
  assert.deepEqual(
    content.map(({ type, providerOptions }) => [type, providerOptions]),
    [
      ["reasoning", provider],
      ["text", provider],
      ["tool-call", provider],
    ],
  );
});

test("arguments that are not an object are sent back as an object, because providers refuse others", () => {
  const [message] = toModelMessages([{ role: "assistant", parts: [call("a", '{"city":"Par')] }]);
  const [part] = message!.content as { input: unknown }[];
  assert.equal(typeof part?.input, "object");
});

// The signature of reasoning must be sent back, or the provider refuses the turn's next step.
const thinking = sse([
  [
    "message_start",
    {
      message: {
        id: "m",
        type: "message",
        role: "assistant",
        content: [],
        model: "test",
        usage: { input_tokens: 9, output_tokens: 1 },
      },
    },
  ],
  ["content_block_start", { index: 0, content_block: { type: "thinking", thinking: "", signature: "" } }],
  ["content_block_delta", { index: 0, delta: { type: "thinking_delta", thinking: "hm" } }],
  ["content_block_delta", { index: 0, delta: { type: "signature_delta", signature: "c2lnbmVk" } }],
  ["content_block_stop", { index: 0 }],
  ["content_block_start", { index: 1, content_block: { type: "redacted_thinking", data: "aGlkZGVu" } }],
  ["content_block_stop", { index: 1 }],
  [
    "content_block_start",
    { index: 2, content_block: { type: "tool_use", id: "toolu_1", name: "weather", input: {} } },
  ],
  [
    "content_block_delta",
    { index: 2, delta: { type: "input_json_delta", partial_json: '{"city":"Paris"}' } },
  ],
  ["content_block_stop", { index: 2 }],
  ["message_delta", { delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: 5 } }],
  ["message_stop", {}],
]);
const speaking = sse([
  [
    "message_start",
    {
      message: {
        id: "m",
        type: "message",
        role: "assistant",
        content: [],
        model: "test",
        usage: { input_tokens: 9, output_tokens: 1 },
      },
    },
  ],
  ["content_block_start", { index: 0, content_block: { type: "text", text: "" } }],
  ["content_block_delta", { index: 0, delta: { type: "text_delta", text: "Sunny" } }],
  ["content_block_stop", { index: 0 }],
  ["message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 5 } }],
  ["message_stop", {}],
]);

function sse(events: readonly (readonly [type: string, data: object])[]): ModelReply {
  const raw = events.map(([type, data]) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  return { pieces: raw.map((each) => ({ raw: each })), done: false };
}

test("a turn with an Anthropic provider calls tools and ends with its text", async () => {
  await using local = await startLocalEngine([thinking, speaking], { provider: { type: "anthropic" } });
  const { end, calls, saved } = await probe(local.engine);
  assert.equal(end.stop, "end");
  assert.equal(end.text, "Sunny");
  assert.deepEqual(
    calls.map(({ callId, input }) => [callId, input]),
    [["toolu_1", { city: "Paris" }]],
  );
  assert.equal(end.usage.inputTokens, 18);
  assert.deepEqual(
    partsOf(saved)
      .map(({ type }) => type)
      .filter((type) => type !== "reasoning"),
    ["tool_call", "text"],
  );
});

test("signed and redacted reasoning is sent back unchanged with the next step", async () => {
  await using local = await startLocalEngine([thinking, speaking], { provider: { type: "anthropic" } });
  await probe(local.engine);
  const said = local.server.requests[1]!.body.messages.find(({ role }) => role === "assistant");
  const [first, second, third] = said!["content"] as Record<string, unknown>[];
  assert.deepEqual(first, { type: "thinking", thinking: "hm", signature: "c2lnbmVk" });
  assert.deepEqual(second, { type: "redacted_thinking", data: "aGlkZGVu" });
  assert.equal(third?.["type"], "tool_use");
});
