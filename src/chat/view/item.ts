/** Renders items of the transcript as lines. */
import type {
  AssistantItem,
  NoticeItem,
  SubagentItem,
  TranscriptItem,
  UserItem,
  Todo,
  ToolItem,
} from "../../client/conversation/state.ts";
import { MAX_OUTPUT_LINES } from "../../client/conversation/viewer.ts";
import { hanging, span, wrap, wrapText, type Line, type Span, toOneLine, type Role } from "./text/line.ts";
import { markdownLines, type MarkdownState } from "./text/markdown.ts";
import { durationText, moreLinesText } from "./text/quantity.ts";
import { diffLines } from "./text/diff.ts";

const INDENT: Line = [span("  ")];
const INDENTED = { first: INDENT, rest: INDENT };

/** @param nowMs Unix milliseconds, for the clocks of running items. */
export function itemLines(item: TranscriptItem, width: number, nowMs: number): readonly Line[] {
  switch (item.kind) {
    case "user":
      return userLines(item, width);
    case "assistant":
      return [...answerLines(item.text.trim(), width).lines, ...endLines(item, width)];
    case "reasoning":
      return wrapText(item.text.trim(), "thought", width, { first: [span("∴ ", "thought")], rest: INDENT });
    case "tool":
      return toolLines(item, width, nowMs);
    case "subagent":
      return subagentLines(item, width);
    case "notice":
      return noticeLines(item, width);
  }
}

/** Renders a part of an answer; `state` is the one after the previous part. */
export function answerLines(text: string, width: number, state?: MarkdownState) {
  if (text === "") return { lines: [], state: state ?? {} };
  const shown = markdownLines(text, Math.max(1, width - 2), state);
  return { lines: shown.lines.map((line) => [...INDENT, ...line]), state: shown.state };
}

/** Renders the line below an answer that was interrupted or failed. */
export function endLines({ status }: AssistantItem, width: number): readonly Line[] {
  if (status === "interrupted") return wrap([span("interrupted", "warning")], width, INDENTED);
  return status === "error" ? wrap([span("ended with an error", "bad")], width, INDENTED) : [];
}

/** Returns whether two items have no blank line between them: tool calls stay together. */
export function isTight(before: TranscriptItem["kind"], after: TranscriptItem["kind"]): boolean {
  const isCall = (kind: TranscriptItem["kind"]) => kind === "tool" || kind === "subagent";
  return (isCall(before) && isCall(after)) || (before === "notice" && after === "notice");
}

function userLines({ text, origin }: UserItem, width: number): readonly Line[] {
  const from = origin === undefined ? [] : wrap([span(`from ${origin}`, "dim")], width, INDENTED);
  return [
    ...from,
    ...wrapText(text.trim(), "strong", width, { first: [span("› ", "accent")], rest: INDENT }),
  ];
}

const SUBAGENT_SIGNS: Readonly<Record<string, Span>> = {
  queued: span("○", "dim"),
  running: span("●", "accent"),
  completed: span("✓", "good"),
  interrupted: span("■", "warning"),
};

function subagentLines(agent: SubagentItem, width: number): readonly Line[] {
  const sign = SUBAGENT_SIGNS[agent.status] ?? span("✗", "bad");
  const depth = span("  ".repeat(Math.min(agent.depth, 4)));
  const aside = [
    ...(agent.toolCount > 0 ? [`${agent.toolCount} ${agent.toolCount === 1 ? "call" : "calls"}`] : []),
    ...(agent.durationSeconds === undefined ? [] : [durationText(agent.durationSeconds)]),
    ...(sign.text === "✗" ? [agent.status] : []),
  ].join(", ");
  const head = [
    span("subagent", "strong"),
    span(`  ${toOneLine(agent.goal)}`),
    span(aside === "" ? "" : `  ${aside}`, "dim"),
  ];
  const margin = hanging([depth, sign, span(" ")]);
  const below = [depth, span("    ")];
  const line =
    agent.line === "" ? [] : wrap([span(toOneLine(agent.line), "dim")], width, { first: below, rest: below });
  return [...wrap(head, width, margin), ...line];
}

