/** Changes of what people set of a session. */
import type { SessionEventData } from "../run/event.ts";
import { ServiceError } from "../../base/errors.ts";
import { freeTitle, titleTaken } from "./titles.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { Tx } from "../../store/store.ts";
import { changeSettings, sessionNotFound } from "./session.ts";

export interface ChangeOptions {
  /** Gets the current row inside the transaction. */
  readonly check?: (row: SessionRow) => void;
  /** Who makes the change, for the feed: the name of a key. */
  readonly actor?: string | null;
}

/** Settings of a session that people change; absent ones stay. */
export interface SessionChange {
  readonly title?: string | null;
  readonly model?: string | null;
  readonly reasoningEffort?: string | null;
  readonly cwd?: string | null;
}

export function busy(): ServiceError {
  return new ServiceError("session_busy", "The session is busy. Stop its turn first.");
}

/**
 * Changes several settings, inside `tx`. Resolves to the changes as their event has them. `check` gets the current row.
 * ServiceError `session_not_found`, `invalid_title`, `session_busy`.
 */
export async function changeSession(
  tx: Tx,
  wanted: {
    readonly id: string;
    readonly owner: string;
    readonly change: SessionChange;
    readonly check: ((row: SessionRow) => void) | undefined;
  },
): Promise<SessionEventData<"session.updated">> {
  const { id, owner, change, check } = wanted;
  // Locks the row on PostgreSQL: of two changes that expect the same version, one sees the other.
  await tx.update("sessions", { id, owner }, { updated_at: tx.nowMs });
  const row = await tx.find("sessions", { id });
  if (row?.owner !== owner) throw sessionNotFound(id);
  check?.(row);
  const { title, model, reasoningEffort, cwd } = change;
  if (cwd !== undefined && row.lease_owner !== null) throw busy();
  if (typeof title === "string" && (await freeTitle(tx, row, title)) !== title) throw titleTaken(title);
  const set = {
    ...(title === undefined ? {} : { title }),
    ...(model === undefined ? {} : { model }),
    ...(cwd === undefined ? {} : { cwd }),
  };
  if (Object.keys(set).length > 0) await tx.update("sessions", { id }, set);
  if (reasoningEffort === undefined) return set;
  await changeSettings(tx, id, { reasoningEffort: reasoningEffort ?? undefined });
  return { ...set, reasoning_effort: reasoningEffort };
}

/** What an undo removed: the number of messages, and the text of the oldest prompt among them. */
export interface Undone {
  readonly removed: number;
  readonly prompt: string;
}

export interface UndoOptions {
  /** Who removes them, for the feed: the name of a key. */
  readonly actor?: string | null;
  /** Gets what is removed, inside the transaction. */
  readonly alsoRecord?: (tx: Tx, undone: Undone) => Promise<void>;
}

export interface BranchOptions {
  /** Title of the branch; default: the next of the parent's. */
  readonly title?: string;
  /** Number of the last message to copy; default: the last complete one. */
  readonly throughSeq?: number;
  /** Copy only this many of the first messages. */
  readonly count?: number;
  readonly source?: string;
  /** Who branches, for the feed: the name of a key. */
  readonly actor?: string;
}
