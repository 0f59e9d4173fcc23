import type { Store } from "../../store/store.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { Message } from "../message.ts";
import { newSession, type SessionSeed } from "./session.ts";

/** A session that is open and need not be saved. */
export interface Unsaved {
  readonly id: string;
  readonly owner: string;
  readonly seed: SessionSeed;
}

/**
 * Saves a session before its first prompt, with what was said before it. The row that there is stays, whoever owns it.
 */
export async function saveSession(
  store: Store,
  { id, owner, seed }: Unsaved,
  messages: readonly Message[] = [],
): Promise<SessionRow> {
  return store.write(async (tx) => {
    const known = await tx.find("sessions", { id });
    if (known) return known;
    const row = { ...newSession({ owner, id }, seed, tx.nowMs), last_message: messages.length };
    await tx.insert("sessions", [row]);
    const rows = messages.map((message, index) => ({
      session_id: id,
      seq: index + 1,
      run_id: null,
      role: message.role,
      content: JSON.stringify(message),
      created_at: tx.nowMs,
    }));
    if (rows.length > 0) await tx.insert("messages", rows);
    return row;
  });
}
