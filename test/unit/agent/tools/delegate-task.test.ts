import assert from "node:assert/strict";
import { test } from "node:test";
import { createDelegateTask } from "../../../../src/agent/tools/delegate-task.ts";
import { ToolError, type SubagentResult, type SubagentTask } from "../../../../src/agent/tool/tool.ts";
import { call, inspect } from "./call.ts";

const delegateTask = createDelegateTask();

function delegating(...results: Partial<SubagentResult>[]) {
  const given: SubagentTask[] = [];
  const delegate = async (tasks: readonly SubagentTask[]) => {
    given.push(...tasks);
    return results.map((result, n): SubagentResult => ({
      subagentId: `run_${n}`,
      status: "completed",
      text: "done",
      durationSeconds: 1.26,
      ...result,
    }));
  };
  return { given, options: { cwd: "/", context: { delegate } } };
}

test("the reports return in the order of the tasks, with their status", async () => {
  const { given, options } = delegating({ text: "found it" }, { status: "failed", text: "no network" });
  const tasks = [{ goal: "look", context: "in src", toolsets: ["files"], model: "m" }, { goal: "fetch" }];
  assert.equal(
    await call(delegateTask, { tasks }, options),
    "Task 1 (run_0): completed after 1.3 s\nfound it\n\nTask 2 (run_1): failed after 1.3 s\nno network",
  );
  assert.deepEqual(given, tasks);
});

test("when every task failed the call fails and says why", async () => {
  const { options } = delegating(
    { status: "cancelled", text: "stopped" },
    { status: "interrupted", text: "" },
  );
  const tasks = [{ goal: "a" }, { goal: "b" }];
  await assert.rejects(
    call(delegateTask, { tasks }, options),
    (error) => error instanceof ToolError && /cancelled[\s\S]+interrupted/.test(error.message),
  );
});

test("a long report is cut with a note", async () => {
  const { options } = delegating({ text: "x".repeat(20_001) }, { text: "y".repeat(20_000) });
  const text = await call(delegateTask, { tasks: [{ goal: "a" }, { goal: "b" }] }, options);
  assert.equal(text.match(/\[cut\]/g)?.length, 1);
  assert.ok(text.length < 40_200);
});

test("no task, empty goals and unknown properties are refused", async () => {
  const { given, options } = delegating();
  const bad = [
    [],
    [{}],
    [{ goal: "" }],
    [{ goal: "x".repeat(50_001) }],
    [{ goal: "x", model: "" }],
    [{ goal: "x", tools: ["all"] }],
    Array.from({ length: 65 }, () => ({ goal: "x" })),
  ];
  for (const tasks of bad) await assert.rejects(call(delegateTask, { tasks }, options), TypeError);
  assert.deepEqual(given, []);
});

test("its title is one short line, and it needs no approval: the actions of each task are evaluated", () => {
  const one = inspect(delegateTask, { tasks: [{ goal: `first\n${"x".repeat(500)}` }] }, "/");
  assert.match(one.title, /^Delegate: first x{93}…$/);
  assert.equal(one.effect, "none");
  assert.equal(
    inspect(delegateTask, { tasks: [{ goal: "a" }, { goal: "b" }] }, "/").title,
    "Delegate 2 tasks",
  );
});
