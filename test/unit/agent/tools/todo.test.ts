import assert from "node:assert/strict";
import { test } from "node:test";
import type { Todo } from "../../../../generated/http/client/types.gen.ts";
import { createTodo } from "../../../../src/agent/tools/todo.ts";
import { ToolError } from "../../../../src/agent/tool/tool.ts";
import { createTestAgent } from "../../../harness/agent.ts";
import { call, callWhole, inspect } from "./call.ts";

const todo = createTodo();

function list(start: readonly Todo[] = []) {
  let kept = start;
  const todos = { read: async () => kept, write: async (next: readonly Todo[]) => void (kept = next) };
  return { options: { cwd: "/", context: { todos } }, kept: () => kept };
}

const point = (id: string, status: Todo["status"] = "pending", content = `do ${id}`): Todo => ({
  id,
  content,
  status,
});

test("todos replaces the plan; without them it is read; an empty list clears it", async () => {
  const { options, kept } = list();
  assert.equal(await call(todo, {}, options), "The plan is empty.");
  const plan = [point("1", "completed"), point("2", "in_progress"), point("3"), point("4", "cancelled")];
  const output = await callWhole(todo, { todos: plan }, options);
  assert.equal(output.text, "[x] 1: do 1\n[>] 2: do 2\n[ ] 3: do 3\n[-] 4: do 4");
  assert.deepEqual(output.todos, plan);
  assert.deepEqual((await callWhole(todo, {}, options)).todos, plan);
  await call(todo, { todos: [point("9")] }, options);
  assert.deepEqual(kept(), [point("9")]);
  await call(todo, { todos: [] }, options);
  assert.deepEqual(kept(), []);
});

test("merge updates points in place, adds new ones at the end, and removes none", async () => {
  const { options, kept } = list([point("a"), point("b"), point("c")]);
  const changes = [point("new"), point("b", "completed", "done b")];
  await call(todo, { todos: changes, merge: true }, options);
  assert.deepEqual(kept(), [point("a"), point("b", "completed", "done b"), point("c"), point("new")]);
  await call(todo, { todos: [], merge: true }, options);
  assert.equal(kept().length, 4);
});

test("a duplicate id and a plan that is too long are refused and change nothing", async () => {
  const many = Array.from({ length: 99 }, (_, n) => point(`${n}`));
  const { options, kept } = list(many);
  await assert.rejects(call(todo, { todos: [point("x"), point("x")] }, options), ToolError);
  const two = { todos: [point("x"), point("y")], merge: true };
  await assert.rejects(call(todo, two, options), /would have 101 points; the limit is 100/);
  assert.equal(kept(), many);
  for (const bad of [
    { id: "", content: "x" },
    { id: "x", content: "" },
    { id: "x", content: "x", status: "odd" },
  ]) {
    await assert.rejects(call(todo, { todos: [{ status: "pending", ...bad }] }, options), TypeError);
  }
});

test("it needs no approval", () => {
  assert.equal(inspect(todo, { todos: [point("1")] }, "/").effect, "none");
});

test("the plan is stored with the session, for later runs and other processes, and people see it", async () => {
  const script = ({
    step,
    user,
    toolResults,
  }: {
    step: number;
    user: string;
    toolResults: readonly { text: string }[];
  }) =>
    step === 0
      ? { calls: [{ tool: "todo", input: user === "plan" ? { todos: [point("1"), point("2")] } : {} }] }
      : { text: toolResults[0]?.text ?? "" };
  await using agent = await createTestAgent({ tools: [todo], script });
  const { runId } = await agent.submit("plan", { id: "s" });
  const events = await agent.events(runId);
  const completed = events.find(({ type }) => type === "tool.completed");
  assert.deepEqual(completed?.data["todos"], [point("1"), point("2")]);
  await using next = await createTestAgent({ database: agent.databaseUrl, tools: [todo], script });
  const later = await next.submit("read", { id: "s" });
  assert.equal((await next.events(later.runId)).at(-1)?.data["output"], "[ ] 1: do 1\n[ ] 2: do 2");
  const other = await next.submit("read", { id: "other" });
  assert.equal((await next.events(other.runId)).at(-1)?.data["output"], "The plan is empty.");
});

test("of two plans written at once one stays complete, and the model reads the result", async () => {
  await using agent = await createTestAgent({
    tools: [todo],
    script: ({ step, toolResults }) =>
      step === 0
        ? { calls: ["a", "b"].map((id) => ({ tool: "todo", input: { todos: [point(id)] } })) }
        : { text: toolResults.map(({ status }) => status).join() },
  });
  const { runId } = await agent.submit("go", { id: "s" });
  const output = String((await agent.events(runId)).at(-1)?.data["output"]);
  assert.match(output, /^(ok|error),(ok|error)$/);
  const { todos } = JSON.parse((await agent.session("s")).meta) as { todos: Todo[] };
  assert.equal(todos.length, 1);
});
