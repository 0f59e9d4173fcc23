import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";

const isSummary = ({ instructions }: { readonly instructions: string }) =>
  instructions.startsWith("You summarise");

test("a turn that makes its conversation shorter does not read it again from the store", async () => {
  const sums: string[] = [];
  const seen: string[][] = [];
  // Whoever parses these texts fails.
  const spoil = async (agent: TestAgent) => {
    await agent.store.write((tx) => tx.db.updateTable("messages").set({ content: "not JSON" }).execute());
  };
  await using agent: TestAgent = await createTestAgent({
    providers: [{ name: "local", type: "openai_compatible", models: ["m"], contextTokens: 1_000 }],
    settings: { compression: { threshold: 0.5, keepMessages: 2, model: undefined } },
    tools: [testTool(async () => (await spoil(agent), "spoilt"))],
    script: (state) => {
      if (isSummary(state)) return (sums.push(state.user), { text: "Short." });
      seen.push(state.messages.map(({ role }) => role));
      const call = { tool: "terminal", input: { command: "ls" } };
      return state.step < 3
        ? { text: `step ${state.step} `.padEnd(1_600, "x"), calls: [call] }
        : { text: "done" };
    },
  });
  const { runId } = await agent.submit("go", { id: "s" });
  const events = await agent.events(runId);
  assert.equal(events.at(-1)?.type, "run.completed");
  const done = events
    .filter(({ type }) => type === "compression.completed")
    .map(({ data }) => data["status"]);
  assert.ok(done.length > 1 && done.every((status) => status === "compressed"), JSON.stringify(done));
  assert.match(sums[0] ?? "", /USER: go/);
  assert.match(sums[1] ?? "", /Short\./);
  assert.deepEqual(seen.at(-1), ["user", "assistant", "tool"]);
});
