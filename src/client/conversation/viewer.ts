/** What the viewer shows: pages of text that are too long for the transcript. Pure. */
import type { ChatState, SubagentItem, ToolItem, Viewer, ViewerPage } from "./state.ts";

/** Lines of a tool's output in the transcript; the viewer has all. */
export const MAX_OUTPUT_LINES = 12;
/** Lines of a diff in the transcript and in an approval. */
export const MAX_DIFF_LINES = 60;
const MAX_PAGES = 50;

/** Opens the viewer on a page; -1 is the last one. */
export function openViewer(state: ChatState, pages: readonly ViewerPage[], at = 0): ChatState {
  const viewer: Viewer = { serial: state.serial, pages, at: at < 0 ? pages.length - 1 : at };
  return { ...state, viewer, serial: state.serial + 1 };
}

/** Closes the viewer. */
export function closeViewer({ viewer: _, ...state }: ChatState): ChatState {
  return state;
}

/** Returns the tool results of the transcript, oldest first: those that it shows in part, or all if it shows all. */
export function outputPages({ settled, live }: ChatState): readonly ViewerPage[] {
  const tools = [...settled, ...live].filter((item) => item.kind === "tool");
  const pages = tools.filter((tool) => textOf(tool) !== "");
  const cut = pages.filter(isCut);
  return (cut.length > 0 ? cut : pages).slice(-MAX_PAGES).map(pageOf);
}

function pageOf(tool: ToolItem): ViewerPage {
  const title = tool.context === "" ? tool.name : `${tool.name}  ${tool.context}`;
  return { title, text: textOf(tool), isDiff: tool.error === undefined && tool.diff !== undefined };
}

function textOf({ error, diff, output = "" }: ToolItem): string {
  return (error ?? diff ?? output).trimEnd();
}

function isCut(tool: ToolItem): boolean {
  const isDiff = tool.error === undefined && tool.diff !== undefined;
  return textOf(tool).split("\n").length > (isDiff ? MAX_DIFF_LINES : MAX_OUTPUT_LINES);
}

/** Returns the sub-agents of the transcript and what they do now, oldest first; those of another one are indented. */
export function agentsPage({ settled, live }: ChatState): ViewerPage {
  const agents = [...settled, ...live].filter((item) => item.kind === "subagent");
  const text = agents.map(agentText).join("\n") || "This session has had no sub-agents yet.";
  return { title: "agents", text, isDiff: false };
}

function agentText({ depth, status, goal, toolCount, durationSeconds, line }: SubagentItem): string {
  const indent = "  ".repeat(Math.min(depth - 1, 4));
  const aside = [
    status,
    `${toolCount} ${toolCount === 1 ? "call" : "calls"}`,
    ...(durationSeconds === undefined ? [] : [`${durationSeconds.toFixed(1)} s`]),
  ].join(", ");
  const now = line === "" ? [] : [`${indent}    ${line.split("\n").at(-1)}`];
  return [`${indent}${goal}  ${aside}`, ...now].join("\n");
}

/** The keys of the chat, for `?` and `/keys`. */
export const KEYS_PAGE: ViewerPage = {
  title: "keys",
  isDiff: false,
  text: `enter       send; during a turn: queue
alt-enter   new line, also a backslash and enter
ctrl-t      during a turn: steer it; ctrl-x: interrupt it and send
@name       find a file and attach its content
!command    run a shell command
ctrl-v      attach the image in the clipboard
ctrl-g      write in your editor
ctrl-u      clear the input; ctrl-y brings it back
ctrl-r      search earlier prompts; up shows the last one
esc esc     take the last prompt back and edit it
ctrl-o      show all of a tool's output; ctrl-l: draw the screen again
alt-m       models; ctrl-s: sessions
shift-tab   next mode: ask, accept edits, plan
ctrl-c      interrupt, deny or clear; twice, or ctrl-d: leave`,
};
