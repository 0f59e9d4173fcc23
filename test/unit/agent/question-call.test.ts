import assert from "node:assert/strict";
import { test } from "node:test";
import { OURSELVES } from "../../../src/agent/question/question.ts";
import type { ToolContext } from "../../../src/agent/tool/tool.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";

type Asked = Awaited<ReturnType<TestAgent["event"]>>;

const answer = (agent: TestAgent, { data }: Asked, reply: object): Promise<void> =>
  agent.deps.questions.answer(String(data["request_id"]), {
    owner: "tester",
    by: "test",
    ...reply,
  } as never);

test("a question names the waiting call; an approval names what a grant would cover", async () => {
  const questions = [{ id: "q1", question: "Why?", choices: null, multi_select: false }];
  const clarify = async (_: unknown, context: ToolContext) =>
    JSON.stringify(await context.questions.clarify(questions));
  await using agent = await createTestAgent({
    tools: [testTool(clarify)],
    script: callsOnce("git push origin main"),
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const leave = await agent.event(runId, "approval.request");
  const call = (await agent.event(runId, "tool.started")).data["tool_call_id"];
  assert.equal(leave.data["tool_call_id"], call);
  assert.equal(leave.data["covers"], "git push origin main");
  await answer(agent, leave, { choice: "once" });
  const question = await agent.event(runId, "clarify.request");
  assert.equal(question.data["tool_call_id"], call);
  await answer(agent, question, { answers: {} });
  await agent.events(runId);
});

test("leave for a tool names it as people know it, though it is kept for what the tool is", async () => {
  const inspect = () => ({ kind: "tool", title: "Read", identity: "terminal#1f2e3d" }) as const;
  const tool = { ...testTool(async () => "ran"), inspect };
  await using agent = await createTestAgent({ tools: [tool], script: callsOnce("x") });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const leave = await agent.event(runId, "approval.request");
  assert.equal(leave.data["covers"], "terminal");
  await answer(agent, leave, { choice: "always" });
  await agent.events(runId);
  const [grant] = await agent.store.read.selectFrom("grants").select("signature").execute();
  assert.equal(grant?.signature, "tool:terminal#1f2e3d");
});

test("an approval that cannot be remembered covers nothing, and a refusal by agentd names no user", async () => {
  await using agent = await createTestAgent({
    tools: [testTool(async () => "ran")],
    script: callsOnce("rm -rf x"),
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const leave = await agent.event(runId, "approval.request");
  assert.ok(!("covers" in leave.data));
  const reply = { choice: "deny", reason: "nobody can be asked" } as const;
  await answer(agent, leave, { ...reply, by: OURSELVES });
  assert.equal((await agent.events(runId)).at(-1)?.data["output"], "denied: Denied: nobody can be asked");
});

test("a password in the error of a tool reaches no client and no log", async () => {
  const password = "correct horse 78";
  const use = async (_: unknown, { questions }: ToolContext) => {
    throw new TypeError(`cannot use ${await questions.sudo("sudo ls")}`);
  };
  await using agent = await createTestAgent({ tools: [testTool(use)], script: callsOnce("ls") });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  await answer(agent, await agent.event(runId, "sudo.request"), { password });
  const events = await agent.events(runId);
  assert.match(String(events.at(-1)?.data["output"]), /^error: .*failed inside the server/);
  assert.match(agent.logLines.join("\n"), /a tool failed unexpectedly.*cannot use \[redacted\]/);
  assert.ok(!(JSON.stringify(events) + agent.logLines.join("\n")).includes(password));
});

test("an approval lets one call through: no process can use it again", async () => {
  await using agent = await createTestAgent({
    tools: [testTool(async () => "ran")],
    script: callsOnce("rm -rf x"),
  });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const asked = await agent.event(runId, "approval.request");
  const from = { sessionId: "s", signal: new AbortController().signal };
  const take = ({ deps }: TestAgent) => deps.questions.take(String(asked.data["request_id"]), from);
  assert.equal(await take(agent), false, "it is not answered yet");
  await answer(agent, asked, { choice: "once" });
  assert.equal((await agent.events(runId)).at(-1)?.data["output"], "ok: ran");
  assert.deepEqual([await take(agent), await take(other)], [false, false]);
});

test("only the process that holds the session's lease can use an approval, and only once", async () => {
  await using agent = await createTestAgent({
    tools: [testTool(async () => "ran")],
    script: callsOnce("rm -rf x"),
  });
  await using other = await createTestAgent({ database: agent.databaseUrl });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  const asked = await agent.event(runId, "approval.request");
  await agent.store.write(async (tx) => {
    await tx.update("sessions", { id: "s" }, { lease_owner: other.store.owner });
  });
  await answer(other, asked, { choice: "once" });
  const from = { sessionId: "s", signal: new AbortController().signal };
  const take = ({ deps }: TestAgent) => deps.questions.take(String(asked.data["request_id"]), from);
  assert.deepEqual([await take(agent), await take(other), await take(other)], [false, true, false]);
});
