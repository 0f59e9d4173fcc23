import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import type { SessionMode } from "../../../src/agent/mode.ts";
import { saveSession } from "../../../src/agent/save-session.ts";
import { settingsOf } from "../../../src/agent/session.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";

const OWNER = "tester";
const ok = testTool(async ({ command }) => `ran ${command}`);

async function inMode(agent: TestAgent, id: string, mode: SessionMode): Promise<void> {
  await saveSession(agent.store, { id, owner: OWNER, seed: { source: "test" } });
  await agent.core.sessions.choose(id, OWNER, { mode });
}

const outputOf = async (agent: TestAgent, runId: string) =>
  String((await agent.events(runId)).at(-1)?.data["output"]);

test("a plan: what changes something is refused though approvals are off, and the model knows from the start", async () => {
  let instructions = "";
  const once = callsOnce("touch a", "ls");
  const script: Script = (state) => {
    ({ instructions } = state);
    return once(state);
  };
  await using agent = await createTestAgent({ tools: [ok], script, settings: { policyMode: "yolo" } });
  await inMode(agent, "s", "plan");
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const [refused = "", looked] = (await outputOf(agent, runId)).split("\n");
  assert.match(refused, /^denied: Refused: this session is in plan mode.*present a plan/);
  assert.equal(looked, "ok: ran ls");
  assert.match(instructions, /You are in plan mode/);
  await agent.core.sessions.choose("s", OWNER, { mode: "ask" });
  const next = await agent.submit("go", { id: "s" });
  assert.match(await outputOf(agent, next.runId), /^ok: ran touch a/);
  assert.doesNotMatch(instructions, /plan mode/);
});

test("dont_ask goes ahead where nobody can answer, but not into secrets", async () => {
  const script = callsOnce("rm -rf build", "cat .env", "rm -rf /");
  await using agent = await createTestAgent({ tools: [ok], script, settings: { policyMode: "always_ask" } });
  await inMode(agent, "s", "dont_ask");
  const { runId } = await agent.submit("go", { id: "s" });
  assert.match(
    await outputOf(agent, runId),
    /^ok: ran rm -rf build\ndenied: Denied: this needs approval \(\S+\.env may hold secrets\).*\ndenied: Refused/,
  );
});

test("a mode that is chosen while a turn is at work holds from its next call on", async () => {
  const choosing = testTool(async ({ command }) => {
    await agent.core.sessions.choose("s", OWNER, { mode: "plan" });
    return `ran ${command}`;
  });
  const script: Script = ({ step, toolResults }) =>
    step < 2
      ? { calls: [{ tool: "terminal", input: { command: "touch a" } }] }
      : { text: toolResults.map(({ status }) => status).join(" ") };
  await using agent: TestAgent = await createTestAgent({ tools: [choosing], script });
  const { runId } = await agent.submit("go", { id: "s" });
  assert.equal(await outputOf(agent, runId), "ok denied");
});

test("sub-agents work in the mode of the session at the top of their family, as it is by then", async () => {
  const script: Script = async ({ messages, step, toolResults }) => {
    const [first] = messages;
    if (first?.role === "user" && first.text === "go") {
      return step === 0
        ? { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "touch it" }] } }] }
        : { text: toolResults.at(-1)?.text ?? "" };
    }
    if (step === 2) return { text: toolResults.map(({ status }) => status).join(" ") };
    if (step === 1) await agent.core.sessions.choose("s", OWNER, { mode: "ask" });
    return { calls: [{ tool: "terminal", input: { command: "touch a" } }] };
  };
  await using agent: TestAgent = await createTestAgent({ tools: [ok, createDelegateTask()], script });
  await inMode(agent, "s", "plan");
  const { runId } = await agent.submit("go", { id: "s" });
  assert.match(await outputOf(agent, runId), /denied ok/);
});

test("a branch has its parent's mode, and not its yolo", async () => {
  await using agent = await createTestAgent();
  await agent.events((await agent.submit("hello", { id: "s" })).runId);
  await agent.core.sessions.choose("s", OWNER, { mode: "accept_edits", yolo: true });
  const branch = await agent.core.sessions.branch("s", OWNER);
  assert.deepEqual(settingsOf(branch), { mode: "accept_edits" });
});
