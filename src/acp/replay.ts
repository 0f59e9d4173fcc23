/** What a client is told of a conversation that was before it. */
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { readTranscript, type NumberedMessage } from "../agent/history.ts";
import { textOf } from "../agent/message.ts";
import type { AcpConnection } from "./connection.ts";
import type { AcpSession } from "./session.ts";

/** Tells the client all of the conversation, oldest first. */
export async function replaySession(connection: AcpConnection, session: AcpSession): Promise<void> {
  const { store } = await connection.room();
  const { messages } = await readTranscript(store, session.id);
  for (const update of messages.flatMap(updatesOf)) {
    await connection.client.notify("session/update", { sessionId: session.id, update });
  }
}

function updatesOf({ seq, message }: NumberedMessage): readonly SessionUpdate[] {
  const text = textOf(message);
  if (text === "" || message.role === "system" || message.role === "tool") return [];
  const sessionUpdate = message.role === "user" ? "user_message_chunk" : "agent_message_chunk";
  return [{ sessionUpdate, messageId: `msg_${seq}`, content: { type: "text", text } }];
}