const NOTICE_SIGNS: Readonly<Record<NoticeItem["level"], Span>> = {
  info: span("· ", "dim"),
  warning: span("! ", "warning"),
  error: span("✗ ", "bad"),
};

function noticeLines({ level, text }: NoticeItem, width: number): readonly Line[] {
  const sign = NOTICE_SIGNS[level];
  const role = level === "info" ? "dim" : sign.role;
  return wrapText(text.trim(), role, width, { first: [sign], rest: INDENT });
}

const MAX_PROGRESS_LINES = 5;
const TOOL_BODY: Line = [span("    ")];

const TOOL_SIGNS: Readonly<Record<ToolItem["status"], Span>> = {
  writing: span("○", "dim"),
  waiting: span("?", "warning"),
  running: span("●", "accent"),
  done: span("✓", "good"),
  failed: span("✗", "bad"),
  cut: span("■", "warning"),
};

const TODO_SIGNS: Readonly<Record<Todo["status"], Span>> = {
  pending: span("☐ ", "dim"),
  in_progress: span("▸ ", "accent"),
  completed: span("☑ ", "good"),
  cancelled: span("☒ ", "dim"),
};

/** @param nowMs Unix milliseconds, for the clock of a running call. */
function toolLines(tool: ToolItem, width: number, nowMs: number): readonly Line[] {
  return [...headLines(tool, width, nowMs), ...bodyLines(tool, width)];
}

function headLines(tool: ToolItem, width: number, nowMs: number): readonly Line[] {
  const context = toOneLine(tool.context);
  const aside = asideOf(tool, nowMs);
  const spans = [
    span(tool.name, "strong"),
    ...(context === "" ? [] : [span(`  ${context}`)]),
    ...(aside === "" ? [] : [span(`  ${aside}`, "dim")]),
  ];
  return wrap(spans, width, hanging([TOOL_SIGNS[tool.status], span(" ")]));
}

/** Returns the duration or the current state. */
function asideOf({ status, durationSeconds, startedAtMs }: ToolItem, nowMs: number): string {
  if (status === "writing") return "being written";
  if (status === "waiting") return "waits for your answer";
  if (status === "cut") return "cut off";
  if (durationSeconds !== undefined) return durationText(durationSeconds);
  const seconds = Math.floor((nowMs - startedAtMs) / 1000);
  return status === "running" && seconds >= 1 ? durationText(seconds) : "";
}

function bodyLines(tool: ToolItem, width: number): readonly Line[] {
  const margin = { first: TOOL_BODY, rest: TOOL_BODY };
  const text = (value: string, role: Role) => wrapText(value, role, width, margin);
  if (tool.status === "running" || tool.status === "writing" || tool.status === "waiting") {
    return tool.progress === "" ? [] : text(lastLines(tool.progress), "dim");
  }
  if (tool.error !== undefined) return text(firstLines(tool.error), "bad");
  if (tool.todos !== undefined) return tool.todos.flatMap((todo) => todoLines(todo, width));
  const body = Math.max(1, width - 4);
  const diff =
    tool.diff === undefined ? [] : diffLines(tool.diff, body).map((line) => [...TOOL_BODY, ...line]);
  if (diff.length > 0) return diff;
  const output = tool.output?.trim() ?? "";
  if (output !== "") return text(firstLines(output), "dim");
  return tool.summary === undefined || tool.summary === "" ? [] : text(tool.summary, "dim");
}

function todoLines({ text, status }: Todo, width: number): readonly Line[] {
  const role = status === "in_progress" ? "strong" : status === "pending" ? "plain" : "dim";
  return wrap([span(toOneLine(text), role)], width, hanging([...TOOL_BODY, TODO_SIGNS[status]]));
}

function firstLines(text: string): string {
  const lines = text.trimEnd().split("\n");
  if (lines.length <= MAX_OUTPUT_LINES) return lines.join("\n");
  return [
    ...lines.slice(0, MAX_OUTPUT_LINES),
    `${moreLinesText(lines.length - MAX_OUTPUT_LINES)} (ctrl-o shows the rest)`,
  ].join("\n");
}

function lastLines(text: string): string {
  return text.trimEnd().split("\n").slice(-MAX_PROGRESS_LINES).join("\n");
}
