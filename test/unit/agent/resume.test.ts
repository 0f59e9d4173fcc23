import assert from "node:assert/strict";
import { test } from "node:test";
import type { AskChoice } from "../../../generated/http/client/types.gen.ts";
import { registerSecret, forgetSecret } from "../../../src/base/observe.ts";
import { createTestAgent, testTool, type TestAgent, type TestAgentOptions } from "../../harness/agent.ts";

const GHOST = "process-that-never-was";

/** Deletes once, and says what came of it. */
function deletes({
  toolResults,
  messages,
}: {
  toolResults: readonly { text: string }[];
  messages: readonly { role: string }[];
}) {
  const answers = messages.filter(({ role }) => role === "tool") as unknown as { text: string }[];
  const last = toolResults.at(-1) ?? answers.at(-1);
  return last === undefined
    ? { text: "about to", calls: [{ tool: "terminal", input: { command: "rm -rf old" } }] }
    : { text: `it says: ${last.text}` };
}

/** A tool that counts how often it really ran. */
function counter() {
  const ran: string[] = [];
  return { ran, tool: testTool(async ({ command }) => (ran.push(command), `ran ${ran.length}`)) };
}

const detached = (text = "go") => ({
  id: "s",
  input: {
    prompt: [{ role: "user" as const, text }],
    settings: {},
    answerable: true,
    isDetached: true as const,
  },
});

/** Leaves the session as a process leaves it that is killed. */
async function kill(agent: TestAgent): Promise<void> {
  const dead = { lease_owner: GHOST, lease_until: 1 };
  await agent.store.write(async (tx) => void (await tx.update("sessions", { id: "s" }, dead)));
}

interface Scene {
  readonly runId: string;
  readonly questionId: string;
}

async function waiting(agent: TestAgent): Promise<Scene> {
  const { runId } = await agent.submit("go", detached());
  const asked = await agent.event(runId, "approval.request");
  return { runId, questionId: String(asked.data["request_id"]) };
}

const answer = (agent: TestAgent, questionId: string, choice: AskChoice, reason?: string) =>
  agent.deps.questions.answer(questionId, {
    owner: "tester",
    by: "t",
    choice,
    ...(reason ? { reason } : {}),
  });

const successor = (agent: TestAgent, options: TestAgentOptions) =>
  createTestAgent({ ...options, database: agent.databaseUrl });

test("a run that waits for approval keeps waiting in the next process, and the tool runs there, once", async () => {
  const first = counter();
  await using agent = await createTestAgent({ script: deletes, tools: [first.tool] });
  const { runId, questionId } = await waiting(agent);
  await kill(agent);
  const second = counter();
  await using next = await successor(agent, { script: deletes, tools: [second.tool] });
  assert.equal(await next.recovery.recover(), 1);
  assert.equal((await next.run(runId)).status, "waiting_for_approval");
  assert.deepEqual(
    (await next.deps.questions.open({ runId })).map(({ id }) => id),
    [questionId],
  );
  await answer(next, questionId, "once");
  const events = await next.events(runId);
  assert.equal(events.at(-1)!.data["output"], "it says: ran 1");
  assert.deepEqual([first.ran, second.ran], [[], ["rm -rf old"]]);
  const count = (type: string) => events.filter((event) => event.type === type).length;
  assert.deepEqual(
    ["run.started", "tool.started", "approval.request", "tool.completed"].map(count),
    [2, 1, 1, 1],
  );
  const roles = (await next.transcript("s")).map(({ role }) => role);
  assert.deepEqual(roles, ["user", "assistant", "tool", "assistant"]);
  const usage = events.at(-1)!.data["usage"] as { model_calls: number };
  assert.ok(usage.model_calls >= 1);
});

test("an answer that came while no process ran the run counts when one takes it up", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId, questionId } = await waiting(agent);
  // From here on the first process writes nothing any more, as one that was killed.
  const parked = agent.runs.drain(0);
  await parked;
  await answer(agent, questionId, "once");
  assert.equal((await agent.run(runId)).status, "running");
  const second = counter();
  await using next = await successor(agent, { script: deletes, tools: [second.tool] });
  assert.equal(await next.recovery.recover(), 1);
  assert.equal((await next.events(runId)).at(-1)!.data["output"], "it says: ran 1");
  assert.deepEqual(second.ran, ["rm -rf old"]);
});

