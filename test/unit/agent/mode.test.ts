import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { type SessionMode, settingsOf } from "../../../src/agent/session/session.ts";
import { saveSession } from "../../../src/agent/session/sessions.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import type { ToolIntent } from "../../../src/agent/tool/tool.ts";
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
  await agent.core.sessions.choose("s", OWNER, { mode: "accept_edits" });
  const next = await agent.submit("go", { id: "s" });
  assert.match(await outputOf(agent, next.runId), /^ok: ran touch a/);
  assert.doesNotMatch(instructions, /plan mode/);
});

test("dont_ask allows calls in a run without anyone to answer, but not those that touch secrets", async () => {
  const script = callsOnce("rm -rf build", "cat .env", "rm -rf /");
  await using agent = await createTestAgent({ tools: [ok], script, settings: { policyMode: "always_ask" } });
  await inMode(agent, "s", "dont_ask");
  const { runId } = await agent.submit("go", { id: "s" });
  assert.match(
    await outputOf(agent, runId),
    /^ok: ran rm -rf build\ndenied: Denied: this requires approval \(\S+\.env may hold secrets\).*\ndenied: Refused/,
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
    if (step === 1) await agent.core.sessions.choose("s", OWNER, { mode: "accept_edits" });
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

/** Switches approvals back on during its first call, then calls twice. */
const callsThenRemoves: Script = ({ step, toolResults }) =>
  step < 2
    ? { calls: [{ tool: "terminal", input: { command: "rm -rf build" } }] }
    : { text: toolResults.map(({ status, code }) => `${status} ${code}`).join(", ") };

for (const [title, before, after] of [
  [
    "of its session",
    (agent) => agent.core.sessions.choose("s", OWNER, { yolo: true }),
    (agent) => agent.core.sessions.choose("s", OWNER, { yolo: false }),
  ],
  [
    "of all sessions",
    async ({ deps }) => void (deps.switches.yolo = true),
    async ({ deps }) => void (deps.switches.yolo = false),
  ],
  [
    "of its session's mode",
    (agent) => agent.core.sessions.choose("s", OWNER, { mode: "dont_ask" }),
    (agent) => agent.core.sessions.choose("s", OWNER, { mode: "accept_edits" }),
  ],
] as const satisfies readonly (readonly [
  string,
  (agent: TestAgent) => Promise<void>,
  (agent: TestAgent) => Promise<void>,
])[]) {
  test(`approvals ${title} that are switched back on apply to the next call of a turn that runs`, async () => {
    const switching = testTool(async () => (await after(agent), "ran"));
    await using agent: TestAgent = await createTestAgent({ tools: [switching], script: callsThenRemoves });
    await saveSession(agent.store, { id: "s", owner: OWNER, seed: { source: "test" } });
    await before(agent);
    const { runId } = await agent.submit("go", { id: "s" });
    assert.equal(await outputOf(agent, runId), "ok undefined, denied not_answerable");
  });

  test(`approvals ${title} that are switched back on apply to a sub-agent at work`, async () => {
    const switching = testTool(async () => (await after(agent), "ran"));
    const script: Script = (state) => {
      const [first] = state.messages;
      if (first?.role !== "user" || first.text !== "go") return callsThenRemoves(state);
      return state.step === 0
        ? { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "clean up" }] } }] }
        : { text: state.toolResults.at(-1)?.text ?? "" };
    };
    const tools = [switching, createDelegateTask()];
    await using agent: TestAgent = await createTestAgent({ tools, script });
    await saveSession(agent.store, { id: "s", owner: OWNER, seed: { source: "test" } });
    await before(agent);
    const { runId } = await agent.submit("go", { id: "s" });
    assert.match(await outputOf(agent, runId), /ok undefined, denied not_answerable/);
  });

  test(`approvals ${title} that are switched back on apply to a background prompt at work`, async () => {
    const switching = testTool(async () => (await after(agent), "ran"));
    await using agent: TestAgent = await createTestAgent({ tools: [switching], script: callsThenRemoves });
    await saveSession(agent.store, { id: "s", owner: OWNER, seed: { source: "test" } });
    await before(agent);
    const { runId } = await agent.core.background("s", OWNER, "go");
    assert.equal(await outputOf(agent, runId), "ok undefined, denied not_answerable");
  });
}

test("approvals that are switched off apply to the next call of a turn that runs", async () => {
  const switching = testTool(async ({ command }) => {
    await agent.core.sessions.choose("s", OWNER, { yolo: true });
    return `ran ${command}`;
  });
  const script: Script = ({ step, toolResults }) =>
    step < 2
      ? { calls: [{ tool: "terminal", input: { command: step === 0 ? "ls" : "rm -rf build" } }] }
      : { text: toolResults.map(({ status }) => status).join(" ") };
  await using agent: TestAgent = await createTestAgent({ tools: [switching], script });
  const { runId } = await agent.submit("go", { id: "s" });
  assert.equal(await outputOf(agent, runId), "ok ok");
});

test("a call that waits for approval keeps waiting when approvals are switched off", async () => {
  await using agent = await createTestAgent({ tools: [ok], script: callsOnce("rm -rf build") });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const { data } = await agent.event(runId, "approval.request");
  await agent.core.sessions.choose("s", OWNER, { yolo: true });
  assert.equal((await agent.run(runId)).status, "waiting_for_approval");
  await agent.deps.questions.answer(String(data["request_id"]), {
    owner: OWNER,
    by: "test",
    choice: "deny",
  });
  assert.equal(await outputOf(agent, runId), "denied: Denied by the user.");
});

