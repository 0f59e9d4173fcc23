import assert from "node:assert/strict";
import { test } from "node:test";
import { Replay, type RunMetadata } from "../../../src/acp/session/replay.ts";
import type { TranscriptRow } from "../../../src/agent/engine.ts";
import type { Message } from "../../../src/agent/engine.ts";

const NONE: RunMetadata = { started: new Map(), completed: new Map(), status: "completed" };

/** What is told of messages, each with its run and what is known of that. */
function replay(
  said: readonly (readonly [runId: string | null, message: Message, metadata?: Partial<RunMetadata>])[],
  liveRunId?: string,
): string[] {
  const told = new Replay({ cwd: "/work", describe: () => ({ kind: "execute" }), liveRunId });
  const updates = said.flatMap(([runId, message, metadata], index) => {
    const row: TranscriptRow = { seq: index + 1, runId, message };
    return told.take(row, { ...NONE, ...metadata });
  });
  return [...updates, ...told.end()].map((update) => {
    if (update.sessionUpdate === "tool_call") return `${update.toolCallId} ${update.status}`;
    if (!("content" in update) || Array.isArray(update.content)) return update.sessionUpdate;
    return update.content?.type === "text" ? update.content.text : "-";
  });
}

const user = (text: string): Message => ({ role: "user", text });
const says = (text: string): Message => ({ role: "assistant", parts: [{ type: "text", text }] });
const calls = (...ids: readonly string[]): Message => ({
  role: "assistant",
  parts: ids.map((callId) => ({ type: "tool_call", callId, tool: "terminal", input: {} })),
});
const answer = (callId: string, status: "ok" | "error" | "pending"): Message => ({
  role: "tool",
  callId,
  tool: "terminal",
  status,
  text: status,
});

test("replayed calls keep their position and ids, with their later results", () => {
  const told = replay([
    ["r1", user("go")],
    ["r1", calls("a", "b", "c")],
    ["r1", answer("b", "error")],
    ["r1", answer("a", "ok")],
    ["r1", says("done")],
  ]);
  assert.deepEqual(told, ["go", "r1:a completed", "r1:b failed", "r1:c failed", "done"]);
});

test("the result of a client tool arrives in the next turn, and a result without a call is ignored", () => {
  const told = replay([
    ["r1", calls("a")],
    ["r1", answer("a", "pending")],
    ["r2", answer("a", "ok")],
    ["r2", says("thanks")],
    ["r2", answer("x", "ok")],
  ]);
  assert.deepEqual(told, ["r1:a completed", "thanks"]);
});

test("only an interrupted turn is marked, after its last message or without any", () => {
  const broken = { status: "interrupted", reason: "The process ended." };
  const cut: Message = { role: "assistant", parts: [{ type: "text", text: "half" }], interrupted: true };
  const told = replay([
    ["r1", user("one"), broken],
    ["r1", cut, broken],
    ["r2", user("two"), broken],
    ["r3", user("three"), { status: "cancelled" }],
    ["r3", cut, { status: "cancelled" }],
    [null, cut, { status: undefined }],
    ["r4", user("four"), { status: "failed", reason: "No money." }],
  ]);
  const said = "[Interrupted] The process ended.";
  assert.deepEqual(told, [
    "one",
    "half",
    said,
    "two",
    said,
    "three",
    "half",
    "half",
    "[Interrupted]",
    "four",
  ]);
});

test("a replay has only the prompt of the running turn", () => {
  const told = replay(
    [
      ["r1", user("one")],
      ["r1", says("ok")],
      ["r2", user("two")],
      ["r2", calls("a")],
    ],
    "r2",
  );
  assert.deepEqual(told, ["one", "ok", "two"]);
});
