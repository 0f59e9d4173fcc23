import type { Store, Tx } from "../store/store.ts";
import type { Message } from "./message.ts";

/** The transcript of a session, oldest first. */
export async function loadHistory(store: Store, sessionId: string): Promise<readonly Message[]> {
  const rows = await store.read
    .selectFrom("messages")
    .select("content")
    .where("session_id", "=", sessionId)
    .orderBy("seq")
    .execute();
  return rows.map((row) => JSON.parse(row.content) as Message);
}

/** Adds messages to the end of a transcript, inside `tx`. */
export async function addMessages(
  tx: Tx,
  where: { readonly sessionId: string; readonly runId: string },
  messages: readonly Message[],
): Promise<void> {
  if (messages.length === 0) return;
  const last = await tx.increment("sessions", { id: where.sessionId }, "last_message", messages.length);
  if (last === undefined) throw new Error(`session ${where.sessionId} is gone`);
  await insertMessages(tx, where, { messages, after: last - messages.length });
}

/** Writes messages numbered from `after` on, inside `tx`; for a session whose counter says so already. */
export async function insertMessages(
  tx: Tx,
  where: { readonly sessionId: string; readonly runId: string },
  { messages, after }: { readonly messages: readonly Message[]; readonly after: number },
): Promise<void> {
  const rows = messages.map((message, index) => ({
    session_id: where.sessionId,
    seq: after + index + 1,
    run_id: where.runId,
    role: message.role,
    content: JSON.stringify(message),
    created_at: tx.nowMs,
  }));
  await tx.insert("messages", rows);
}
