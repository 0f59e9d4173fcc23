import assert from "node:assert/strict";
import { test } from "node:test";
import type { InputItem } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { toConversation } from "../../../src/http/responses/input-items.ts";
import type { HttpDeps } from "../../../src/http/deps.ts";

const deps = { settings: { maxTextBytes: 1000, maxBodyBytes: 10_000 } } as HttpDeps;
const { signal } = new AbortController();
const read = (...items: readonly InputItem[]) => toConversation(items, { param: "input", deps, signal });

const call = (id: string) => ({ type: "function_call", call_id: id, name: `f_${id}`, arguments: '{"x":1}' });
const output = (id: string) => ({ type: "function_call_output", call_id: id, output: `got ${id}` });
const asked = (id: string) => ({ type: "tool_call", callId: id, tool: `f_${id}`, input: { x: 1 } });
const answered = (id: string) => ({
  role: "tool",
  callId: id,
  tool: `f_${id}`,
  status: "ok",
  text: `got ${id}`,
});

test("consecutive output of the agent becomes one message", async () => {
  const said = { role: "assistant" as const, content: "let me see" };
  const atOnce = await read(said, call("a"), call("b"), output("a"), output("b"));
  assert.deepEqual(atOnce.messages, [
    { role: "assistant", parts: [{ type: "text", text: "let me see" }, asked("a"), asked("b")] },
    answered("a"),
    answered("b"),
  ]);
  const serialize = await read(call("a"), output("a"), call("b"), output("b"));
  assert.deepEqual(serialize.messages, [
    { role: "assistant", parts: [asked("a")] },
    answered("a"),
    { role: "assistant", parts: [asked("b")] },
    answered("b"),
  ]);
  assert.deepEqual(serialize.answers, []);
});

test("a result whose call is not in the request is returned separately", async () => {
  const { messages, answers } = await read({ role: "user", content: "hi" }, output("z"));
  assert.deepEqual(answers, [{ callId: "z", param: "input[1].call_id" }]);
  assert.deepEqual(messages.at(-1), { ...answered("z"), tool: "unknown" });
});

test("messages of the chat format are accepted, too", async () => {
  const calls = [{ id: "a", type: "function" as const, function: { name: "f_a", arguments: '{"x":1}' } }];
  const { messages, answers } = await read(
    { role: "user", content: "hi" },
    { role: "assistant", content: null, tool_calls: calls },
    { role: "tool", tool_call_id: "a", content: "got a" },
  );
  assert.deepEqual(messages, [
    { role: "user", text: "hi" },
    { role: "assistant", parts: [asked("a")] },
    answered("a"),
  ]);
  assert.deepEqual(answers, []);
});

test("system and developer messages become instructions; reasoning is skipped", async () => {
  const { instructions, messages } = await read(
    { role: "system", content: "Be brief." },
    { role: "developer", content: [{ type: "input_text", text: "Be kind." }] },
    { type: "reasoning", summary: [] },
    { role: "user", content: "hi" },
  );
  assert.equal(instructions, "Be brief.\n\nBe kind.");
  assert.deepEqual(messages, [{ role: "user", text: "hi" }]);
});

test("arguments that are not JSON are kept as history", async () => {
  const { messages } = await read({ ...call("a"), arguments: "{broken" });
  assert.deepEqual(messages, [
    {
      role: "assistant",
      parts: [{ type: "tool_call", callId: "a", tool: "f_a", input: { arguments: "{broken" } }],
    },
  ]);
});

test("each file is attached to its own message", async () => {
  const file = (text: string) => ({
    type: "input_file" as const,
    filename: `${text}.txt`,
    file_data: `data:text/plain;base64,${btoa(text)}`,
  });
  const { messages } = await read(
    { role: "user", content: [file("one"), { type: "input_text", text: "first" }] },
    { role: "assistant", content: "ok" },
    { role: "user", content: [{ type: "input_text", text: "second" }, file("two"), file("three")] },
  );
  const names = messages.map((message) =>
    message.role === "user" ? (message.attachments ?? []).map(({ name }) => name) : [],
  );
  assert.deepEqual(names, [["one.txt"], [], ["two.txt", "three.txt"]]);
});

test("an error names its item", async () => {
  const long = { role: "user" as const, content: "x".repeat(2000) };
  await assert.rejects(
    toConversation([{ role: "user", content: "hi" }, long], { param: "history", deps, signal }),
    (error: unknown) =>
      error instanceof ServiceError &&
      error.code === "string_above_max_length" &&
      error.param === "history[1].content",
  );
});
