/** Tool calls and sub-agents, as items of the transcript. Pure. */
import { cleanHead, cleanLine, cleanTail, cleanText } from "../clean-text.ts";
import type { SubagentReport } from "../../client/gateway.ts";
import type { GatewayPayload } from "../gateway-types.ts";
import { append, closeText, isTerminal, replaceAt } from "./items.ts";
import type { ChatState, SubagentItem, ToolItem, TranscriptItem } from "./state.ts";

const PROGRESS = { lines: 8, max: 4_000 };
const OUTPUT = { lines: 12, characters: 4_000 };
const MAX_DIFF = 20_000;
const MAX_TODOS = 50;

export function writeTool(
  state: ChatState,
  { name, tool_id: id }: GatewayPayload<"tool.generating">,
  nowMs: number,
): ChatState {
  if (id === undefined || indexOf(state, id) >= 0) return state;
  return append(closeText(state), newTool(state, { id, name, nowMs }));
}

export function startTool(
  state: ChatState,
  { tool_id: id, name, context }: GatewayPayload<"tool.start">,
  nowMs: number,
): ChatState {
  const [here, index, tool] = toolIn(state, { id, name, nowMs });
  return replaceAt(here, index, {
    ...tool,
    status: "running",
    context: cleanLine(context),
    startedAtMs: nowMs,
  });
}

export function progressTool(
  state: ChatState,
  { tool_id: id, name, preview }: GatewayPayload<"tool.progress">,
  nowMs: number,
): ChatState {
  const [here, index, tool] = toolIn(state, { id, name, nowMs });
  return replaceAt(here, index, {
    ...tool,
    progress: cleanTail(tool.progress + cleanText(preview), PROGRESS),
  });
}

export function completeTool(
  state: ChatState,
  payload: GatewayPayload<"tool.complete">,
  nowMs: number,
): ChatState {
  const { tool_id: id, name, error, code, inline_diff: diff, todos, summary } = payload;
  const [here, index, tool] = toolIn(state, { id, name, nowMs });
  const output = outputOf(payload);
  return replaceAt(here, index, {
    ...tool,
    status: error === undefined && code === undefined ? "done" : "failed",
    durationSeconds: payload.duration_s,
    ...(summary === undefined ? {} : { summary: cleanLine(summary) }),
    ...(output === "" ? {} : { output }),
    ...(error === undefined ? {} : { error: cleanHead(error, 2_000) }),
    ...(diff === undefined ? {} : { diff: cleanHead(diff, MAX_DIFF) }),
    ...(todos === undefined
      ? {}
      : {
          todos: todos
            .slice(0, MAX_TODOS)
            .map(({ content, status }) => ({ text: cleanLine(content), status })),
        }),
  });
}

export function reportSubagent(state: ChatState, report: SubagentReport): ChatState {
  const isIt = (item: TranscriptItem) => isOf(item, "subagent", report.subagent_id);
  const index = state.live.findIndex(isIt);
  const known = state.live[index];
  if (known?.kind === "subagent") {
    return isTerminal(known.status) ? state : replaceAt(state, index, subagentOf(known.id, report, known));
  }
  // It ended and stands in the transcript: what comes late changes nothing.
  if (state.settled.some(isIt)) return state;
  const id = itemId("subagent", report.subagent_id, state.serial);
  return append(closeText(state), subagentOf(id, report, undefined));
}

function subagentOf(id: string, report: SubagentReport, known: SubagentItem | undefined): SubagentItem {
  const tool = report.tool_name === undefined ? "" : `${report.tool_name} ${report.tool_preview ?? ""}`;
  const line = cleanLine(report.summary ?? report.text ?? tool);
  return {
    kind: "subagent",
    id,
    goal: cleanLine(report.goal),
    status: report.status,
    line: line === "" ? (known?.line ?? "") : line,
    toolCount: report.tool_count ?? known?.toolCount ?? 0,
    depth: report.depth,
    ...(report.duration_seconds === undefined ? {} : { durationSeconds: report.duration_seconds }),
  };
}

interface ToolFacts {
  readonly id: string;
  readonly name: string;
  readonly nowMs: number;
}

/** The tool call's place among the items at work; made when it is not known, as after a reconnect. */
function toolIn(state: ChatState, facts: ToolFacts): readonly [ChatState, number, ToolItem] {
  const index = indexOf(state, facts.id);
  const known = state.live[index];
  if (known?.kind === "tool") return [state, index, known];
  const tool = newTool(state, facts);
  const next = append(closeText(state), tool);
  return [next, next.live.length - 1, tool];
}

function newTool({ serial }: ChatState, { id, name, nowMs: startedAtMs }: ToolFacts): ToolItem {
  return {
    kind: "tool",
    id: itemId("tool", id, serial),
    name: cleanLine(name, 80),
    context: "",
    status: "writing",
    progress: "",
    startedAtMs,
  };
}

function indexOf(state: ChatState, toolId: string): number {
  return state.live.findIndex((item) => isOf(item, "tool", toolId));
}

/** Models use the ids of their calls again in later turns; items are one each. */
function itemId(kind: string, id: string, serial: number): string {
  return `${kind}:${id}#${serial}`;
}

function isOf(item: TranscriptItem, kind: string, id: string): boolean {
  return item.kind === kind && item.id.slice(0, item.id.lastIndexOf("#")) === `${kind}:${id}`;
}

function outputOf({ result, result_text: text }: GatewayPayload<"tool.complete">): string {
  const whole = text ?? (typeof result === "string" ? result : JSON.stringify(result, null, 1));
  const lines = cleanText((whole ?? "").slice(0, OUTPUT.characters))
    .trimEnd()
    .split("\n");
  const rest = lines.length - OUTPUT.lines;
  return rest > 0 ? [...lines.slice(0, OUTPUT.lines), `… (${rest} more lines)`].join("\n") : lines.join("\n");
}
