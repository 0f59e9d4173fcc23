/** What can happen in a turn, over the engine port, as every surface sees it: in the journal and in the transcript. */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { McpServers } from "../../src/agent/mcp/servers.ts";
import { createLog } from "../../src/base/log.ts";
import type { Message } from "../../src/agent/message.ts";
import { createDelegateTask } from "../../src/agent/tools/delegate-task.ts";
import { FakeClock } from "../../src/base/clock.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../harness/agent.ts";

const OWNER = "tester";

/** Every tool call has exactly one answer, directly behind its message: what a strict provider accepts. */
function assertStrict(messages: readonly Message[]): void {
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

function answer(agent: TestAgent, askId: string, choice: "once" | "session" | "always" | "deny") {
  return agent.parts.asks.answer(askId, { owner: OWNER, choice, by: "test" });
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

test("an approval that expires denies its call, and the turn goes on", async () => {
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
  assert.equal((await agent.run(runId)).output, "denied: Denied: nobody answered in time.");
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
  assert.equal(await agent.turns.steer(runId, "use tabs"), true);
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
  assert.equal(await agent.turns.steer(runId, "the tests"), true);
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
  await agent.turns.stop(two.runId, "not any more");
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
  await agent.turns.stop(runId, "enough");
  assert.equal((await agent.events(runId)).at(-1)?.type, "run.cancelled");
  const said = (await agent.transcript(sessionId)).at(-1);
  assert.deepEqual(said, {
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
  await agent.turns.stop(runId, "enough");
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
  const askId = await approvalFor(agent, runId, "rm -rf a");
  await approvalFor(agent, runId, "rm -rf b");
  await agent.turns.stop(runId, "enough");
  const events = await agent.events(runId);
  const expired = events.filter(({ type }) => type === "approval.expired");
  assert.deepEqual(
    expired.map(({ data }) => data["reason"]),
    ["cancelled", "cancelled"],
  );
  assert.deepEqual(await agent.parts.asks.open({ sessionId }), []);
  await assert.rejects(answer(agent, askId, "once"), { code: "ask_not_pending" });
  assert.equal(ran, 0);
  await strictAfterwards(agent, sessionId);
});

test("interrupt in a sub-agent: it ends with its own sub-agents, and the run that started it goes on", async () => {
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
  assert.equal(await agent.turns.stop(child, "not this way"), true);
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

test("compression with open tool calls keeps every call with its answers", async () => {
  const asked: string[] = [];
  await using agent = await createTestAgent({
    tools: [testTool(async ({ command }) => `ran ${command}`)],
    settings: { compression: { threshold: undefined, keepMessages: 3, model: undefined } },
    script: ({ step, user, instructions }) => {
      if (instructions.startsWith("You sum up")) {
        asked.push(user);
        return { text: "They did things." };
      }
      return step < 3
        ? { calls: [1, 2].map((n) => ({ tool: "terminal", input: { command: `echo ${step}${n}` } })) }
        : { text: "done" };
    },
  });
  const { runId, sessionId } = await agent.submit("do much", { id: "s" });
  await agent.events(runId);
  const done = await agent.core.compress(sessionId, OWNER, { focus: "the names" });
  assert.equal(done.status, "compressed");
  assert.ok(done.afterMessages < done.beforeMessages && done.afterTokens < done.beforeTokens);
  assert.match(asked[0] ?? "", /the names/);
  const seen: Message[][] = [];
  await using other = await createTestAgent({
    database: agent.databaseUrl,
    script: ({ messages }) => (seen.push([...messages]), { text: "ok" }),
  });
  await other.events((await other.submit("next", { id: sessionId })).runId);
  assertStrict(seen[0] ?? []);
  assert.match(seen[0]?.[0]?.role === "user" ? seen[0][0].text : "", /They did things/);
  assert.equal((await agent.transcript(sessionId)).length, 13, "people still see all of it");
});

test("a conversation near the limit is compressed by itself, and the turn goes on", async () => {
  await using agent = await createTestAgent({
    providers: [{ name: "local", type: "openai_compatible", models: ["m"], contextTokens: 1_000 }],
    settings: { compression: { threshold: 0.5, keepMessages: 2, model: undefined } },
    script: ({ instructions, messages }) =>
      instructions.startsWith("You sum up")
        ? { text: "Short." }
        : { text: `${messages.length}: ${"x".repeat(800)}` },
  });
  const ends = [];
  for (const text of ["one", "two", "three", "four"]) {
    ends.push(await agent.events((await agent.submit(text, { id: "s" })).runId));
  }
  const compressed = ends.flat().filter(({ type }) => type === "compression.completed");
  assert.ok(compressed.length > 0);
  assert.equal(compressed[0]?.data["status"], "compressed");
  assert.equal(ends.flat().find(({ type }) => type === "compression.started")?.data["reason"], "near_limit");
  assert.ok(ends.every((events) => events.at(-1)?.type === "run.completed"));
});

test("an overflow of the provider leads to one compression and one retry", async () => {
  let refused = 0;
  await using agent = await createTestAgent({
    settings: { compression: { threshold: undefined, keepMessages: 4, model: undefined } },
    script: ({ instructions, messages, user }) => {
      if (instructions.startsWith("You sum up")) return { text: "Short." };
      if (user === "big" && messages.length > 5) {
        refused++;
        return { error: { code: "context_too_long", message: "The context is too long." } };
      }
      return { text: "fine" };
    },
  });
  for (const text of ["a", "b", "c"]) await agent.events((await agent.submit(text, { id: "s" })).runId);
  const events = await agent.events((await agent.submit("big", { id: "s" })).runId);
  assert.equal(refused, 1);
  assert.equal(events.find(({ type }) => type === "compression.started")?.data["reason"], "overflow");
  assert.equal(events.at(-1)?.data["output"], "fine");
});

test("branch and resume: the branch goes on in another process with its history", async () => {
  await using agent = await createTestAgent({ script: ({ user }) => ({ text: `re: ${user}` }) });
  await agent.events((await agent.submit("one", { id: "s" })).runId);
  const branch = await agent.core.sessions.branch("s", OWNER, { title: "other way" });
  await using next = await createTestAgent({
    database: agent.databaseUrl,
    script: ({ messages }) => ({ text: `${messages.length} messages` }),
  });
  const found = await next.core.sessions.find("other way", OWNER);
  assert.equal(found.id, branch.id);
  const { runId } = await next.submit("two", { id: found.id });
  await next.events(runId);
  assert.equal((await next.run(runId)).output, "3 messages");
});

test("a spent budget stops the run before the next model call", async () => {
  let calls = 0;
  await using agent = await createTestAgent({
    tools: [testTool(async () => "ran")],
    settings: { budget: { runTokens: 10, dayTokens: 0 } },
    script: () => {
      calls++;
      return { text: "x".repeat(80), calls: [{ tool: "terminal", input: { command: "ls" } }] };
    },
  });
  const { runId, sessionId } = await agent.submit("go", { id: "s" });
  const last = (await agent.events(runId)).at(-1);
  assert.equal(calls, 1);
  assert.deepEqual(last?.type, "run.failed");
  assert.match(JSON.stringify(last.data["error"]), /"budget_exceeded"/);
  assertStrict(await agent.transcript(sessionId));
});

test("the budget of a day holds across runs and processes, and ends with the day", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 1, 12));
  const settings = { budget: { runTokens: 0, dayTokens: 15 } };
  const script = () => ({ text: "x".repeat(80) });
  await using agent = await createTestAgent({ clock, settings, script });
  assert.equal((await agent.events((await agent.submit("1")).runId)).at(-1)?.type, "run.completed");
  assert.equal((await agent.events((await agent.submit("2")).runId)).at(-1)?.type, "run.failed");
  await using other = await createTestAgent({ clock, settings, script, database: agent.databaseUrl });
  assert.equal((await other.events((await other.submit("3")).runId)).at(-1)?.type, "run.failed");
  clock.tick(12 * 3_600_000);
  assert.equal((await other.events((await other.submit("4")).runId)).at(-1)?.type, "run.completed");
});

test("MCP reload in mid-session: later turns have the new tools, the conversation goes on", async (t) => {
  const servers = new McpServers(createLog("error"));
  t.after(() => servers.close());
  const { PATH = "", HOME = "" } = process.env;
  const fixture = join(import.meta.dirname, "../rooms/agent/mcp/sdk-server.ts");
  const args = "Deno" in globalThis ? ["run", "-A", "--no-check", fixture] : [fixture];
  const options = { command: process.execPath, args, env: { PATH, HOME }, cwd: import.meta.dirname };
  const limits = { startTimeoutMs: 20_000, timeoutMs: 10_000 };
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
