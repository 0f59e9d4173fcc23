import assert from "node:assert/strict";
import { test } from "node:test";
import { limitSize, textChunks } from "../../../src/acp/session/replay.ts";

const MAX_BYTES = 262_144;
const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

test("texts are split between characters into chunks that add up to the whole text", () => {
  for (const text of [
    "",
    "a",
    "🙂".repeat(40_000),
    `x${"🙂".repeat(40_000)}`,
    "\u0000".repeat(100_000),
    "\ud83d",
  ]) {
    const chunks = textChunks("agent_message_chunk", text, "msg_1");
    const texts = chunks.map((each) =>
      each.sessionUpdate === "agent_message_chunk" && each.content.type === "text" ? each.content.text : "",
    );
    assert.equal(texts.join(""), text);
    assert.ok(texts.every((piece) => piece !== "" && (piece.isWellFormed() || text === piece)));
    assert.ok(chunks.every((chunk) => bytes(chunk) < MAX_BYTES));
  }
});

test("an oversized call drops its arguments, then its longest contents, and says so", () => {
  const diff = (name: string, size: number) => ({
    type: "diff" as const,
    path: `/${name}`,
    oldText: "o".repeat(size),
    newText: "n".repeat(size),
  });
  const call = { sessionUpdate: "tool_call" as const, toolCallId: "r:c", title: "t", rawInput: { a: "x" } };
  const short = { ...call, content: [diff("a", 10)] };
  assert.deepEqual(limitSize(short), short);
  const long = limitSize({ ...call, content: [diff("a", 1_000), diff("b", 131_072), diff("c", 100_000)] });
  assert.ok(bytes(long) < MAX_BYTES);
  assert.ok(long.sessionUpdate === "tool_call" && long.rawInput === undefined);
  assert.deepEqual(
    long.content?.map((content) => (content.type === "diff" ? content.path : content.type)),
    ["/a", "content", "/c"],
  );
  const input = limitSize({ ...call, rawInput: { a: "x".repeat(MAX_BYTES) }, content: [diff("a", 1_000)] });
  assert.ok(input.sessionUpdate === "tool_call" && input.content?.[0]?.type === "diff");
});
