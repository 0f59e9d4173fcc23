/** Reduces the events of a turn (text, reasoning, tools, sub-agents) to transcript items. Pure. */
import { cleanHead, cleanLine, cleanText, cleanTail } from "./clean-text.ts";
import {
  append,
  closeAll,
  closeText,
  isItemOf,
  isTerminal,
  itemIdOf,
  markWaiting,
  notice,
  replaceAt,
} from "./items.ts";
import type { AssistantItem, ChatState, SubagentItem, ToolItem, TranscriptItem } from "./state.ts";
import type { GatewayPayload } from "./gateway.ts";
import type { SubagentReport } from "../gateway.ts";

/** Longer text is truncated on the screen; the session has all of it. */
const MAX_TEXT = 200_000;
const HOLE = " […] ";

export function startTurn(
  state: ChatState,
  payload: GatewayPayload<"message.start">,
  startedAtMs: number,
): ChatState {
  const { turn_id: id, input, origin } = payload;
  if (state.turn?.id === id) return state;
  const begun: ChatState = {
    ...closeAll(state),
    queue: state.queue.filter(({ turnId }) => turnId !== id),
    turn: { id, startedAtMs, activity: "", isBetweenMessages: false, isInterrupting: false },
  };
  if (!input) return begun;
  const isTyped = origin === "user" || origin === "queue";
  const text = cleanHead(input.text, MAX_TEXT);
  const { [id]: attachments, ...sent } = state.composer.sent ?? {};
  const shown = attachments === undefined ? begun : { ...begun, composer: { ...begun.composer, sent } };
  return append(shown, {
    kind: "user",
    text,
    ...(isTyped ? {} : { origin }),
    ...(attachments === undefined ? {} : { attachments }),
  });
}

export function addText(state: ChatState, { text, dropped = 0 }: GatewayPayload<"message.delta">): ChatState {
  const said = (dropped > 0 ? HOLE : "") + cleanText(text);
  const open = state.turn?.isBetweenMessages === true ? closeText(state) : state;
  const here = withTurn(open, { isBetweenMessages: false, activity: "" });
  const last = here.live.at(-1);
  if (last?.kind !== "assistant") {
    return append(closeText(here), { kind: "assistant", text: said, status: "streaming" });
  }
  if (last.text.length > MAX_TEXT) return here;
  return replaceAt(here, here.live.length - 1, { ...last, text: last.text + said });
}

export function addReasoning(
  state: ChatState,
  { text, dropped = 0 }: GatewayPayload<"reasoning.delta">,
): ChatState {
  const said = (dropped > 0 ? HOLE : "") + cleanText(text);
  const last = state.live.at(-1);
  if (last?.kind !== "reasoning") {
    return append(closeText(state), { kind: "reasoning", text: said, isStreaming: true });
  }
  if (last.text.length > MAX_TEXT) return state;
  return replaceAt(state, state.live.length - 1, { ...last, text: last.text + said });
}

/** Sets the complete text of a reasoning item, with or without earlier deltas. */
export function wholeReasoning(state: ChatState, { text }: GatewayPayload<"reasoning.available">): ChatState {
  const whole = cleanHead(text, MAX_TEXT);
  const last = state.live.at(-1);
  if (last?.kind === "reasoning") {
    return replaceAt(state, state.live.length - 1, { ...last, text: whole, isStreaming: false });
  }
  if (whole === "") return state;
  return append(closeText(state), { kind: "reasoning", text: whole, isStreaming: false });
}

/** Sets the activity line; it is empty at the start and the end of every message. */
export function thinking(state: ChatState, { text }: GatewayPayload<"thinking.delta">): ChatState {
  return withTurn(state, { activity: cleanLine(text), ...(text === "" ? { isBetweenMessages: true } : {}) });
}

/** Ends the turn. Its text replaces the deltas. */
export function completeTurn(state: ChatState, payload: GatewayPayload<"message.complete">): ChatState {
  const { status, warning, undelivered_steer: undelivered = [] } = payload;
  let next = closeAll(withAnswer(state, payload));
  if (warning !== undefined) next = notice(next, "warning", cleanText(warning));
  if (status === "interrupted") next = notice(next, "info", cleanText(payload.error ?? "Interrupted."));
  if (status === "error") next = notice(next, "error", failure(payload));
  for (const text of undelivered) {
    next = notice(
      next,
      "warning",
      `The turn ended before the agent received this: ${cleanHead(text, 2_000)}`,
    );
  }
  const { turn: _, ...rest } = next;
  return rest;
}

