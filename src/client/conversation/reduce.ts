/** Reduces the events of the gateway to the state of the screen. Pure. */
import { cleanHead, cleanLine, cleanText } from "./clean-text.ts";
import {
  addReasoning,
  addText,
  completeTurn,
  startTurn,
  thinking,
  wholeReasoning,
  completeTool,
  progressTool,
  reportSubagent,
  startTool,
  writeTool,
} from "./reduce-turn.ts";
import { addQuestion, cancelQuestion } from "./reduce-questions.ts";
import type {
  GatewayEvent,
  SessionInfo,
  LiveSession,
  OpenRequest,
  SessionHistoryResult,
  TranscriptMessage,
} from "../gateway.ts";
import type { GatewayPayload } from "./gateway.ts";
import { closeAll, notice, append, prepend, restart } from "./items.ts";
import type { ChatState, ItemAttachment, Notification, ToolItem, TranscriptItem, UserItem } from "./state.ts";

const MAX_NOTIFICATIONS = 5;
const MAX_QUEUE = 32;
/** Names the notification that stands for work outside a turn. */
const WORK = "work";

/** Returns the state after `event`, or the same object when nothing changes. Ignores events of other sessions. */
export function reduceEvent(state: ChatState, event: GatewayEvent): ChatState {
  if (event.session_id !== undefined && event.session_id !== state.session?.id) return state;
  switch (event.type) {
    case "message.start":
      return startTurn(state, event.payload, event.ts);
    case "message.delta":
      return addText(state, event.payload);
    case "reasoning.delta":
      return addReasoning(state, event.payload);
    case "reasoning.available":
      return wholeReasoning(state, event.payload);
    case "thinking.delta":
      return thinking(state, event.payload);
    case "message.complete":
      return completeTurn(state, event.payload);
    case "tool.generating":
      return writeTool(state, event.payload, event.ts);
    case "tool.start":
      return startTool(state, event.payload, event.ts);
    case "tool.progress":
      return progressTool(state, event.payload, event.ts);
    case "tool.complete":
      return completeTool(state, event.payload, event.ts);
    case "approval.request":
      return addQuestion(state, "approval", event.payload);
    case "clarify.request":
      return addQuestion(state, "clarify", event.payload);
    case "sudo.request":
      return addQuestion(state, "sudo", event.payload);
    case "secret.request":
      return addQuestion(state, "secret", event.payload);
    case "request.cancel":
      return cancelQuestion(state, event.payload);
    case "subagent.spawn_requested":
    case "subagent.start":
    case "subagent.thinking":
    case "subagent.tool":
    case "subagent.progress":
    case "subagent.complete":
      return reportSubagent(state, event.payload);
    default:
      return reduceSession(state, event);
  }
}

/** Reduces events about the session itself. */
function reduceSession(state: ChatState, event: GatewayEvent): ChatState {
  switch (event.type) {
    case "session.info":
      return withInfo(state, event.payload);
    case "session.title":
      return withTitle(state, event.payload);
    case "session.queue":
      return withQueue(state, event.payload);
    case "session.closed":
      return notice(state, "warning", `The session was closed (${cleanLine(event.payload.reason)}).`);
    case "session.reclaimed":
      return notice(state, "info", "The session was closed because it was idle. The next prompt reopens it.");
    case "status.update":
      return withStatus(state, event.payload);
    case "error":
      return notice(state, "error", cleanText(event.payload.message));
    case "background.complete":
      return background(state, event.payload);
    default:
      return state; // gateway.ready, session.usage, sessions.changed, skin.changed: not shown
  }
}

/** Applies a snapshot of the session. Without a running turn it also closes live items. */
function withInfo(state: ChatState, info: SessionInfo): ChatState {
  const { usage, branch, reasoning_effort: effort } = info;
  const { turn, ...rest } = state;
  const ended = info.running || !turn ? state : closeAll(rest);
  return {
    ...ended,
    ...(state.session
      ? {
          session: {
            id: state.session.id,
            title: cleanLine(info.title),
            cwd: cleanLine(info.cwd, 1_000),
            ...(branch === undefined ? {} : { branch: cleanLine(branch) }),
          },
        }
      : {}),
    status: {
      model: cleanLine(info.model),
      provider: cleanLine(info.provider),
      totalTokens: usage?.total ?? state.status.totalTokens,
      isCostEstimated: usage?.cost_status === "estimated",
      isYolo: info.yolo === true,
      ...(state.status.mode === undefined ? {} : { mode: state.status.mode }),
      ...(effort === undefined ? {} : { reasoningEffort: cleanLine(effort, 40) }),
      ...contextOf(usage),
      ...(usage?.cost_usd === undefined ? {} : { costUsd: usage.cost_usd }),
    },
  };
}

