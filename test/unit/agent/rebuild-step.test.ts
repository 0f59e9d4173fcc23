import assert from "node:assert/strict";
import { test } from "node:test";
import { runEvent } from "../../../src/agent/run/event.ts";
import { addMessages } from "../../../src/agent/session/transcript.ts";
import type { Message } from "../../../src/agent/engine.ts";
import { pendingSteers, rebuildStep } from "../../../src/agent/recovery/rebuild-step.ts";
import { createClarify } from "../../../src/agent/tools/clarify.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import { callsOnce, createTestAgent, testTool, type TestAgent } from "../../harness/agent.ts";
import { unnamed } from "../../harness/unnamed.ts";

const GHOST = "process-that-never-was";

/** Every call has its one answer directly behind it, and nothing else has one. */
function assertStrict(messages: readonly Message[]): void {
  const open: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") assert.equal(open.shift(), message.callId);
    else assert.deepEqual(open, [], `no answer before ${message.role}`);
    if (message.role !== "assistant") continue;
    open.push(...message.parts.flatMap((part) => (part.type === "tool_call" ? [part.callId] : [])));
  }
  assert.deepEqual(open, [], "calls without an answer at the end");
}

/** The process of `agent` is dead for all others; a new one takes its sessions over. */
async function takeOver(agent: TestAgent): Promise<TestAgent> {
  await agent.store.write(async (tx) => {
    await tx.update("sessions", { lease_owner: agent.store.owner }, { lease_owner: GHOST, lease_until: 1 });
  });
  const next = await createTestAgent({ database: agent.databaseUrl, script: () => ({ text: "fine" }) });
  assert.ok((await next.recovery.recover()) > 0);
  return next;
}

async function goesOn(agent: TestAgent, sessionId: string): Promise<void> {
  assertStrict(await agent.transcript(sessionId));
  const { runId } = await agent.submit("and now?", { id: sessionId });
  assert.equal((await agent.events(runId)).at(-1)?.data["output"], "fine");
  assertStrict(await agent.transcript(sessionId));
}

const untilAbort = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

test("death in the middle of a text: what was said stays, marked as cut", async () => {
  await using agent = await createTestAgent({
    script: ({ signal }) => ({
      text: (async function* () {
        yield "Once upon ";
        yield "a time";
        await untilAbort(signal);
      })(),
    }),
  });
  const { runId } = await agent.submit("tell", { id: "s" });
  let said = "";
  for await (const { type, data } of agent.follow(runId)) {
    if (type === "message.delta") said += String(data["delta"]);
    if (said === "Once upon a time") break;
  }
  await using next = await takeOver(agent);
  assert.deepEqual(unnamed((await next.transcript("s")).at(-1)), {
    role: "assistant",
    parts: [{ type: "text", text: "Once upon a time" }],
    interrupted: true,
  });
  assert.equal((await next.events(runId)).at(-1)?.type, "run.interrupted");
  await goesOn(next, "s");
});

test("death in the middle of tools: what ended keeps its answer, what did not is answered as not known", async () => {
  const quick = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    tools: [
      testTool(async ({ command }, { signal }) => {
        if (command === "true") return "quick result";
        quick.resolve();
        await untilAbort(signal);
        throw signal.reason;
      }),
    ],
    script: ({ step }) =>
      step === 0
        ? { text: "First.", calls: [{ tool: "terminal", input: { command: "true" } }] }
        : {
            text: "Both.",
            calls: ["true", "ls"].map((command) => ({ tool: "terminal", input: { command } })),
          },
  });
  const { runId } = await agent.submit("go", { id: "s" });
  let ended = 0;
  await quick.promise;
  for await (const { type } of agent.follow(runId)) if (type === "tool.completed" && ++ended === 2) break;
  await using next = await takeOver(agent);
  const transcript = await next.transcript("s");
  assert.deepEqual(
    transcript.map((message) =>
      message.role === "tool" ? `${message.status}: ${message.text.slice(0, 12)}` : message.role,
    ),
    ["user", "assistant", "ok: quick result", "assistant", "ok: quick result", "aborted: The server p"],
  );
  const cut = transcript[3];
  assert.ok(cut?.role === "assistant" && cut.interrupted);
  assert.deepEqual(unnamed(cut).parts[0], { type: "text", text: "Both." });
  const last = transcript.at(-1);
  assert.match(last?.role === "tool" ? last.text : "", /is unknown/);
  await goesOn(next, "s");
});

test("a question open at the death of its process is closed, its call is answered, and later answers fail", async () => {
  for (const [tools, script, kind] of [
    [[testTool(async () => "ran")], callsOnce("rm -rf build"), "approval"],
    [
      [createClarify()],
      () => ({ calls: [{ tool: "clarify", input: { questions: [{ question: "Which?" }] } }] }),
      "clarify",
    ],
  ] as const) {
    await using agent = await createTestAgent({ tools, script });
    const { runId } = await agent.submit("go", { id: "s", answerable: true });
    const asked = await agent.event(runId, `${kind}.request`);
    await agent.event(runId, "tool.started");
    await using next = await takeOver(agent);
    const events = await next.events(runId);
    assert.equal(events.find(({ type }) => type === `${kind}.expired`)?.data["reason"], "cancelled");
    assert.deepEqual(await next.deps.questions.open({ sessionId: "s" }), []);
    const late = { owner: "tester", by: "late", choice: "once" as const };
    const reply = kind === "approval" ? late : { owner: "tester", by: "late", answers: {} };
    await assert.rejects(next.deps.questions.answer(String(asked.data["request_id"]), reply), {
      code: "ask_not_pending",
    });
    const last = (await next.transcript("s")).at(-1);
    assert.equal(last?.role === "tool" && last.status, "aborted");
    await goesOn(next, "s");
  }
});

