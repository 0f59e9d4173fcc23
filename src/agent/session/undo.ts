/** Prompts that are taken back with all that followed them. */
import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";
import { sessionEvent } from "../run/event.ts";
import type { NumberedMessage } from "./transcript.ts";
import type { Message } from "../message.ts";

/** What people said in a session, oldest first, inside `tx`: no summaries, no steering. */
export async function promptsOf(tx: Tx, sessionId: string): Promise<readonly NumberedMessage[]> {
  const rows = await tx.db
    .selectFrom("messages")
    .select(["seq", "content"])
    .where("session_id", "=", sessionId)
    .where("role", "=", "user")
    .orderBy("seq")
    .execute();
  return rows
    .map(({ seq, content }) => ({ seq, message: JSON.parse(content) as Message }))
    .filter(({ message }) => message.role === "user" && message.origin === undefined);
}

/**
 * Takes a prompt and all that followed it back, inside `tx`. Resolves to how many messages went. ServiceError
 * `session_busy` while a turn is at work.
 */
export async function truncateAt(
  tx: Tx,
  store: Store,
  from: { readonly sessionId: string; readonly seq: number },
): Promise<number> {
  const { sessionId: id, seq } = from;
  if ((await tx.update("sessions", { id, lease_owner: null }, { updated_at: tx.nowMs })) === 0) {
    throw new ServiceError("session_busy", "The session is at work. Stop its turn first.");
  }
  const session = await tx.find("sessions", { id });
  // A summary that was written later stays: it speaks of what came before.
  const kept = session?.summary_seq ?? 0;
  const gone = await tx.db
    .selectFrom("messages")
    .select((is) => is.fn.countAll<number | string>().as("count"))
    .where("session_id", "=", id)
    .where("seq", ">=", seq)
    .where("seq", "!=", kept)
    .executeTakeFirstOrThrow();
  await tx.db
    .deleteFrom("messages")
    .where("session_id", "=", id)
    .where("seq", ">=", seq)
    .where("seq", "!=", kept)
    .execute();
  const removed = Number(gone.count);
  await store.journal.append(tx, id, [sessionEvent("session.undone", { removed })]);
  return removed;
}
