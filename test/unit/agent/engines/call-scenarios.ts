/** The part of the engines' suite for calls that must not be made. */
import assert from "node:assert/strict";
import type { ToolAnswer, ToolCall } from "../../../../src/agent/engine.ts";
import { gist, type Run, type Says } from "./scenarios.ts";

const paris = { tool: "weather", input: { city: "Paris" } };
const rome = { tool: "weather", input: { city: "Rome" } };

export function unmadeCalls(says: Says, run: Run): void {
  const refuses = ({ invalid }: ToolCall): ToolAnswer =>
    invalid === undefined ? { status: "ok", text: "made" } : { status: "error", text: invalid };

  says(
    "a call in an answer that was cut by the length limit is not made, and the model goes on",
    async () => {
      const { end, calls, saved } = await run(
        [{ text: ["half"], calls: [paris, rome], finish: "length" }, { calls: [paris] }, { text: ["Sunny"] }],
        { callTool: refuses },
      );
      assert.deepEqual(
        calls.map(({ invalid }) => /was not made.*cut by the output limit/.test(invalid ?? "")),
        [true, true, false],
      );
      const shown = [
        "assistant: half weather? weather?",
        "error",
        "error",
        "weather?",
        "ok",
        "assistant: Sunny",
      ];
      assert.deepEqual(saved.map(gist), shown);
      assert.equal(end.stop, "end");
    },
  );

  says("a call that was cut by the length limit in the last step ends the turn by length", async () => {
    const { end, saved } = await run([{ calls: [paris], finish: "length" }, { text: ["never"] }], {
      callTool: refuses,
      turn: { maxSteps: 1 },
    });
    assert.equal(end.stop, "length");
    assert.deepEqual(saved.map(gist), ["weather?", "error"]);
  });

  says("a call in an answer that a content filter ended is not made, and the turn ends", async () => {
    const { end, calls, saved } = await run([{ calls: [paris], finish: "refusal" }, { text: ["never"] }], {
      callTool: refuses,
    });
    assert.match(calls[0]?.invalid ?? "", /was not made.*content filter/);
    assert.deepEqual(saved.map(gist), ["weather?", "error"]);
    assert.equal(end.stop, "refusal");
  });
}