function contextOf(usage: SessionInfo["usage"]) {
  const { context_used: used, context_max: max, context_percent: percent } = usage ?? {};
  return {
    ...(used === undefined ? {} : { contextUsed: used }),
    ...(max === undefined ? {} : { contextMax: max }),
    ...(percent === undefined ? {} : { contextPercent: percent }),
  };
}

function withTitle(state: ChatState, { title }: GatewayPayload<"session.title">): ChatState {
  return state.session ? { ...state, session: { ...state.session, title: cleanLine(title) } } : state;
}

function withQueue(state: ChatState, { queued }: GatewayPayload<"session.queue">): ChatState {
  return {
    ...state,
    queue: queued
      .slice(0, MAX_QUEUE)
      .map(({ turn_id: turnId, text_preview: preview }) => ({ turnId, preview: cleanLine(preview) })),
  };
}

/**
 * `warn` and `error` become notices, work outside a turn is shown until it is done, anything else is a transient
 * activity.
 */
function withStatus(state: ChatState, { kind, text }: GatewayPayload<"status.update">): ChatState {
  const line = cleanLine(text, 500);
  const { turn } = state;
  const rested = kind === "status" ? clear(state, WORK) : state;
  if (line === "") return rested;
  if (kind === "warn") return notice(rested, "warning", line);
  if (kind === "error") return notice(rested, "error", line);
  if (turn) return { ...rested, turn: { ...turn, activity: line } };
  if (kind === "compressing" || kind === "compacting") return show(rested, { id: WORK, text: line });
  return line === "ready" ? rested : notice(rested, "info", line);
}

function show(state: ChatState, shown: Omit<Notification, "level">): ChatState {
  const others = state.notifications.filter((known) => known.id !== shown.id);
  return {
    ...state,
    notifications: [...others, { ...shown, level: "info" as const }].slice(-MAX_NOTIFICATIONS),
  };
}

function clear(state: ChatState, id: string): ChatState {
  if (!state.notifications.some((known) => known.id === id)) return state;
  return { ...state, notifications: state.notifications.filter((known) => known.id !== id) };
}

function background(state: ChatState, payload: GatewayPayload<"background.complete">): ChatState {
  const { task_id: id, text, status } = payload;
  const said = `Background task ${cleanLine(id, 60)}: ${cleanHead(text, 20_000)}`;
  return notice(state, status === "error" ? "error" : "info", said);
}

const MAX_TEXT = 200_000;

export type OpenedSession = Pick<LiveSession, "session_id" | "messages" | "info"> &
  Partial<Pick<LiveSession, "inflight" | "latest_seq" | "message_count" | "open_requests" | "running">>;

/** Most prompts that the up key and the search find. */
const MAX_HISTORY = 1_000;

/** Returns the prompts, oldest first, with `newer` at the end and each once. */
export function joinHistory(older: readonly string[], newer: readonly string[]): readonly string[] {
  const last = new Set(newer);
  return [...older.filter((text) => !last.has(text)), ...last].slice(-MAX_HISTORY);
}

/** Shows a session. Notifications and the connection stay. */
export function showSession(state: ChatState, opened: OpenedSession, nowMs: number): ChatState {
  const { session_id: id, info, inflight, open_requests: open = [] } = opened;
  const all = [...opened.messages, ...(inflight?.messages ?? [])];
  // A call that still runs is shown by its own events.
  const messages = opened.running === true ? all.filter(({ status }) => status !== "pending") : all;
  const prompts = messages.flatMap(({ role, text }) => (role === "user" && text ? [cleanText(text)] : []));
  const { turn: _, older: __, ...rest } = state;
  const shown: ChatState = {
    ...restart(rest, messages.flatMap(itemsOf)),
    ...olderThan(opened.messages, (opened.message_count ?? 0) > opened.messages.length),
    session: { id, title: "", cwd: "" },
    queue: [],
    questions: [],
    composer: {
      ...state.composer,
      history: joinHistory(state.composer.history, prompts),
      // Images wait at the gateway for a prompt of their session.
      attachments: state.session?.id === id ? state.composer.attachments : [],
    },
  };
  const known = withInfo(shown, info);
  const working = opened.running === true ? atWork(known, inflight, nowMs) : known;
  return open.reduce((next, request) => {
    return reduceEvent(askingTool(next, request, nowMs), questionEvent(request, id, nowMs));
  }, working);
}

