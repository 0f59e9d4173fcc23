/** What can happen in a turn, over the engine port, as every surface sees it: in the journal and in the transcript. */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { McpServers } from "../../src/agent/mcp/servers.ts";
import { createLog } from "../../src/base/observe.ts";
import { createDelegateTask } from "../../src/agent/tools/delegate-task.ts";
import { FakeClock } from "../harness/fake-clock.ts";
import { assertStrict } from "../harness/strict.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../harness/agent.ts";
import { unnamed } from "../harness/unnamed.ts";

const OWNER = "tester";

async function strictAfterwards(agent: TestAgent, sessionId: string): Promise<void> {
  assertStrict(await agent.transcript(sessionId));
  const next = await agent.submit("and now?", { id: sessionId });
  assert.equal((await agent.events(next.runId)).at(-1)?.type, "run.completed");
}

const types = (events: readonly { type: string }[]) => events.map(({ type }) => type);

/** The open approval for a command, waiting for it if need be. */
async function approvalFor(agent: TestAgent, runId: string, command: string): Promise<string> {
  for await (const { type, data } of agent.follow(runId)) {
    if (type === "approval.request" && data["command"] === command) return String(data["request_id"]);
  }
  throw new Error(`nobody asked about ${command}`);
}

function answer(agent: TestAgent, questionId: string, choice: "once" | "session" | "always" | "deny") {
  return agent.deps.questions.answer(questionId, { owner: OWNER, choice, by: "test" });
}

test("parallel approvals answered out of order: each answer reaches its own call", async () => {
  const ran: string[] = [];
  await using agent = await createTestAgent({
    tools: [testTool(async ({ command }) => (ran.push(command), `ran ${command}`))],
    script: callsOnce("rm -rf one", "rm -rf two", "rm -rf three"),
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  await answer(agent, await approvalFor(agent, runId, "rm -rf three"), "once");
  await answer(agent, await approvalFor(agent, runId, "rm -rf one"), "deny");
  await answer(agent, await approvalFor(agent, runId, "rm -rf two"), "once");
  await agent.events(runId);
  assert.equal(
    (await agent.run(runId)).output,
    "denied: Denied by the user.\nok: ran rm -rf two\nok: ran rm -rf three",
  );
  assert.deepEqual(ran.toSorted(), ["rm -rf three", "rm -rf two"]);
});

test("an approval that expires denies its call, and the turn continues", async () => {
  const clock = new FakeClock();
  await using agent = await createTestAgent({
    clock,
    tools: [testTool(async () => "ran")],
    script: callsOnce("rm -rf build"),
    settings: { questionTimeouts: { approvalMs: 1_000, clarifyMs: 0, passwordMs: 0 } },
  });
  const { runId } = await agent.submit("go", { answerable: true });
  await agent.event(runId, "approval.request");
  clock.tick(1_000);
  const events = await agent.events(runId);
  assert.ok(types(events).includes("approval.expired"));
  assert.equal((await agent.run(runId)).output, "denied: Denied: no answer came in time.");
});

test("text steered in during a tool is seen by the model at its next step, and nothing is interrupted", async () => {
  const inTool = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    tools: [testTool(async () => (inTool.resolve(), await gate.promise, "ran"))],
    script: ({ step, user }) =>
      step === 0 ? { calls: [{ tool: "terminal", input: { command: "ls" } }] } : { text: `heard: ${user}` },
  });
  const { runId, sessionId } = await agent.submit("go", { id: "s" });
  await inTool.promise;
  assert.equal(await agent.runs.steer(runId, "use tabs"), true);
  gate.resolve();
  const events = await agent.events(runId);
  assert.equal(events.at(-1)?.data["output"], "heard: use tabs");
  const [accepted, taken] = ["run.steer_accepted", "run.steered"].map((type) =>
    events.find((event) => event.type === type),
  );
  assert.equal(accepted?.data["steer_id"], taken?.data["steer_id"]);
  assert.ok((await agent.transcript(sessionId)).some((m) => m.role === "user" && m.origin === "steer"));
  await strictAfterwards(agent, sessionId);
});

