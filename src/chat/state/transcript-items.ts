/** A session that was opened, as a screen. Pure. */
import { cleanHead, cleanLine, cleanText } from "../clean-text.ts";
import { reduceEvent, withInfo } from "./reduce.ts";
import type { GatewayEvent, LiveSession, OpenRequest, TranscriptMessage } from "../../client/gateway.ts";
import { append, restart } from "./items.ts";
import type { ChatState, TranscriptItem } from "./state.ts";

const MAX_TEXT = 200_000;
const MAX_HISTORY = 200;

export type OpenedSession = Pick<LiveSession, "session_id" | "messages" | "info"> &
  Partial<Pick<LiveSession, "inflight" | "latest_seq" | "open_requests" | "running">>;

/** Shows another session, or the same one anew. Notifications and the connection stay. */
export function showSession(state: ChatState, opened: OpenedSession, nowMs: number): ChatState {
  const { session_id: id, info, inflight, open_requests: open = [] } = opened;
  const messages = [...opened.messages, ...(inflight?.messages ?? [])];
  const prompts = messages.flatMap(({ role, text }) => (role === "user" && text ? [cleanText(text)] : []));
  const { turn: _, ...rest } = state;
  const shown: ChatState = {
    ...restart(rest, messages.flatMap(itemsOf)),
    session: { id, title: "", cwd: "" },
    queue: [],
    questions: [],
    composer: { ...state.composer, history: prompts.slice(-MAX_HISTORY) },
  };
  const known = withInfo(shown, info);
  const working = opened.running === true ? atWork(known, inflight, nowMs) : known;
  return open.reduce((next, request) => reduceEvent(next, questionEvent(request, id, nowMs)), working);
}

function itemsOf(message: TranscriptMessage, index: number): TranscriptItem[] {
  const id = message.message_id ?? `message-${index}`;
  const text = cleanHead(message.text ?? "", MAX_TEXT);
  switch (message.role) {
    case "user":
      return [{ kind: "user", id, text }];
    case "assistant": {
      const reasoning = cleanHead(message.reasoning ?? "", MAX_TEXT);
      return [
        ...(reasoning === ""
          ? []
          : [{ kind: "reasoning" as const, id: `${id}-reasoning`, text: reasoning, isStreaming: false }]),
        ...(text === "" ? [] : [{ kind: "assistant" as const, id, text, status: "complete" as const }]),
      ];
    }
    case "tool":
      return [
        {
          kind: "tool",
          id,
          name: cleanLine(message.name ?? "tool", 80),
          context: cleanLine(message.context ?? ""),
          status: "done",
          progress: "",
          startedAtMs: 0,
        },
      ];
    default:
      return text === "" ? [] : [{ kind: "notice", id, level: "info", text }];
  }
}

/** The turn that was at work when somebody came. What of it is whole stands among the items already. */
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
