/** A turn of the client that no prompt of it waits for. */
import type { UserMessage } from "../../agent/message.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { toRequestError } from "../wire/error.ts";
import { runMessage } from "./prompt.ts";
import type { AcpSession } from "../session/session.ts";

/** Runs the message as a prompt of its own; there is no answer to fail, so a failure is told. Never throws. */
export async function detachedTurn(
  connection: AcpConnection,
  session: AcpSession,
  message: UserMessage,
): Promise<void> {
  try {
    await runMessage(connection, session, { message, signal: session.signal });
  } catch (error) {
    await sendFailure(connection, session, toRequestError(error, session.id).message).catch(() => {});
  }
}

async function sendFailure(
  { client, offers }: AcpConnection,
  { id, signal }: AcpSession,
  reason: string,
): Promise<void> {
  if (signal.aborted) return;
  const title = "The turn failed.";
  await client.notify("session/update", {
    sessionId: id,
    update: offers.notices
      ? { sessionUpdate: "notice", severity: "error", title, description: reason }
      : { sessionUpdate: "agent_message_chunk", content: { type: "text", text: `${title} ${reason}` } },
  });
}
