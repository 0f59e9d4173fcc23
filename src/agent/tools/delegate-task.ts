import { shorten, toOneLine } from "../../base/text.ts";
import {
  closedObject,
  freeText,
  nonEmptyText,
  defineTool,
  type SubagentResult,
  type SubagentTask,
  type Tool,
  ToolError,
} from "../tool/tool.ts";

interface DelegateInput {
  readonly tasks: readonly SubagentTask[];
}

const MAX_TASKS = 64;
const MAX_GOAL_CHARACTERS = 50_000;
/** Limit of one sub-agent's report. */
const MAX_REPORT_CHARACTERS = 20_000;

/** The tool that gives tasks to sub-agents. */
export function createDelegateTask(): Tool {
  return defineTool<DelegateInput>({
    name: "delegate_task",
    toolset: "delegation",
    kind: "think",
    description:
      "Gives tasks to sub-agents that work in parallel with tools of their own and know nothing of this conversation: " +
      "put everything they need into goal and context. Returns their reports when all have ended. Use it for work that can be " +
      "done in parallel, or that would fill the context with detail.",
    parameters: closedObject(
      {
        tasks: {
          type: "array",
          minItems: 1,
          maxItems: MAX_TASKS,
          items: closedObject(
            {
              goal: nonEmptyText(MAX_GOAL_CHARACTERS, "The task."),
              context: freeText(
                MAX_GOAL_CHARACTERS,
                "Facts the sub-agent needs: paths, findings, constraints.",
              ),
              toolsets: {
                type: "array",
                maxItems: 32,
                items: { type: "string", maxLength: 64 },
                description: "Only these toolsets. Default: those of this run.",
              },
              model: nonEmptyText(256, "Default: the model of this run."),
            },
            ["goal"],
          ),
        },
      },
      ["tasks"],
    ),
    inspect: ({ tasks }) => ({
      kind: "tool",
      effect: "none",
      title:
        tasks.length === 1 ? `Delegate: ${line(tasks[0]?.goal ?? "")}` : `Delegate ${tasks.length} tasks`,
    }),
    run: async ({ tasks }, context) => {
      const results = await context.delegate(tasks);
      if (results.every(({ status }) => status !== "completed")) throw new ToolError(report(results));
      return report(results);
    },
  });
}

function report(results: readonly SubagentResult[]): string {
  const texts = results.map(({ subagentId, status, text, durationSeconds }, index) => {
    const cut = text.length > MAX_REPORT_CHARACTERS ? `${text.slice(0, MAX_REPORT_CHARACTERS)}\n[cut]` : text;
    return `Task ${index + 1} (${subagentId}): ${status} after ${durationSeconds.toFixed(1)} s\n${cut}`;
  });
  return texts.join("\n\n");
}

function line(text: string): string {
  return shorten(toOneLine(text), 100);
}
