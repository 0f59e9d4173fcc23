import type { ToolCallUpdate, SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { QuestionKind, QuestionReplies } from "../../agent/question/question.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { AcpConnection } from "../wire/connection.ts";

/** A call as it was told last. */
export type ReportedCall = Pick<ToolCallUpdate, "title" | "kind" | "content" | "rawInput" | "locations">;

/** A question of the agent on its way to the client. */
export interface ClientQuestion {
  readonly id: string;
  readonly kind: QuestionKind;
  /** Of the event that asks. */
  readonly data: JournalEvent["data"];
  readonly sessionId: string;
  /** Of the call that waits, as the client knows it. */
  readonly toolCallId: string;
  /** What the client was told of that call; undefined when nothing. */
  readonly sentCall: ReportedCall | undefined;
  /** Aborts when an answer matters no more: the turn is cancelled, or somebody else answered. */
  readonly signal: AbortSignal;
}

/** What came of a question that was put to the client. */
export type QuestionResult =
  /** `by`: the user, or agentd because the user cannot be asked. */
  | { readonly type: "reply"; readonly reply: QuestionReplies[QuestionKind]; readonly by: "acp" | "agentd" }
  /** The user called the whole turn off. */
  | { readonly type: "cancel" }
  /** The user was asked in the conversation, and the next prompt is the answer: the turn ends. The model reads `reply`. */
  | { readonly type: "later"; readonly reply: QuestionReplies[QuestionKind] }
  /** It stays open: somebody else may answer, or its time ends it. */
  | { readonly type: "open" };

/** Resolves when all that came in the same bytes as an answer was heard: a cancel behind it counts. */
export function macrotask(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** In the order of the calls, before whatever is told later. A client that is gone is told nothing. */
export function sendUpdate({ client }: AcpConnection, sessionId: string, update: SessionUpdate): void {
  client.notify("session/update", { sessionId, update }).catch(() => {});
}

/** Something for the user that is no word of the model: a notice, where the client shows such. */
export function sendHint(connection: AcpConnection, { id, sessionId }: ClientQuestion, text: string): void {
  if (connection.features.notices) {
    sendUpdate(connection, sessionId, { sessionUpdate: "notice", severity: "warning", title: text });
  } else {
    sendText(connection, sessionId, { messageId: `hint_${id}`, text: `${text}\n` });
  }
}

/** A message of the agent's, whole. */
export function sendText(
  connection: AcpConnection,
  sessionId: string,
  { messageId, text }: { readonly messageId: string; readonly text: string },
): void {
  const content = { type: "text", text } as const;
  sendUpdate(connection, sessionId, { sessionUpdate: "agent_message_chunk", messageId, content });
}