test("text steered in during the final text makes the turn go on", async () => {
  const speaking = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  async function* slowly() {
    yield "almost ";
    speaking.resolve();
    await gate.promise;
    yield "done";
  }
  await using agent = await createTestAgent({
    script: ({ step, user }) => ({ text: step === 0 ? slowly() : `also ${user}` }),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  await speaking.promise;
  assert.equal(await agent.runs.steer(runId, "the tests"), true);
  gate.resolve();
  assert.equal((await agent.events(runId)).at(-1)?.data["output"], "also the tests");
});

test("follow-ups wait with their true places and run in order", async () => {
  const gate = Promise.withResolvers<void>();
  const order: string[] = [];
  await using agent = await createTestAgent({
    script: async ({ user }) => {
      order.push(user);
      await gate.promise;
      return { text: user };
    },
  });
  await agent.submit("first", { id: "s" });
  const two = await agent.submit("two", { id: "s" });
  const three = await agent.submit("three", { id: "s" });
  assert.deepEqual([two.queuePosition, three.queuePosition], [1, 2]);
  await agent.runs.stop(two.runId, "not any more");
  const four = await agent.submit("four", { id: "s" });
  assert.equal(four.queuePosition, 2);
  gate.resolve();
  await agent.events(four.runId);
  assert.deepEqual(order, ["first", "three", "four"]);
});

test("a prompt that interrupts stops the turn at work and runs next", async () => {
  await using agent = await createTestAgent({
    script: async ({ user, signal }) => {
      if (user !== "wait") return { text: `now ${user}` };
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return { text: "never said" };
    },
  });
  const first = await agent.submit("wait", { id: "s" });
  const second = await agent.submit("this", { id: "s", whenBusy: "interrupt" });
  assert.equal(second.status, "queued");
  assert.equal((await agent.events(first.runId)).at(-1)?.type, "run.cancelled");
  assert.equal((await agent.events(second.runId)).at(-1)?.data["output"], "now this");
});

test("interrupt in the stream: what was said stays, marked as cut", async () => {
  const speaking = Promise.withResolvers<void>();
  let wait = true;
  await using agent = await createTestAgent({
    script: ({ signal }) => ({
      text: wait
        ? (async function* () {
            yield "half a";
            speaking.resolve();
            await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
          })()
        : "fine",
    }),
  });
  const { runId, sessionId } = await agent.submit("go", { id: "s" });
  await speaking.promise;
  wait = false;
  await agent.runs.stop(runId, "enough");
  assert.equal((await agent.events(runId)).at(-1)?.type, "run.cancelled");
  const said = (await agent.transcript(sessionId)).at(-1);
  assert.deepEqual(unnamed(said), {
    role: "assistant",
    parts: [{ type: "text", text: "half a" }],
    interrupted: true,
  });
  await strictAfterwards(agent, sessionId);
});

test("interrupt in a tool: the tool is stopped, its call is answered as aborted", async () => {
  const inTool = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    tools: [
      testTool(async (_, { signal }) => {
        inTool.resolve();
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      }),
    ],
    script: ({ step, user }) =>
      step === 0 && user === "go"
        ? { calls: [{ tool: "terminal", input: { command: "ls" } }] }
        : { text: "ok" },
  });
  const { runId, sessionId } = await agent.submit("go", { id: "s" });
  await inTool.promise;
  await agent.runs.stop(runId, "enough");
  const events = await agent.events(runId);
  assert.equal(events.find(({ type }) => type === "tool.completed")?.data["status"], "aborted");
  assert.equal(events.at(-1)?.type, "run.cancelled");
  await strictAfterwards(agent, sessionId);
});