function withAnswer(state: ChatState, payload: GatewayPayload<"message.complete">): ChatState {
  const text = cleanHead(payload.text, MAX_TEXT);
  const status: AssistantItem["status"] = payload.status;
  const last = state.live.at(-1);
  if (last?.kind === "assistant") {
    return replaceAt(state, state.live.length - 1, { ...last, text: text === "" ? last.text : text, status });
  }
  if (text === "" || isSaid(state, text)) return state;
  return append(closeText(state), { kind: "assistant", text, status });
}

/** Returns whether the text is already shown: a message before a tool call may be the last of a turn. */
function isSaid({ settled, live }: ChatState, text: string): boolean {
  const items = [...settled, ...live];
  const prompt = items.findLastIndex(({ kind }) => kind === "user");
  const said = items.slice(prompt + 1).findLast((item) => item.kind === "assistant");
  return said?.text === text;
}

function failure({ error, error_info: info }: GatewayPayload<"message.complete">): string {
  const message = cleanText(error ?? "The turn failed.");
  const code = info === undefined ? "" : ` (${cleanLine(info.code, 60)})`;
  return `${message}${code}${info?.retryable === true ? " Try again: press the up key and Enter." : ""}`;
}

function withTurn(state: ChatState, change: Partial<NonNullable<ChatState["turn"]>>): ChatState {
  if (!state.turn) return state;
  const isSame = Object.entries(change).every(([key, value]) => state.turn?.[key as "activity"] === value);
  return isSame ? state : { ...state, turn: { ...state.turn, ...change } };
}

const PROGRESS = { lines: 8, max: 4_000 };
const MAX_OUTPUT = 30_000;
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
  const running = { ...tool, status: "running" as const, context: cleanLine(context), startedAtMs: nowMs };
  // What it asks may have come before it, such as after a reconnect.
  return markWaiting(replaceAt(here, index, running));
}

export function progressTool(
  state: ChatState,
  { tool_id: id, name, output }: GatewayPayload<"tool.progress">,
  nowMs: number,
): ChatState {
  const [here, index, tool] = toolIn(state, { id, name, nowMs });
  return replaceAt(here, index, {
    ...tool,
    progress: cleanTail(tool.progress + cleanText(output), PROGRESS),
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
  const isIt = (item: TranscriptItem) => isItemOf(item, "subagent", report.subagent_id);
  const index = state.live.findIndex(isIt);
  const known = state.live[index];
  if (known?.kind === "subagent") {
    return isTerminal(known.status) ? state : replaceAt(state, index, subagentOf(known.id, report, known));
  }
  // The sub-agent has ended and is settled; late events change nothing.
  if (state.settled.some(isIt)) return state;
  const id = itemIdOf("subagent", report.subagent_id, state.serial);
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

interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly nowMs: number;
}

/** Returns the live item of a tool call and its index; adds it when it is unknown, such as after a reconnect. */
function toolIn(state: ChatState, call: ToolCall): readonly [ChatState, number, ToolItem] {
  const index = indexOf(state, call.id);
  const known = state.live[index];
  if (known?.kind === "tool") return [state, index, known];
  const tool = newTool(state, call);
  const next = append(closeText(state), tool);
  return [next, next.live.length - 1, tool];
}

function newTool({ serial }: ChatState, { id, name, nowMs: startedAtMs }: ToolCall): ToolItem {
  return {
    kind: "tool",
    id: itemIdOf("tool", id, serial),
    name: cleanLine(name, 80),
    context: "",
    status: "writing",
    progress: "",
    startedAtMs,
  };
}

function indexOf(state: ChatState, toolId: string): number {
  return state.live.findIndex((item) => isItemOf(item, "tool", toolId));
}

function outputOf({ result, result_text: text }: GatewayPayload<"tool.complete">): string {
  const whole = text ?? (typeof result === "string" ? result : JSON.stringify(result, null, 1));
  return cleanHead((whole ?? "").trimEnd(), MAX_OUTPUT);
}
