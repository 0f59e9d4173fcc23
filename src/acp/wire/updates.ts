/** Updates that agentd sends on its own behalf: notices, hints and complete messages. */
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { shorten, toOneLine } from "../../base/text.ts";
import type { AcpConnection, ClientFeatures } from "./connection.ts";

interface Notice {
  /** Makes the id of the message for clients that show no notices. */
  readonly id: string;
  readonly text: string;
  readonly severity?: "info" | "warning" | "error";
}

const MAX_TITLE_CHARACTERS = 200;

/** Returns a notice for the user, or a message of the agent if the client shows no notices. */
export function noticeUpdate(
  { notices }: Pick<ClientFeatures, "notices">,
  { id, text, severity = "warning" }: Notice,
): SessionUpdate {
  if (!notices) return messageUpdate({ messageId: `notice_${id}`, text: `${text}\n\n` });
  const title = shorten(toOneLine(text), MAX_TITLE_CHARACTERS);
  return { sessionUpdate: "notice", severity, title, ...(title === text ? {} : { description: text }) };
}

function messageUpdate({
  messageId,
  text,
}: {
  readonly messageId: string;
  readonly text: string;
}): SessionUpdate {
  return { sessionUpdate: "agent_message_chunk", messageId, content: { type: "text", text } };
}

/** Sends an update in call order. Never waits or throws, even if the client is gone. */
export function sendUpdate({ client }: AcpConnection, sessionId: string, update: SessionUpdate): void {
  client.notify("session/update", { sessionId, update }).catch(() => {});
}

/** Sends a notice, or a message to a client that shows no notices. */
export function sendNotice(connection: AcpConnection, sessionId: string, notice: Notice): void {
  sendUpdate(connection, sessionId, noticeUpdate(connection.features, notice));
}

/** Sends a complete message of the agent. */
export function sendText(
  connection: AcpConnection,
  sessionId: string,
  message: { readonly messageId: string; readonly text: string },
): void {
  sendUpdate(connection, sessionId, messageUpdate(message));
}

/** Resolves when all messages of the current input chunk were handled: a cancel after an answer prevails. */
export function macrotask(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