test("a call that was approved does not run when its session is in plan mode by then", async () => {
  await using agent = await createTestAgent({ tools: [ok], script: callsOnce("rm -rf build") });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const { data } = await agent.event(runId, "approval.request");
  await agent.core.sessions.choose("s", OWNER, { mode: "plan" });
  await agent.deps.questions.answer(String(data["request_id"]), {
    owner: OWNER,
    by: "test",
    choice: "once",
  });
  assert.match(await outputOf(agent, runId), /^denied: Refused: this session is in plan mode/);
});

test("a folder that a session no longer has open is outside its workspace from the next call on", async () => {
  let detach = async (): Promise<void> => {};
  const closing = testTool(async () => (await detach(), "ran"));
  const script: Script = ({ step, toolResults }) =>
    step < 2
      ? { calls: [{ tool: "terminal", input: { command: "touch /srv/other/a" } }] }
      : { text: toolResults.map(({ status }) => status).join(" ") };
  await using agent = await createTestAgent({ tools: [closing], script });
  detach = agent.deps.clients.attach("s", { roots: ["/srv/other"] });
  const { runId } = await agent.submit("go", { id: "s" });
  assert.equal(await outputOf(agent, runId), "ok denied");
});

const editing = (name: string, ...writes: string[]) => {
  const intent: ToolIntent = { kind: "file", title: `Write: ${writes.join(", ")}`, writes };
  return { ...ok, name, kind: "edit" as const, inspect: () => intent };
};
const edits = [
  editing("inside", "/workspace/a"),
  editing("beside", "/workspace/b/c"),
  editing("temporary", "/tmp/a"),
  editing("outside", "/srv/a"),
];
const editsOnce =
  (...names: string[]): Script =>
  ({ step, toolResults }) =>
    step === 0
      ? { calls: names.map((tool) => ({ tool, input: { command: "x" } })) }
      : { text: toolResults.map(({ status }) => status).join(" ") };

test("in mode ask every edit waits for approval, and in accept_edits those in the workspace and /tmp run", async () => {
  const script = editsOnce("inside", "temporary", "outside");
  await using agent = await createTestAgent({ tools: edits, script });
  for (const [mode, expected] of [
    ["ask", "denied denied denied"],
    ["accept_edits", "ok ok denied"],
    ["dont_ask", "ok ok ok"],
  ] as const) {
    await inMode(agent, mode, mode);
    const { runId } = await agent.submit("go", { id: mode });
    assert.equal(await outputOf(agent, runId), expected, mode);
  }
  const { runId } = await agent.submit("go", { id: "no mode was chosen" });
  assert.equal(await outputOf(agent, runId), "ok ok denied");
});

test("approval of an edit for the session covers its working folder, and other open questions about it", async () => {
  await using agent = await createTestAgent({
    tools: edits,
    script: editsOnce("inside", "beside", "temporary"),
  });
  await inMode(agent, "s", "ask");
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const asked: Record<string, unknown>[] = [];
  for await (const { type, data } of agent.follow(runId)) {
    if (type === "approval.request") asked.push(data);
    if (asked.length === 3) break;
  }
  const requestOf = (tool: string) => asked.find((data) => data["tool"] === tool) ?? {};
  assert.deepEqual(requestOf("inside")["choices"], ["once", "session", "deny"]);
  assert.equal(requestOf("inside")["covers"], "edits in /workspace");
  assert.equal(requestOf("temporary")["covers"], "edits of /tmp/a");
  assert.equal(requestOf("inside")["signature"], undefined);
  const answer = (tool: string, choice: "session" | "deny") =>
    agent.deps.questions.answer(String(requestOf(tool)["request_id"]), { owner: OWNER, by: "test", choice });
  await answer("inside", "session");
  await answer("temporary", "deny");
  assert.equal(await outputOf(agent, runId), "ok ok denied");
  const responded = (await agent.events(runId)).filter(({ type }) => type === "approval.responded");
  const answered = responded.find(({ data }) => data["request_id"] === requestOf("beside")["request_id"]);
  assert.deepEqual([answered?.data["by"], answered?.data["choice"]], ["agentd", "once"]);
  const next = await agent.submit("go", { id: "s" });
  assert.equal(await outputOf(agent, next.runId), "ok ok denied");
});

test("the question about an edit, also of a sub-agent, shows what it would change", async () => {
  const change = { path: "/workspace/a", diff: "--- a\n+++ a\n", old_text: "old", new_text: "new" };
  const tool = { ...editing("inside", "/workspace/a"), preview: async () => [change] };
  const script: Script = (state) => {
    const [first] = state.messages;
    if (first?.role !== "user" || first.text !== "go") return editsOnce("inside")(state);
    return state.step === 0
      ? { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "edit it" }] } }] }
      : { text: "done" };
  };
  await using agent = await createTestAgent({ tools: [tool, createDelegateTask()], script });
  await inMode(agent, "s", "ask");
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const { data } = await agent.event(runId, "approval.request");
  assert.deepEqual(data["changes"], [{ path: change.path, diff: change.diff }]);
  await agent.deps.questions.answer(String(data["request_id"]), {
    owner: OWNER,
    by: "test",
    choice: "once",
  });
  await agent.events(runId);
});
