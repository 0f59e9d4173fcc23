import { readTranscript } from "../agent/history.ts";
import { ServiceError } from "../base/errors.ts";
import type { RpcRoom } from "./room.ts";
import type { SessionPlace } from "./session-place.ts";

const MAX_MESSAGES = 10_000;

/**
 * Takes a prompt of the user, counted from 0, and all that followed it back. ServiceError `stale_target` when there is no
 * such prompt or it was summed up, `empty_truncation` and `unconfirmed_truncation` for one that was not confirmed,
 * `session_busy`.
 */
export async function truncateBefore(
  room: RpcRoom,
  place: Pick<SessionPlace, "id" | "owner">,
  target: { readonly ordinal: number; readonly isConfirmed: boolean },
): Promise<void> {
  const { messages } = await readTranscript(room.store, place.id, { limit: MAX_MESSAGES });
  const prompts = messages.filter(({ message }) => message.role === "user" && message.origin === undefined);
  const turns = prompts.length - target.ordinal;
  if (turns <= 0) throw stale(prompts.length);
  if (!target.isConfirmed) {
    const what = `${turns} prompts and their answers would be taken back. Confirm it with confirm_truncate.`;
    throw new ServiceError(target.ordinal === 0 ? "empty_truncation" : "unconfirmed_truncation", what, {
      param: "confirm_truncate",
    });
  }
  try {
    await room.agent.sessions.undo(place.id, place.owner, turns);
  } catch (error) {
    if (error instanceof ServiceError && error.code === "nothing_to_undo") throw stale(prompts.length, error);
    throw error;
  }
}

function stale(prompts: number, cause?: unknown): ServiceError {
  const what = `The prompt can be taken back no more; there are ${prompts}, and what was summed up stays.`;
  const param = "truncate_before_user_ordinal";
  return new ServiceError("stale_target", what, { param, ...(cause === undefined ? {} : { cause }) });
}
