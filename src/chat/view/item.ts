/** An item of the transcript as lines. */
import type { AssistantItem, NoticeItem, SubagentItem, TranscriptItem, UserItem } from "../state/state.ts";
import { hanging, span, wrap, wrapText, type Line, type Span } from "./text/line.ts";
import { markdownLines, type MarkdownState } from "./text/markdown.ts";
import { durationText } from "./text/quantity.ts";
import { toolLines } from "./tool-block.ts";
import { toOneLine } from "./text/width.ts";

const INDENT: Line = [span("  ")];
const INDENTED = { first: INDENT, rest: INDENT };

/** @param nowMs Unix milliseconds, for the clocks of what is at work. */
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

/** A part of an answer; `state` is the one behind the part before. */
export function answerLines(text: string, width: number, state?: MarkdownState) {
  if (text === "") return { lines: [], state: state ?? {} };
  const shown = markdownLines(text, Math.max(1, width - 2), state);
  return { lines: shown.lines.map((line) => [...INDENT, ...line]), state: shown.state };
}

/** What stands below an answer that did not end well. */
export function endLines({ status }: AssistantItem, width: number): readonly Line[] {
  if (status === "interrupted") return wrap([span("interrupted", "warning")], width, INDENTED);
  return status === "error" ? wrap([span("ended with an error", "bad")], width, INDENTED) : [];
}

/** Whether no blank line stands between two items: calls of tools stay together. */
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
