/** A session that was opened, as a screen. Pure. */
import { cleanHead, cleanLine } from "./clean-text.ts";
import { foldEvent, withInfo } from "./fold.ts";
import type { GatewayEvent, LiveSession, OpenRequest, TranscriptMessage } from "../client/gateway.ts";
import { append, restart } from "./items.ts";
import type { ChatState, TranscriptItem } from "./state.ts";

const MAX_TEXT = 200_000;
const MAX_HISTORY = 200;

export type OpenedSession = Pick<LiveSession, "session_id" | "messages" | "info"> &
  Partial<Pick<LiveSession, "inflight" | "open_requests" | "running">>;

/** Shows another session, or the same one anew. Notifications and the connection stay. */
export function showSession(state: ChatState, opened: OpenedSession, nowMs: number): ChatState {
  const { session_id: id, messages, info, inflight, open_requests: open = [] } = opened;
  const prompts = messages.flatMap(({ role, text }) => (role === "user" && text ? [text] : []));
  const { turn: _, ...rest } = state;
  const shown: ChatState = {
    ...restart(rest, messages.flatMap(itemsOf)),
    session: { id, title: "", cwd: "" },
    queue: [],
    questions: [],
    composer: { ...state.composer, history: prompts.slice(-MAX_HISTORY) },
  };
  const known = withInfo(shown, info);
  const working = opened.running === true ? atWork(known, { inflight, messages, nowMs }) : known;
  return open.reduce((next, request) => foldEvent(next, questionEvent(request, id, nowMs)), working);
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

interface Work {
  readonly inflight: LiveSession["inflight"];
  readonly messages: readonly TranscriptMessage[];
  readonly nowMs: number;
}

/** The turn that was at work when somebody came. */
function atWork(state: ChatState, { inflight, messages, nowMs }: Work): ChatState {
  const turn = { id: "", startedAtMs: nowMs, activity: "", isBetweenMessages: false, isInterrupting: false };
  const working = { ...state, turn };
  if (!inflight) return working;
  const asked = messages.findLastIndex(({ role }) => role === "user");
  const isAsked = messages[asked]?.text === inflight.user;
  const said = messages
    .slice(isAsked ? asked + 1 : messages.length)
    .flatMap(({ role, text }) => (role === "assistant" ? [text ?? ""] : []))
    .join("");
  const shown =
    isAsked || inflight.user === ""
      ? working
      : append(working, { kind: "user", text: cleanHead(inflight.user, MAX_TEXT) });
  // What the turn said so far begins with the messages that are whole by now.
  const text = inflight.assistant.startsWith(said) ? inflight.assistant.slice(said.length) : "";
  if (text === "") return shown;
  return append(shown, { kind: "assistant", text: cleanHead(text, MAX_TEXT), status: "streaming" });
}

function questionEvent({ method, params }: OpenRequest, sessionId: string, ts: number): GatewayEvent {
  return { type: `${method}.request`, session_id: sessionId, ts, payload: params } as unknown as GatewayEvent;
}
