/** How every engine handles budgets and contexts that are too long. */
import assert from "node:assert/strict";
import type { Message } from "../../../../src/agent/engine.ts";
import { gist, type Run, type Says } from "./scenarios.ts";

const paris = { tool: "weather", input: { city: "Paris" } };

export function budgets(says: Says, run: Run): void {
  says("a turn whose budget is spent calls no model, and takes no steering text", async () => {
    let taken = 0;
    const { end, steps, events } = await run([{ text: ["never"] }], {
      admit: () => ({ message: "The budget of the day is spent." }),
      onSteer: () => void taken++,
    });
    assert.equal(end.stop, "error");
    assert.deepEqual(end.error, { code: "budget_exceeded", message: "The budget of the day is spent." });
    assert.equal(end.usage.modelCalls, 0);
    assert.deepEqual([steps, events, taken], [[], [], 0]);
  });

  says("a budget that is spent on the way ends the turn with what was done before", async () => {
    let asked = 0;
    const { end, saved } = await run([{ text: ["first"], calls: [paris] }, { text: ["never"] }], {
      admit: () => (++asked > 1 ? { message: "Spent." } : undefined),
    });
    assert.equal(end.error?.code, "budget_exceeded");
    assert.equal(end.text, "first");
    assert.deepEqual(
      saved.map(({ role }) => role),
      ["assistant", "tool"],
    );
  });
}

const long: readonly Message[] = [{ role: "user", text: "x".repeat(4_000) }];
const summary: readonly Message[] = [{ role: "user", text: "short", origin: "summary" }];

export function compaction(says: Says, run: Run): void {
  says("a context above its limit is compacted before the call, once", async () => {
    const reasons: string[] = [];
    const { end } = await run([{ text: ["ok"] }], {
      turn: { messages: long, compactAtTokens: 500 },
      compact: async (reason) => {
        reasons.push(reason);
        return summary;
      },
    });
    assert.equal(end.text, "ok");
    assert.deepEqual(reasons, ["near_limit"]);
  });

  says("a context below its limit, or without one, is left as it is", async () => {
    const compact = async () => assert.fail("it was compacted");
    await run([{ text: ["ok"] }], { turn: { messages: long, compactAtTokens: 5_000 }, compact });
    await run([{ text: ["ok"] }], { turn: { messages: long }, compact });
  });

  says("a compaction that left nothing out is tried again with new messages only", async () => {
    let asked = 0;
    const moves = [{ calls: [paris] }, { text: ["ok"] }];
    const { end } = await run(moves, {
      turn: { messages: long, compactAtTokens: 500 },
      compact: async () => void asked++,
    });
    assert.equal(end.text, "ok");
    assert.equal(asked, 2);
  });

  says("a refused context is compacted and sent once more, with the steering text it had", async () => {
    const reasons: string[] = [];
    const { end, saved } = await run([{ overflow: true }, { text: ["ok"] }], {
      turn: { messages: long },
      steers: [["be quick"]],
      compact: async (reason) => {
        reasons.push(reason);
        return summary;
      },
    });
    assert.equal(end.text, "ok");
    assert.deepEqual(reasons, ["overflow"]);
    assert.deepEqual(saved.map(gist), ["user: be quick", "assistant: ok"]);
  });

  for (const [title, compacted] of [
    ["stays too long", summary],
    ["cannot be made shorter", undefined],
  ] as const) {
    says(`a refused context that ${title} is told as such`, async () => {
      let asked = 0;
      const { end } = await run([{ overflow: true }, { overflow: true }, { text: ["never"] }], {
        compact: async () => {
          asked++;
          return compacted;
        },
      });
      assert.equal(end.error?.code, "context_too_long");
      assert.equal(asked, 1);
    });
  }

  says("a refused context without anybody to compact it is told as such", async () => {
    const { end } = await run([{ overflow: true }, { text: ["never"] }]);
    assert.equal(end.error?.code, "context_too_long");
  });

  for (const reason of ["near_limit", "overflow"] as const) {
    says(`a stop during a compaction (${reason}) ends the turn as stopped`, async () => {
      const stop = new AbortController();
      const isNear = reason === "near_limit";
      const { end } = await run([isNear ? { text: ["never"] } : { overflow: true }, { text: ["never"] }], {
        turn: { messages: long, signal: stop.signal, ...(isNear ? { compactAtTokens: 500 } : {}) },
        compact: async () => {
          stop.abort(new Error("stopped"));
          throw new Error("stopped");
        },
      });
      assert.equal(end.stop, "aborted");
      assert.equal(end.text, "");
    });
  }
}