test("a denial after the restart reaches the model, with the reason", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId, questionId } = await waiting(agent);
  await kill(agent);
  const second = counter();
  await using next = await successor(agent, { script: deletes, tools: [second.tool] });
  await next.recovery.recover();
  await answer(next, questionId, "deny", "keep it");
  assert.equal((await next.events(runId)).at(-1)!.data["output"], "it says: Denied by the user: keep it");
  assert.deepEqual(second.ran, []);
});

test("a question whose time ran out while no process ran is closed by the next one", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId, questionId } = await waiting(agent);
  await agent.runs.drain(0);
  await agent.store.write(
    async (tx) => void (await tx.update("questions", { id: questionId }, { expires_at: 1 })),
  );
  await using next = await successor(agent, { script: deletes, tools: [counter().tool] });
  await next.recovery.recover();
  const events = await next.events(runId);
  assert.ok(events.some(({ type }) => type === "approval.expired"));
  assert.match(String(events.at(-1)!.data["output"]), /no answer came in time/);
});

test("an answer that comes after its time does not count, though no process runs the run", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId, questionId } = await waiting(agent);
  await agent.runs.drain(0);
  await agent.store.write(
    async (tx) => void (await tx.update("questions", { id: questionId }, { expires_at: 1 })),
  );
  await assert.rejects(answer(agent, questionId, "once"), { code: "ask_not_pending" });
  const second = counter();
  await using next = await successor(agent, { script: deletes, tools: [second.tool] });
  await next.recovery.recover();
  assert.match(String((await next.events(runId)).at(-1)!.data["output"]), /no answer came in time/);
  assert.deepEqual(second.ran, []);
});

test("a call that was refused is not made because the next process would not have asked", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId, questionId } = await waiting(agent);
  await agent.runs.drain(0);
  await answer(agent, questionId, "deny");
  const second = counter();
  const settings = { policyMode: "yolo" } as const;
  await using next = await successor(agent, { script: deletes, tools: [second.tool], settings });
  await next.recovery.recover();
  assert.equal((await next.events(runId)).at(-1)!.data["output"], "it says: Denied by the user.");
  assert.deepEqual(second.ran, []);
});

test("a call whose tool the next process does not have is answered, and its question is closed", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId, questionId } = await waiting(agent);
  await agent.runs.drain(0);
  await using next = await successor(agent, { script: deletes });
  await next.recovery.recover();
  assert.match(String((await next.events(runId)).at(-1)!.data["output"]), /No tool is named/);
  await assert.rejects(answer(next, questionId, "once"), { code: "ask_not_pending" });
});

test("a shutdown parks a run that waits for approval at once, and the runs queued behind it", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId, questionId } = await waiting(agent);
  const queued = await agent.submit("next", detached("next"));
  await agent.runs.drain(600_000);
  assert.equal((await agent.run(runId)).status, "waiting_for_approval");
  assert.equal((await agent.run(queued.runId)).status, "queued");
  await using next = await successor(agent, { script: deletes, tools: [counter().tool] });
  await next.recovery.recover();
  await answer(next, questionId, "once");
  await next.events(runId);
  assert.equal((await next.events(queued.runId)).at(-1)!.type, "run.completed");
});

test("a run whose tool had begun is not taken up again: nothing is done twice", async () => {
  const begun = Promise.withResolvers<void>();
  const tool = testTool(async (_input, { signal }) => {
    begun.resolve();
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    return "never";
  });
  await using agent = await createTestAgent({ script: deletes, tools: [tool] });
  const { runId, questionId } = await waiting(agent);
  await answer(agent, questionId, "once");
  await begun.promise;
  await kill(agent);
  await using next = await successor(agent, { script: deletes, tools: [counter().tool] });
  await next.recovery.recover();
  assert.equal((await next.run(runId)).status, "interrupted");
  await agent.runs.drain(0);
});