test("death with steering that the model never saw: it is handed back, what it saw is in the transcript", async () => {
  const steps = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const gate = Promise.withResolvers<void>();
  let calls = 0;
  await using agent = await createTestAgent({
    tools: [
      testTool(async (_, { signal }) => {
        const call = calls++;
        steps[call]?.resolve();
        await (call === 0 ? gate.promise : untilAbort(signal));
        return "ran";
      }),
    ],
    script: () => ({ calls: [{ tool: "terminal", input: { command: "ls" } }] }),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  await steps[0]?.promise;
  await agent.runs.steer(runId, "seen");
  gate.resolve();
  await steps[1]?.promise;
  for await (const { type } of agent.follow(runId)) if (type === "run.steered") break;
  await agent.runs.steer(runId, "unseen one");
  await agent.runs.steer(runId, "unseen two");
  await using next = await takeOver(agent);
  const end = (await next.events(runId)).at(-1);
  assert.deepEqual(end?.data["pending_steer"], ["unseen one", "unseen two"]);
  const steered = (await next.transcript("s")).filter((m) => m.role === "user" && m.origin === "steer");
  assert.deepEqual(
    steered.map((message) => message.role === "user" && message.text),
    ["seen"],
  );
  await goesOn(next, "s");
});

test("death between the last answer and the end of the run: the answer is not there twice", async () => {
  await using agent = await createTestAgent({ script: () => ({ text: "The answer." }) });
  const { runId } = await agent.submit("ask", { id: "s" });
  await agent.events(runId);
  await agent.store.write(async (tx) => {
    await tx.update("runs", { id: runId }, { status: "running", ended_at: null, output: null });
    await tx.db
      .deleteFrom("events")
      .where("run_id", "=", runId)
      .where("type", "=", "run.completed")
      .execute();
    await tx.update("sessions", { id: "s" }, { lease_owner: agent.store.owner });
  });
  await using next = await takeOver(agent);
  assert.deepEqual((await next.transcript("s")).map(unnamed), [
    { role: "user", text: "ask" },
    { role: "assistant", parts: [{ type: "text", text: "The answer." }] },
  ]);
  assert.equal((await next.run(runId)).status, "interrupted");
});

test("death before anything was said leaves the prompt, which the next turn sees", async () => {
  const asked = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    script: async ({ signal }) => {
      asked.resolve();
      await untilAbort(signal);
      return {};
    },
  });
  await agent.submit("hello?", { id: "s" });
  await asked.promise;
  await using next = await takeOver(agent);
  assert.deepEqual(await next.transcript("s"), [{ role: "user", text: "hello?" }]);
  await goesOn(next, "s");
});

test("death of a whole family: every run of it ends, every question is closed", async () => {
  let delegated = false;
  await using agent = await createTestAgent({
    tools: [createDelegateTask(), testTool(async () => "ran")],
    script: async ({ user, signal }) => {
      if (user !== "go") return { calls: [{ tool: "terminal", input: { command: "rm -rf build" } }] };
      // The process is not really dead: it must not go on with what its sub-agents, being ended, tell it.
      if (delegated) await untilAbort(signal);
      delegated = true;
      return { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "a" }, { goal: "b" }] } }] };
    },
  });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  let asked = 0;
  for await (const { type } of agent.follow(runId)) if (type === "approval.request" && ++asked === 2) break;
  await using next = await takeOver(agent);
  const rows = await next.store.read.selectFrom("runs").select(["id", "status", "session_id"]).execute();
  assert.equal(rows.find(({ id }) => id === runId)?.status, "interrupted");
  // The process that counts as dead here still lives, and may have asked its sub-agents to stop before.
  for (const { status } of rows) assert.match(status, /^(interrupted|cancelled)$/);
  assert.equal(rows.length, 3);
  assert.deepEqual(await next.deps.questions.open({ runId }), []);
  for (const { session_id } of rows) assertStrict(await next.transcript(session_id));
  await goesOn(next, "s");
});

test("a step that a dead process left is rebuilt from its events in any order", async () => {
  await using agent = await createTestAgent({ script: () => ({ text: "fine" }) });
  const { runId } = await agent.submit("go", { id: "s" });
  await agent.events(runId);
  const call = (tool_call_id: string) =>
    runEvent(runId, "tool.started", { tool_call_id, tool: "terminal", kind: "execute", arguments: null });
  await agent.store.write(async (tx) => {
    await tx.update("runs", { id: runId }, { status: "running", ended_at: null });
    await addMessages(tx, { sessionId: "s", runId }, [{ role: "user", text: "more", origin: "steer" }]);
    await agent.store.journal.append(tx, "s", [
      runEvent(runId, "message.delta", { message_id: "m", delta: "" }),
      call("one"),
      call("two"),
      runEvent(runId, "tool.completed", {
        tool_call_id: "unknown",
        tool: "terminal",
        status: "ok",
        duration: 1,
        error: false,
        preview: "",
        result: "",
      }),
    ]);
    await tx.update("sessions", { id: "s" }, { lease_owner: agent.store.owner });
  });
  await using next = await takeOver(agent);
  assertStrict(await next.transcript("s"));
  await goesOn(next, "s");
});

test("a step of nothing is not a message, and steering is pending until it was taken", () => {
  assert.deepEqual(rebuildStep([]), []);
  assert.deepEqual(rebuildStep([{ type: "message.delta", data: { delta: "" } }]), []);
  const accepted = (steer_id: string) => ({ type: "run.steer_accepted", data: { steer_id, text: steer_id } });
  const taken = { type: "run.steered", data: { steer_id: "b", text: "b" } };
  assert.deepEqual(pendingSteers([accepted("a"), accepted("b"), taken, accepted("c")]), ["a", "c"]);
});
