import assert from "node:assert/strict";
import { test } from "node:test";
import { zeroUsage } from "../../../src/agent/usage/usage.ts";
import type { Engine } from "../../../src/agent/engine.ts";
import { callsOnce, createTestAgent, testTool } from "../../harness/agent.ts";

test("reasoning streams as deltas and is repeated whole in reasoning.completed", async () => {
  await using agent = await createTestAgent({ script: () => ({ reasoning: "let me see", text: "yes" }) });
  const { runId } = await agent.submit("go");
  const events = await agent.events(runId);
  const delta = events.find(({ type }) => type === "reasoning.delta");
  const whole = events.find(({ type }) => type === "reasoning.completed");
  assert.equal(delta?.data["delta"], "let me see");
  assert.equal(whole?.data["text"], "let me see");
  assert.ok(delta!.runSeq! < whole!.runSeq!);
});

test("a notice of the engine becomes run.notice", async () => {
  const engine: Engine = {
    name: "noticing",
    runTurn: async ({ ports }) => {
      ports.emit({ type: "notice", text: "trying again" });
      return { stop: "end", text: "", usage: zeroUsage };
    },
  };
  await using agent = await createTestAgent({ engine });
  const { runId } = await agent.submit("go");
  const notice = (await agent.events(runId)).find(({ type }) => type === "run.notice");
  assert.deepEqual(notice?.data, { message: "trying again" });
});

test("a turn of several steps reports its usage on the way, as usage.updated", async () => {
  const tool = testTool(async () => "ok");
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce("ls") });
  const { runId } = await agent.submit("go");
  const events = await agent.events(runId);
  const update = events.find(({ type }) => type === "usage.updated");
  assert.equal((update!.data["usage"] as { tool_calls: number }).tool_calls, 1);
  const final = events.at(-1)?.data["usage"] as { model_calls: number };
  assert.equal(final.model_calls, 2);
});

test("a run that is asked to stop says run.stopping, with the reason, before run.cancelled", async () => {
  await using agent = await createTestAgent({
    script: ({ signal }) => ({
      text: (async function* () {
        yield "working";
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      })(),
    }),
  });
  const { runId } = await agent.submit("go");
  await agent.event(runId, "message.delta");
  await agent.runs.stop(runId, "no longer needed");
  const types = (await agent.events(runId)).map(({ type, data }) => [type, data["reason"]]);
  assert.deepEqual(types.at(-1), ["run.cancelled", "no longer needed"]);
  assert.ok(types.some(([type, reason]) => type === "run.stopping" && reason === "no longer needed"));
});

test("a run whose provider fails ends as run.failed, with code and usage", async () => {
  const error = { code: "provider_error" as const, message: "down" };
  await using agent = await createTestAgent({ script: () => ({ text: "partial", error }) });
  const { runId } = await agent.submit("go");
  const final = (await agent.events(runId)).at(-1);
  assert.equal(final?.type, "run.failed");
  assert.deepEqual(final?.data["error"], error);
  assert.equal((final!.data["usage"] as { output_tokens: number }).output_tokens, 2);
});
