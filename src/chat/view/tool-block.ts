/** A tool call: one line that says what and how it went, and below it what it shows. */
import type { Todo, ToolItem } from "../state/state.ts";
import { diffLines } from "./text/diff.ts";
import { hanging, span, wrap, wrapText, type Line, type Role, type Span } from "./text/line.ts";
import { durationText } from "./text/quantity.ts";
import { toOneLine } from "./text/width.ts";

const MAX_OUTPUT_LINES = 12;
const MAX_PROGRESS_LINES = 5;
const BODY: Line = [span("    ")];

const SIGNS: Readonly<Record<ToolItem["status"], Span>> = {
  writing: span("○", "dim"),
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

/** @param nowMs Unix milliseconds, for the clock of a call at work. */
export function toolLines(tool: ToolItem, width: number, nowMs: number): readonly Line[] {
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
  return wrap(spans, width, hanging([SIGNS[tool.status], span(" ")]));
}

/** How long it took, or what goes on. */
function asideOf({ status, durationSeconds, startedAtMs }: ToolItem, nowMs: number): string {
  if (status === "writing") return "is being written";
  if (status === "cut") return "cut off";
  if (durationSeconds !== undefined) return durationText(durationSeconds);
  const seconds = Math.floor((nowMs - startedAtMs) / 1000);
  return status === "running" && seconds >= 1 ? durationText(seconds) : "";
}

function bodyLines(tool: ToolItem, width: number): readonly Line[] {
  const margin = { first: BODY, rest: BODY };
  const text = (value: string, role: Role) => wrapText(value, role, width, margin);
  if (tool.status === "running" || tool.status === "writing") {
    return tool.progress === "" ? [] : text(lastLines(tool.progress), "dim");
  }
  if (tool.error !== undefined) return text(firstLines(tool.error), "bad");
  if (tool.todos !== undefined) return tool.todos.flatMap((todo) => todoLines(todo, width));
  const body = Math.max(1, width - 4);
  const diff = tool.diff === undefined ? [] : diffLines(tool.diff, body).map((line) => [...BODY, ...line]);
  if (diff.length > 0) return diff;
  const output = tool.output?.trim() ?? "";
  if (output !== "") return text(firstLines(output), "dim");
  return tool.summary === undefined || tool.summary === "" ? [] : text(tool.summary, "dim");
}

function todoLines({ text, status }: Todo, width: number): readonly Line[] {
  const role = status === "in_progress" ? "strong" : status === "pending" ? "plain" : "dim";
  return wrap([span(toOneLine(text), role)], width, hanging([...BODY, TODO_SIGNS[status]]));
}

function firstLines(text: string): string {
  const lines = text.trimEnd().split("\n");
  if (lines.length <= MAX_OUTPUT_LINES) return lines.join("\n");
  return [...lines.slice(0, MAX_OUTPUT_LINES), `… ${lines.length - MAX_OUTPUT_LINES} more lines`].join("\n");
}

function lastLines(text: string): string {
  return text.trimEnd().split("\n").slice(-MAX_PROGRESS_LINES).join("\n");
}
