import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import type { SubagentTask } from "../../../src/agent/tool/tool.ts";
import { createTestAgent, testTool } from "../../harness/agent.ts";

const OWNER = "tester";
const FIGURES = {
  maxDepth: 2,
  maxConcurrent: 4,
  maxTasks: 8,
  maxSteps: 10,
  tokenBudget: 0,
  model: undefined,
};

const delegate = (...tasks: (string | SubagentTask)[]) => ({
  calls: [
    {
      tool: "delegate_task",
      input: { tasks: tasks.map((task) => (typeof task === "string" ? { goal: task } : task)) },
    },
  ],
});

/** "go" starts the tasks; the parent's answer is their result. Everything else is what `child` does. */
function family(tasks: readonly (string | SubagentTask)[], child: Script): Script {
  return (state) => {
    if (state.messages[0]?.role !== "user" || state.messages[0].text !== "go") return child(state);
    return state.step === 0 ? delegate(...tasks) : { text: state.toolResults.at(-1)?.text ?? "" };
  };
}

const ofType = (events: readonly { type: string; data: Readonly<Record<string, unknown>> }[], type: string) =>
  events.filter((event) => event.type === type).map(({ data }) => data);

test("the number of parallel sub-agents is limited, and reports keep the order of the tasks", async () => {
  let atWork = 0;
  let most = 0;
  const gates = Array.from({ length: 6 }, () => Promise.withResolvers<void>());
  const begun = Array.from({ length: 6 }, () => Promise.withResolvers<void>());
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    settings: { delegation: { ...FIGURES, maxConcurrent: 2 } },
    script: family(["0", "1", "2", "3", "4", "5"], async ({ user }) => {
      most = Math.max(most, ++atWork);
      begun[Number(user)]?.resolve();
      await gates[Number(user)]?.promise;
      atWork--;
      return { text: `report ${user}` };
    }),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  await Promise.all([begun[0]?.promise, begun[1]?.promise]);
  assert.equal((await agent.runs.reads.activeSubagents({ owner: OWNER })).length, 2);
  gates[1]?.resolve();
  await begun[2]?.promise;
  for (const gate of gates) gate.resolve();
  const events = await agent.events(runId);
  assert.equal(most, 2);
  const output = String(events.at(-1)?.data["output"]);
  assert.deepEqual(output.match(/report \d/g), [
    "report 0",
    "report 1",
    "report 2",
    "report 3",
    "report 4",
    "report 5",
  ]);
  const starts = ofType(events, "subagent.start");
  assert.deepEqual(starts.map((data) => data["task_index"]).toSorted(), [0, 1, 2, 3, 4, 5]);
  assert.ok(starts.every((data) => data["task_count"] === 6 && data["depth"] === 1));
});

test("too many tasks are refused before any starts, and the model reads the limit", async () => {
  let children = 0;
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    settings: { delegation: { ...FIGURES, maxTasks: 2 } },
    script: family(["a", "b", "c"], () => ({ text: `${++children}` })),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  const output = (await agent.events(runId)).at(-1)?.data["output"];
  assert.equal(output, "3 tasks are too many. The limit is 2 (delegation.max_tasks).");
  assert.equal(children, 0);
});

test("at the greatest depth the tool is not offered, and with depth 0 never", async () => {
  const seen: [string, boolean][] = [];
  const script: Script = ({ user, step, tools }) => {
    if (step > 0) return { text: "done" };
    seen.push([user, tools.includes("delegate_task")]);
    return user === "go" ? delegate("one") : user === "one" ? delegate("two") : delegate("three");
  };
  await using agent = await createTestAgent({ tools: [createDelegateTask()], script });
  const { runId } = await agent.submit("go", { id: "s" });
  await agent.events(runId);
  assert.deepEqual(seen, [
    ["go", true],
    ["one", true],
    ["two", false],
  ]);
  assert.deepEqual(
    (await agent.runs.reads.subagentsOf(runId)).map(({ depth, goal, status }) => [depth, goal, status]),
    [
      [1, "one", "completed"],
      [2, "two", "completed"],
    ],
  );
  await using alone = await createTestAgent({
    tools: [createDelegateTask()],
    settings: { delegation: { ...FIGURES, maxDepth: 0 } },
    script: ({ tools }) => ({ text: tools.join() }),
  });
  const single = await alone.submit("go", { id: "s" });
  assert.equal((await alone.events(single.runId)).at(-1)?.data["output"], "");
});