test("interrupt in an approval: every open question is closed, nothing runs", async () => {
  let ran = 0;
  await using agent = await createTestAgent({
    tools: [testTool(async () => `${++ran}`)],
    script: ({ step, user }) =>
      step === 0 && user === "go"
        ? {
            calls: ["rm -rf a", "rm -rf b"].map((command) => ({ tool: "terminal", input: { command } })),
          }
        : { text: "ok" },
  });
  const { runId, sessionId } = await agent.submit("go", { id: "s", answerable: true });
  const questionId = await approvalFor(agent, runId, "rm -rf a");
  await approvalFor(agent, runId, "rm -rf b");
  await agent.runs.stop(runId, "enough");
  const events = await agent.events(runId);
  const expired = events.filter(({ type }) => type === "approval.expired");
  assert.deepEqual(
    expired.map(({ data }) => data["reason"]),
    ["cancelled", "cancelled"],
  );
  assert.deepEqual(await agent.deps.questions.open({ sessionId }), []);
  await assert.rejects(answer(agent, questionId, "once"), { code: "ask_not_pending" });
  assert.equal(ran, 0);
  await strictAfterwards(agent, sessionId);
});

test("interrupt in a sub-agent: it ends with its own sub-agents, and the run that started it continues", async () => {
  const deep = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    tools: [
      createDelegateTask(),
      testTool(async (_, { signal }) => {
        deep.resolve();
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      }),
    ],
    script: ({ user, step, toolResults }) => {
      if (step > 0) return { text: `got: ${toolResults[0]?.text}` };
      const delegate = (goal: string) => ({
        calls: [{ tool: "delegate_task", input: { tasks: [{ goal }] } }],
      });
      if (user === "go") return delegate("child");
      if (user === "child") return delegate("grandchild");
      return { calls: [{ tool: "terminal", input: { command: "ls" } }] };
    },
  });
  const { runId, sessionId } = await agent.submit("go", { id: "s" });
  await deep.promise;
  const child = String((await agent.event(runId, "subagent.start")).data["subagent_id"]);
  assert.equal(await agent.runs.stop(child, "not this way"), true);
  const events = await agent.events(runId);
  const ended = events.filter(({ type }) => type === "subagent.complete");
  assert.deepEqual(
    ended.map(({ data }) => data["status"]),
    ["cancelled", "cancelled"],
  );
  assert.equal(events.at(-1)?.type, "run.completed");
  assert.match(String(events.at(-1)?.data["output"]), /cancelled/);
  assertStrict(await agent.transcript(sessionId));
});

test("MCP reload in mid-session: later turns have the new tools, the conversation continues", async (t) => {
  const servers = new McpServers(createLog("error"));
  t.after(() => servers.close());
  const { PATH = "", HOME = "" } = process.env;
  const fixture = join(import.meta.dirname, "../unit/agent/mcp/sdk-server.ts");
  const args = "Deno" in globalThis ? ["run", "-A", "--no-check", fixture] : [fixture];
  const options = { command: process.execPath, args, env: { PATH, HOME }, cwd: import.meta.dirname };
  const limits = { startTimeoutMs: 60_000, timeoutMs: 60_000 };
  await servers.use({ one: { ...options, ...limits, tools: ["echo"] } });
  await using agent = await createTestAgent({
    liveTools: () => servers.tools(),
    script: ({ step, tools, toolResults }) =>
      step === 0
        ? { calls: [{ tool: tools[0] ?? "none", input: { text: tools.join() } }] }
        : { text: toolResults.map(({ text }) => text).join() },
  });
  const turn = async (text: string) => {
    const { runId } = await agent.submit(text, { id: "s", answerable: true });
    for await (const { type, data } of agent.follow(runId)) {
      if (type === "approval.request") await answer(agent, String(data["request_id"]), "session");
    }
    return (await agent.run(runId)).output;
  };
  assert.equal(await turn("first"), "mcp_one_echo");
  await servers.use({ two: { ...options, ...limits, tools: ["echo"] } });
  assert.equal(await turn("second"), "mcp_two_echo");
  assert.equal((await agent.transcript("s")).filter(({ role }) => role === "user").length, 2);
});
