/** What an event of the gateway changes on the screen. Pure; events of other sessions change nothing. */
import { cleanHead, cleanLine, cleanText } from "../clean-text.ts";
import { addReasoning, addText, completeTurn, startTurn, thinking, wholeReasoning } from "./reduce-text.ts";
import { completeTool, progressTool, reportSubagent, startTool, writeTool } from "./reduce-tools.ts";
import { ask, cancelQuestion } from "./reduce-questions.ts";
import type { GatewayEvent, SessionInfo } from "../../client/gateway.ts";
import type { GatewayPayload } from "../gateway-types.ts";
import { closeAll, notice } from "./items.ts";
import type { ChatState, Notification } from "./state.ts";

const MAX_NOTIFICATIONS = 5;
const MAX_QUEUE = 32;
/** Names the notification that stands for work outside a turn. */
const WORK = "work";

/** The state after `event`; the same object when nothing is to be seen of it. */
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
      return ask(state, "approval", event.payload);
    case "clarify.request":
      return ask(state, "clarify", event.payload);
    case "sudo.request":
      return ask(state, "sudo", event.payload);
    case "secret.request":
      return ask(state, "secret", event.payload);
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

/** Events about the session and not about what is said in it. */
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
      return notice(
        state,
        "info",
        "The session was closed, as nobody used it. The next prompt opens it again.",
      );
    case "status.update":
      return withStatus(state, event.payload);
    case "error":
      return notice(state, "error", cleanText(event.payload.message));
    case "background.complete":
      return background(state, event.payload);
    default:
      return state; // gateway.ready, session.usage, sessions.changed, skin.changed: for others than the fold
  }
}

/** A snapshot of the session; without a turn at work it also ends what was not told to its end. */
export function withInfo(state: ChatState, info: SessionInfo): ChatState {
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

/** Kinds: `warn` and `error` stay to be read, work outside a turn shows until it is done, the rest is a passing word. */
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
