import type { PermissionOption } from "@agentclientprotocol/sdk/unstable";
import type { AskChoice } from "../../generated/http/client/types.gen.ts";
import { toServiceError } from "../base/errors.ts";
import type { JournalEvent } from "../store/journal.ts";
import type { AcpConnection } from "./connection.ts";

export interface PermissionCall {
  /** `approval.request`. */
  readonly event: JournalEvent;
  readonly sessionId: string;
  /** Aborts when the turn is cancelled. */
  readonly signal: AbortSignal;
}

/** Least leave first, as clients show them. */
const OPTIONS: readonly (PermissionOption & { readonly choice: AskChoice })[] = [
  { choice: "once", optionId: "allow_once", kind: "allow_once", name: "Allow this once" },
  { choice: "session", optionId: "allow_session", kind: "allow_always", name: "Allow for this session" },
  { choice: "always", optionId: "allow_always", kind: "allow_always", name: "Always allow" },
  { choice: "deny", optionId: "deny", kind: "reject_once", name: "Deny" },
];

/** Puts the question to the client and its answer to the one record of it. Whatever is no clear yes is a no. */
export async function askPermission(connection: AcpConnection, call: PermissionCall): Promise<void> {
  const { event, signal } = call;
  const askId = String(event.data["request_id"]);
  const room = await connection.room();
  const choice = await ask(connection, call);
  // A cancel may have come in the same bytes, behind the answer: it is heard first.
  await new Promise<void>((resolve) => setImmediate(resolve));
  if (signal.aborted || choice === undefined) return;
  try {
    await room.agent.parts.asks.answer(askId, { owner: room.owner, by: "acp", choice });
  } catch (error) {
    // Somebody else answered first, or it is too late.
    room.log.debug("an answer came too late", { question: askId, reason: toServiceError(error).code });
  }
}

async function ask(
  { client }: AcpConnection,
  { event, sessionId, signal }: PermissionCall,
): Promise<AskChoice | undefined> {
  const { data } = event;
  const choices = data["choices"] as readonly AskChoice[];
  const offered = OPTIONS.filter(({ choice }) => choices.includes(choice));
  const options = offered.map(({ choice: _, ...option }) => option);
  try {
    const { outcome } = await client.request(
      "session/request_permission",
      {
        sessionId,
        options,
        toolCall: {
          toolCallId: String(data["tool_call_id"]),
          title: String(data["title"]),
          status: "pending",
        },
      },
      { cancellationSignal: signal, stopWaitingOnCancel: true },
    );
    if (outcome.outcome === "cancelled") return undefined;
    return offered.find(({ optionId }) => optionId === outcome.optionId)?.choice ?? "deny";
  } catch {
    return signal.aborted ? undefined : "deny";
  }
}
