import { promptsOf, truncateAt } from "../../agent/session/sessions.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";

/**
 * Takes a prompt of the user, counted from 0, and all that followed it back, inside `tx`: with the prompt that comes in
 * its place, or not at all. ServiceError `stale_target` when there is no such prompt or it was summed up,
 * `empty_truncation` and `unconfirmed_truncation` for one that was not confirmed, `session_busy`.
 */
export async function truncateBefore(
  tx: Tx,
  store: Store,
  target: { readonly sessionId: string; readonly ordinal: number; readonly isConfirmed: boolean },
): Promise<void> {
  const { sessionId, ordinal, isConfirmed } = target;
  const prompts = await promptsOf(tx, sessionId);
  const session = await tx.find("sessions", { id: sessionId });
  const first = prompts[ordinal];
  if (!first || !session || first.seq <= session.context_seq) throw stale(prompts.length);
  if (!isConfirmed) {
    const turns = prompts.length - ordinal;
    const what = `${turns} prompts and their answers would be taken back. Confirm it with confirm_truncate.`;
    throw new ServiceError(ordinal === 0 ? "empty_truncation" : "unconfirmed_truncation", what, {
      param: "confirm_truncate",
    });
  }
  await truncateAt(tx, store, { sessionId, seq: first.seq });
}

function stale(prompts: number): ServiceError {
  const what = `The prompt can be taken back no more; there are ${prompts}, and what was summed up stays.`;
  return new ServiceError("stale_target", what, { param: "truncate_before_user_ordinal" });
}
