import type { ToolCallUpdate, SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { QuestionKind, QuestionReplies } from "../../agent/question/question.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { AcpConnection } from "../wire/connection.ts";

/** A call as it was last sent to the client. */
export type ReportedCall = Pick<ToolCallUpdate, "title" | "kind" | "content" | "rawInput" | "locations">;

/** A question of the agent for the client. */
export interface ClientQuestion {
  readonly id: string;
  readonly kind: QuestionKind;
  /** The data of the event that asks. */
  readonly data: JournalEvent["data"];
  readonly sessionId: string;
  /** The client's id of the waiting call. */
  readonly toolCallId: string;
  /** The waiting call as it was sent to the client, if it was. */
  readonly sentCall: ReportedCall | undefined;
  /** Aborts when the answer no longer matters: the turn was cancelled, or another client answered. */
  readonly signal: AbortSignal;
}

/** The result of asking the client. */
export type QuestionResult =
  /** `by`: the user, or agentd if the user cannot be asked. */
  | { readonly type: "reply"; readonly reply: QuestionReplies[QuestionKind]; readonly by: "acp" | "agentd" }
  /** The user cancelled the turn. */
  | { readonly type: "cancel" }
  /** The question is a message in the conversation. The turn ends, and the next prompt answers. The model reads `reply`. */
  | { readonly type: "later"; readonly reply: QuestionReplies[QuestionKind] }
  /** The question stays open until another client answers or it times out. */
  | { readonly type: "open" };

/** Resolves when all messages of the current input chunk were handled: a cancel after an answer prevails. */
export function macrotask(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Sends an update in call order. Never waits or throws, even if the client is gone. */
export function sendUpdate({ client }: AcpConnection, sessionId: string, update: SessionUpdate): void {
  client.notify("session/update", { sessionId, update }).catch(() => {});
}

/** Sends a hint to the user: as a notice, or as a message if the client shows no notices. */
export function sendHint(connection: AcpConnection, { id, sessionId }: ClientQuestion, text: string): void {
  if (connection.features.notices) {
    sendUpdate(connection, sessionId, { sessionUpdate: "notice", severity: "warning", title: text });
  } else {
    sendText(connection, sessionId, { messageId: `hint_${id}`, text: `${text}\n` });
  }
}

/** Sends a complete message of the agent. */
export function sendText(
  connection: AcpConnection,
  sessionId: string,
  { messageId, text }: { readonly messageId: string; readonly text: string },
): void {
  const content = { type: "text", text } as const;
  sendUpdate(connection, sessionId, { sessionUpdate: "agent_message_chunk", messageId, content });
}