/** Adds the call that asks for approval: it started before the session was opened here, and its events come later. */
function askingTool(state: ChatState, { params }: OpenRequest, nowMs: number): ChatState {
  const { tool_id: id, tool_name: name, command } = params as Readonly<Record<string, unknown>>;
  if (typeof id !== "string" || typeof name !== "string") return state;
  return startTool(state, { tool_id: id, name, context: typeof command === "string" ? command : "" }, nowMs);
}

function olderThan(messages: readonly TranscriptMessage[], hasMore: boolean): Pick<ChatState, "older"> {
  const before = messages[0]?.message_id;
  return hasMore && before !== undefined ? { older: { before, isLoading: false } } : {};
}

/** Keeps the files of a prompt for the item of its turn, which starts after the gateway has answered. */
export function keepSent(state: ChatState, turnId: string, files: readonly ItemAttachment[]): ChatState {
  if (files.length === 0) return state;
  const sent = { ...state.composer.sent, [turnId]: files };
  return { ...state, composer: { ...state.composer, sent } };
}

/** Puts a page of older messages before those that are shown. */
export function showOlder(
  state: ChatState,
  { messages, has_more: hasMore }: Pick<SessionHistoryResult, "messages" | "has_more">,
): ChatState {
  const { older: _, ...rest } = prepend(state, messages.flatMap(itemsOf));
  return { ...rest, ...olderThan(messages, hasMore) };
}

const TOOL_STATUS = {
  ok: "done",
  error: "failed",
  denied: "failed",
  aborted: "cut",
  pending: "cut",
} as const;

function toolStatus(status: TranscriptMessage["status"]): ToolItem["status"] {
  return status === undefined || status === "interrupted" ? "done" : TOOL_STATUS[status];
}

/** Returns the items of a message of the session. */
export function itemsOf(message: TranscriptMessage, index: number): TranscriptItem[] {
  const id = message.message_id ?? `message-${index}`;
  const text = cleanHead(message.text ?? "", MAX_TEXT);
  switch (message.role) {
    case "user":
      return [{ kind: "user", id, text, ...attachmentsOf(message, id) }];
    case "assistant": {
      const reasoning = cleanHead(message.reasoning ?? "", MAX_TEXT);
      return [
        ...(reasoning === ""
          ? []
          : [{ kind: "reasoning" as const, id: `${id}-reasoning`, text: reasoning, isStreaming: false }]),
        ...(text === "" ? [] : [{ kind: "assistant" as const, id, text, status: "complete" as const }]),
      ];
    }
    case "tool": {
      const output = cleanHead((message.output ?? "").trimEnd(), MAX_TEXT);
      const status = toolStatus(message.status);
      return [
        {
          kind: "tool",
          id,
          name: cleanLine(message.name ?? "tool", 80),
          context: cleanLine(message.context ?? ""),
          status,
          progress: "",
          startedAtMs: 0,
          ...(output === "" ? {} : { output }),
          ...(status === "failed" && output !== "" ? { error: output } : {}),
          ...(message.duration_s === undefined ? {} : { durationSeconds: message.duration_s }),
        },
      ];
    }
    default:
      return text === "" ? [] : [{ kind: "notice", id, level: "info", text }];
  }
}

function attachmentsOf(
  { attachments = [] }: TranscriptMessage,
  messageId: string,
): Pick<UserItem, "attachments"> {
  if (attachments.length === 0) return {};
  return {
    attachments: attachments.map(({ kind, name, bytes }, index) => ({
      kind,
      name: cleanLine(name ?? kind, 120),
      bytes,
      of: { messageId, index },
    })),
  };
}

/** Adds the running turn of a session. Its complete messages are already among the items. */
function atWork(state: ChatState, inflight: LiveSession["inflight"], startedAtMs: number): ChatState {
  const turn = { id: "", startedAtMs, activity: "", isBetweenMessages: false, isInterrupting: false };
  const working = { ...state, turn };
  if (!inflight) return working;
  const { assistant, messages = [] } = inflight;
  const said = messages.flatMap(({ role, text }) => (role === "assistant" ? [text ?? ""] : [])).join("");
  const text = assistant.startsWith(said) ? assistant.slice(said.length) : "";
  if (text === "") return working;
  return append(working, { kind: "assistant", text: cleanHead(text, MAX_TEXT), status: "streaming" });
}

function questionEvent({ method, params }: OpenRequest, sessionId: string, ts: number): GatewayEvent {
  return { type: `${method}.request`, session_id: sessionId, ts, payload: params } as unknown as GatewayEvent;
}