test("toolsets are narrowed on the way down and never widened", async () => {
  const seen: Record<string, readonly string[]> = {};
  const other = { ...testTool(async () => "x", "other"), toolset: "other" };
  await using agent = await createTestAgent({
    tools: [createDelegateTask(), testTool(async () => "x"), other],
    script: ({ user, step, tools }) => {
      if (step > 0) return { text: "done" };
      seen[user] = tools;
      if (user === "go") {
        return delegate(
          { goal: "wide", toolsets: ["terminal", "other", "web", "delegation"] },
          { goal: "none", toolsets: [] },
          { goal: "same" },
        );
      }
      return user === "wide"
        ? delegate({ goal: "wider", toolsets: ["other", "terminal"] })
        : { text: "done" };
    },
  });
  const input = {
    prompt: [{ role: "user" as const, text: "go" }],
    settings: {},
    answerable: false,
    toolsets: ["terminal", "delegation"],
  };
  const { runId } = await agent.submit("go", { id: "s", input });
  await agent.events(runId);
  assert.deepEqual(seen, {
    go: ["delegate_task", "terminal"],
    wide: ["delegate_task", "terminal"],
    none: [],
    same: ["delegate_task", "terminal"],
    wider: ["terminal"],
  });
});

test("an unknown model is reported to the model, and no task of the call starts", async () => {
  let children = 0;
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    providers: [{ name: "here", type: "openai", models: ["small"] }],
    script: family(["fine", { goal: "odd", model: "claude-opus" }], () => ({ text: `${++children}` })),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  const events = await agent.events(runId);
  assert.match(String(events.at(-1)?.data["output"]), /^No model is named "claude-opus"\. Leave out model/);
  assert.deepEqual(await agent.runs.reads.subagentsOf(runId), []);
  assert.equal(children, 0);
});

test("events of the whole family reach the run at its top and match the spec", async () => {
  await using agent = await createTestAgent({
    tools: [createDelegateTask(), testTool(async ({ command }) => `ran ${command}`)],
    script: ({ user, step }) => {
      if (user === "go") return step === 0 ? delegate("child") : { text: "end" };
      if (user === "child")
        return step === 0
          ? { reasoning: "too much for one", text: "I split it.", ...delegate("grandchild") }
          : { text: "both" };
      return step === 0 ? { calls: [{ tool: "terminal", input: { command: "ls" } }] } : { text: "listed" };
    },
  });
  const { runId } = await agent.submit("go", { id: "s" });
  const events = await agent.events(runId);
  const starts = ofType(events, "subagent.start");
  const [child, grandchild] = starts.map((data) => String(data["subagent_id"]));
  assert.deepEqual(
    starts.map((data) => [data["goal"], data["parent_id"], data["depth"]]),
    [
      ["child", runId, 1],
      ["grandchild", child, 2],
    ],
  );
  assert.deepEqual(
    ofType(events, "subagent.spawn_requested").map((data) => [data["subagent_id"], data["goal"]]),
    [
      [child, "child"],
      [grandchild, "grandchild"],
    ],
  );
  assert.deepEqual(
    ofType(events, "subagent.thinking").map((data) => [data["subagent_id"], data["text"]]),
    [[child, "too much for one"]],
  );
  assert.deepEqual(
    ofType(events, "subagent.tool").map((data) => [data["subagent_id"], data["tool"], data["tool_count"]]),
    [
      [child, "delegate_task", 1],
      [grandchild, "terminal", 1],
    ],
  );
  assert.deepEqual(
    ofType(events, "subagent.progress").map((data) => [data["subagent_id"], data["text"]]),
    [
      [child, "I split it."],
      [grandchild, "listed"],
      [child, "both"],
    ],
  );
  assert.deepEqual(
    ofType(events, "subagent.complete").map((data) => [data["subagent_id"], data["status"], data["summary"]]),
    [
      [grandchild, "completed", "listed"],
      [child, "completed", "both"],
    ],
  );
  for (const id of [child, grandchild]) await agent.events(id ?? "");
});

test("the spending of sub-agents counts in the parent run, whose budget stops the whole family", async () => {
  const settings = { budget: { runTokens: 30, dayTokens: 0 } };
  let calls = 0;
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    settings: { ...settings, delegation: { ...FIGURES, maxConcurrent: 1 } },
    script: family(["a", "b", "c"], () => (calls++, { text: "x".repeat(100) })),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  const events = await agent.events(runId);
  assert.deepEqual(
    ofType(events, "subagent.complete").map((data) => data["status"]),
    ["completed", "completed", "failed"],
  );
  assert.equal(calls, 2);
  assert.match(JSON.stringify(events.at(-1)?.data["error"]), /budget_exceeded/);
});

