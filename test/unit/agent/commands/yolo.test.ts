import assert from "node:assert/strict";
import { test } from "node:test";
import { Commands } from "../../../../src/agent/agent.ts";
import { modelCommands } from "../../../../src/agent/commands/model.ts";
import { createTestAgent, type TestAgent } from "../../../harness/agent.ts";

const OWNER = "tester";
const commands = new Commands(
  () => modelCommands,
  () => [],
  async () => [],
);

async function output(agent: TestAgent, text: string): Promise<string> {
  const directive = await commands.dispatch(text, { agent: agent.core, owner: OWNER, sessionId: "s" });
  return directive.type === "exec" ? directive.output : directive.type;
}

test("/yolo off says when approvals stay off for another reason", async () => {
  await using agent = await createTestAgent();
  await agent.events((await agent.submit("hi", { id: "s" })).runId);
  await output(agent, "/yolo on global");
  assert.match(await output(agent, "/yolo off"), /^Approvals stay off: .*\/yolo off global/);
  assert.match(await output(agent, "/yolo off global"), /^Approvals are on for all sessions/);
  assert.match(await output(agent, "/yolo off"), /^Approvals are on for this session/);
});

test("/yolo off says when the configuration keeps approvals off", async () => {
  await using agent = await createTestAgent({ settings: { policyMode: "yolo" } });
  await agent.events((await agent.submit("hi", { id: "s" })).runId);
  for (const text of ["/yolo off", "/yolo off global"]) {
    assert.match(await output(agent, text), /^Approvals stay off: approvals\.mode is yolo/);
  }
  assert.equal((await agent.core.status("s", OWNER)).yolo, true);
});
