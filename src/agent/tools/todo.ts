import type { Todo } from "../../../generated/http/client/types.gen.ts";
import {
  closedObject,
  flag,
  nonEmptyText,
  defineTool,
  type Tool,
  ToolError,
  type ToolOutput,
} from "../tool/tool.ts";

interface TodoInput {
  readonly todos?: readonly Todo[];
  readonly merge?: boolean;
}

const MAX_TODOS = 100;
const MAX_CONTENT_CHARACTERS = 1_000;
const STATUSES: readonly Todo["status"][] = ["pending", "in_progress", "completed", "cancelled"];
const MARKS: Readonly<Record<Todo["status"], string>> = {
  pending: "[ ]",
  in_progress: "[>]",
  completed: "[x]",
  cancelled: "[-]",
};

/** The tool that keeps a session's plan, which people see. */
export function createTodo(): Tool {
  return defineTool<TodoInput>({
    name: "todo",
    toolset: "planning",
    kind: "think",
    description:
      "Reads or changes the plan of this conversation, which the user sees. Without todos it returns the plan. With " +
      "todos it replaces the plan, or, with merge, updates and adds the given points by id. Keep one point in_progress. " +
      `At most ${MAX_TODOS} points.`,
    parameters: closedObject({
      todos: {
        type: "array",
        maxItems: MAX_TODOS,
        items: closedObject(
          {
            id: nonEmptyText(64),
            content: nonEmptyText(MAX_CONTENT_CHARACTERS),
            status: { type: "string", enum: [...STATUSES] },
          },
          ["id", "content", "status"],
        ),
      },
      merge: flag("Keep points that are not listed. Default false."),
    }),
    inspect: ({ todos }) => ({
      kind: "tool",
      effect: "none",
      title: todos ? `Plan: ${todos.length} points` : "Plan",
    }),
    run: async ({ todos, merge = false }, context): Promise<ToolOutput> => {
      if (!todos) return shown(await context.todos.read());
      const duplicate = todos.find(({ id }, index) => todos.findIndex((other) => other.id === id) !== index);
      if (duplicate) throw new ToolError(`todos contains the id ${JSON.stringify(duplicate.id)} twice.`);
      const next = merge ? merged(await context.todos.read(), todos) : todos;
      if (next.length > MAX_TODOS) {
        throw new ToolError(`The plan would have ${next.length} points; the limit is ${MAX_TODOS}.`);
      }
      await context.todos.write(next);
      return shown(next);
    },
  });
}

function merged(current: readonly Todo[], changes: readonly Todo[]): readonly Todo[] {
  const changed = current.map((todo) => changes.find(({ id }) => id === todo.id) ?? todo);
  return [...changed, ...changes.filter(({ id }) => !current.some((todo) => todo.id === id))];
}

function shown(todos: readonly Todo[]): ToolOutput {
  const lines = todos.map(({ id, content, status }) => `${MARKS[status]} ${id}: ${content}`);
  return { text: lines.length === 0 ? "The plan is empty." : lines.join("\n"), todos };
}