test("a sub-agent's own budget stops it alone", async () => {
  await using agent = await createTestAgent({
    tools: [createDelegateTask(), testTool(async () => "ran")],
    settings: { delegation: { ...FIGURES, tokenBudget: 10 } },
    script: family(["a"], ({ step }) =>
      step === 0
        ? { text: "x".repeat(100), calls: [{ tool: "terminal", input: { command: "ls" } }] }
        : { text: "never" },
    ),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  const events = await agent.events(runId);
  assert.equal(ofType(events, "subagent.complete")[0]?.["status"], "failed");
  assert.equal(events.at(-1)?.type, "run.completed");
});

test("stopping the run stops everything below it, and lists show it during and after", async () => {
  const deep = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    script: async ({ user, step, signal }) => {
      if (user === "go" && step === 0) return delegate("left", "right");
      if (user === "left" || user === "right") return step === 0 ? delegate(`deep ${user}`) : { text: "no" };
      deep[user === "deep left" ? 0 : 1]?.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return { text: "never said" };
    },
  });
  const { runId } = await agent.submit("go", { id: "s" });
  await Promise.all(deep.map(({ promise }) => promise));
  const active = await agent.runs.reads.activeSubagents({ owner: OWNER, rootSessionId: "s" });
  assert.deepEqual(active.map(({ goal }) => goal).toSorted(), ["deep left", "deep right", "left", "right"]);
  assert.ok(active.every(({ status, endedAtMs }) => status === "running" && endedAtMs === null));
  assert.deepEqual(await agent.runs.reads.activeSubagents({ owner: "stranger" }), []);
  assert.deepEqual(await agent.runs.reads.activeSubagents({ owner: OWNER, rootSessionId: "other" }), []);
  await agent.runs.stop(runId, "enough");
  assert.equal((await agent.events(runId)).at(-1)?.type, "run.cancelled");
  assert.deepEqual(await agent.runs.reads.activeSubagents({ owner: OWNER }), []);
  const all = await agent.runs.reads.subagentsOf(runId);
  assert.equal(all.length, 4);
  assert.ok(all.every(({ status, endedAtMs }) => status === "cancelled" && endedAtMs !== null));
  for (const { subagentId, parentId } of all) {
    const above = all.findIndex((each) => each.subagentId === parentId);
    assert.ok(parentId === runId || above < all.findIndex((each) => each.subagentId === subagentId));
  }
  assert.equal(agent.runs.running, 0);
});

test("a drain interrupts a run with active sub-agents, and all of them end as interrupted", async () => {
  const deep = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    script: family(["a", "b", "c"], async ({ signal, user }) => {
      if (user === "c") deep.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return { text: "never" };
    }),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  await deep.promise;
  await agent.runs.drain(0);
  assert.equal((await agent.run(runId)).status, "interrupted");
  const statuses = (await agent.runs.reads.subagentsOf(runId)).map(({ status }) => status);
  assert.equal(statuses.length, 3);
  assert.ok(
    statuses.every((status) => ["interrupted", "cancelled"].includes(status)),
    statuses.join(),
  );
});

test("a drain while sub-agents start leaves nothing running", async () => {
  const first = Promise.withResolvers<void>();
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    settings: { delegation: { ...FIGURES, maxConcurrent: 1 } },
    script: family(["a", "b", "c"], async () => {
      first.resolve();
      return { text: "quick" };
    }),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  await first.promise;
  await agent.runs.drain(60_000);
  assert.ok((await agent.run(runId)).ended_at !== null);
  assert.deepEqual(await agent.runs.reads.activeSubagents({ owner: OWNER }), []);
  assert.deepEqual(
    agent.logLines.filter((line) => line.includes("could not be recorded")),
    [],
  );
});

test("a goal includes its context, and a secret in it reaches no event", async () => {
  const { registerSecret } = await import("../../../src/base/observe.ts");
  registerSecret("macadamia-9931");
  let heard = "";
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    script: family(
      [{ goal: "use macadamia-9931", context: "in src" }],
      ({ user }) => ((heard = user), { text: "ok" }),
    ),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  const events = await agent.events(runId);
  assert.equal(heard, "use macadamia-9931\n\nContext:\nin src");
  assert.ok(!JSON.stringify(events).includes("macadamia"));
  assert.ok(!JSON.stringify(await agent.runs.reads.subagentsOf(runId)).includes("macadamia"));
});
