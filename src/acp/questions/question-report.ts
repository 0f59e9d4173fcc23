/** What a client is told beside the events of a turn, because of its questions. Never waits, never throws. */
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { AcpConnection } from "../wire/connection.ts";
import type { PutQuestion } from "./question.ts";

/** In the order of the calls, before whatever is told later. A client that is gone is told nothing. */
export function sendUpdate({ client }: AcpConnection, sessionId: string, update: SessionUpdate): void {
  client.notify("session/update", { sessionId, update }).catch(() => {});
}

/** Something for the user that is no word of the model: a notice, where the client shows such. */
export function sendHint(connection: AcpConnection, { id, sessionId }: PutQuestion, text: string): void {
  if (connection.offers.notices) {
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