test("a call whose arguments held a secret is not resumed without it: the model must call again", async () => {
  const secret = "a-secret-of-this-test-4711";
  registerSecret(secret);
  try {
    const script = (state: Parameters<typeof deletes>[0]) => {
      const step = deletes(state);
      return "calls" in step
        ? { calls: [{ tool: "terminal", input: { command: `rm -rf ${secret}` } }] }
        : step;
    };
    await using agent = await createTestAgent({ script, tools: [counter().tool] });
    const { runId } = await waiting(agent);
    await kill(agent);
    const second = counter();
    await using next = await successor(agent, { script, tools: [second.tool] });
    await next.recovery.recover();
    const events = await next.events(runId);
    assert.match(String(events.at(-1)!.data["output"]), /Call again/);
    assert.deepEqual(second.ran, []);
    assert.deepEqual(await next.deps.questions.open({ runId }), []);
    assert.ok(events.some(({ type }) => type === "approval.expired"));
  } finally {
    forgetSecret(secret);
  }
});

test("steering that the model has had is not given again; what it has not had is", async () => {
  const gate = Promise.withResolvers<void>();
  const script = async (state: Parameters<typeof deletes>[0]) => {
    const said = state.messages.flatMap((m) =>
      m.role === "user" ? [(m as unknown as { text: string }).text] : [],
    );
    const answered = state.messages.filter(({ role }) => role === "tool").length;
    if (answered === 0) {
      await gate.promise;
      return { text: "thinking", calls: [{ tool: "probe", input: { command: "true" } }] };
    }
    return answered === 1
      ? { calls: [{ tool: "terminal", input: { command: "rm -rf old" } }] }
      : { text: said.join("|") };
  };
  const tools = () => [counter().tool, testTool(async () => "ok", "probe")];
  await using agent = await createTestAgent({ script, tools: tools() });
  const { runId } = await agent.submit("go", detached());
  assert.equal(await agent.runs.steer(runId, "had"), true);
  gate.resolve();
  const asked = await agent.event(runId, "approval.request");
  assert.equal(await agent.runs.steer(runId, "not had"), true);
  await agent.runs.drain(0);
  await using next = await successor(agent, { script, tools: tools() });
  await next.recovery.recover();
  await answer(next, String(asked.data["request_id"]), "once");
  const output = String((await next.events(runId)).at(-1)!.data["output"]);
  assert.equal(output, "go|had|not had");
});

test("a run that its client's leaving would have ended is interrupted as ever", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId } = await agent.submit("go", { id: "s", answerable: true });
  await agent.event(runId, "approval.request");
  await kill(agent);
  await using next = await successor(agent, { script: deletes });
  await next.recovery.recover();
  assert.equal((await next.run(runId)).status, "interrupted");
  await agent.runs.drain(0);
});

test("a run that was taken up again can be stopped and is taken up at most three times", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId } = await waiting(agent);
  await agent.runs.drain(0);
  for (let time = 1; time <= 3; time++) {
    await using next = await successor(agent, { script: deletes, tools: [counter().tool] });
    await next.recovery.recover();
    await next.runs.drain(0);
    assert.equal(
      (await next.run(runId)).status,
      time < 3 ? "waiting_for_approval" : "interrupted",
      `${time}`,
    );
  }
  const stopped = await createTestAgent({ script: deletes, tools: [counter().tool] });
  await using first = stopped;
  const scene = await waiting(first);
  await first.runs.drain(0);
  await using last = await successor(first, { script: deletes, tools: [counter().tool] });
  await last.recovery.recover();
  assert.equal(await last.runs.stop(scene.runId, "enough"), true);
  assert.equal((await last.events(scene.runId)).at(-1)!.type, "run.cancelled");
});

test("a parked run that is stopped while no process runs it reads cancelled", async () => {
  await using agent = await createTestAgent({ script: deletes, tools: [counter().tool] });
  const { runId } = await waiting(agent);
  await agent.runs.drain(0);
  assert.equal(await agent.runs.stop(runId, "enough"), true);
  assert.equal((await agent.run(runId)).status, "stopping");
  await using next = await successor(agent, { script: deletes, tools: [counter().tool] });
  await next.recovery.recover();
  assert.equal((await next.run(runId)).status, "cancelled");
  assert.deepEqual(await next.deps.questions.open({ runId }), []);
});

test("a run that comes to wait while the server drains does not hold it up", async () => {
  const gate = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    script: async (state) => {
      await gate.promise;
      return deletes(state);
    },
    tools: [counter().tool],
  });
  const { runId } = await agent.submit("go", detached());
  await agent.event(runId, "run.started");
  const drained = agent.runs.drain(600_000);
  gate.resolve();
  await drained;
  assert.equal((await agent.run(runId)).status, "waiting_for_approval");
});
