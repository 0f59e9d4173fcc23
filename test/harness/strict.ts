import assert from "node:assert/strict";
import type { Message } from "../../src/agent/engine.ts";

/** Every tool call has exactly one answer, directly behind its message: what a strict provider accepts. */
export function assertStrict(messages: readonly Message[]): void {
  messages.forEach((message, index) => {
    if (message.role === "tool") {
      assert.ok(
        ["assistant", "tool"].includes(messages[index - 1]?.role ?? ""),
        "an answer without its call",
      );
    }
    if (message.role !== "assistant") return;
    const calls = message.parts.flatMap((part) => (part.type === "tool_call" ? [part.callId] : []));
    const answers = messages.slice(index + 1, index + 1 + calls.length);
    assert.deepEqual(
      answers.map((answer) => (answer.role === "tool" ? answer.callId : answer.role)).toSorted(),
      calls.toSorted(),
    );
  });
}
