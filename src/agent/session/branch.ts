import { ServiceError } from "../../base/errors.ts";
import type { Tx } from "../../store/store.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import { newSession, sessionNotFound } from "./session.ts";
import { cleanTitle, freeTitle } from "./title.ts";

export interface BranchOptions {
  /** Title of the branch; default: the next of the parent's. */
  readonly title?: string;
  /** Number of the last message to take; default: the last complete one. */
  readonly throughSeq?: number;
  /** Take only so many of the first messages. */
  readonly count?: number;
  readonly source?: string;
}

/**
 * Copies a conversation, up to a message, into a new session of the same line, inside `tx`. What a turn at work has
 * said so far is not taken; a tool call goes with its answers. The new session has the parent's model, effort, mode and
 * directory, and nobody's leave. ServiceError `session_not_found`, `nothing_to_branch`.
 */
export async function branchSession(
  tx: Tx,
  from: BranchOptions & { readonly id: string; readonly owner: string },
): Promise<SessionRow> {
  const parent = await tx.find("sessions", { id: from.id });
  if (parent?.owner !== from.owner) throw sessionNotFound(from.id);
  const last = await lastTaken(tx, parent, from);
  if (last === undefined) {
    throw new ServiceError("nothing_to_branch", "The session has no messages yet (nothing to branch).");
  }
  const row = await newBranch(tx, parent, { ...from, last });
  await tx.insert("sessions", [row]);
  await tx.db
    .insertInto("messages")
    .columns(["session_id", "seq", "run_id", "role", "content", "created_at"])
    .expression((is) =>
      is
        .selectFrom("messages")
        .select((of) => [of.val(row.id).as("session_id"), "seq", "run_id", "role", "content", "created_at"])
        .where("session_id", "=", parent.id)
        .where("seq", "<=", last),
    )
    .execute();
  return row;
}

async function newBranch(
  tx: Tx,
  parent: SessionRow,
  from: BranchOptions & { readonly last: number },
): Promise<SessionRow> {
  const root = parent.root_id ?? parent.id;
  const made = newSession({ owner: parent.owner }, { source: from.source ?? parent.source }, tx.nowMs);
  const row: SessionRow = {
    ...made,
    model: parent.model,
    cwd: parent.cwd,
    meta: withoutLeave(parent.meta),
    transient: 0,
    parent_id: parent.id,
    root_id: root,
    last_message: from.last,
    ...contextOf(parent, from.last),
  };
  const wanted = from.title === undefined ? parent.title : cleanTitle(from.title);
  const title = wanted === null ? null : await freeTitle(tx, row, wanted);
  return { ...row, title };
}

/** A branch before the last compression has its messages as they were. */
function contextOf(parent: SessionRow, last: number): Pick<SessionRow, "context_seq" | "summary_seq"> {
  const isBehind = parent.summary_seq !== null && parent.summary_seq <= last;
  return isBehind
    ? { context_seq: parent.context_seq, summary_seq: parent.summary_seq }
    : { context_seq: 0, summary_seq: null };
}

function withoutLeave(meta: string): string {
  const { yolo: _, ...rest } = JSON.parse(meta) as Record<string, unknown>;
  return JSON.stringify(rest);
}

/** Number of the last message that goes into the branch; undefined: there is none. */
async function lastTaken(
  tx: Tx,
  parent: SessionRow,
  { throughSeq, count }: BranchOptions,
): Promise<number | undefined> {
  const rows = await tx.db
    .selectFrom("messages")
    .leftJoin("runs", "runs.id", "messages.run_id")
    .select(["messages.seq", "messages.role", "messages.run_id", "runs.ended_at", "runs.id as run"])
    .where("messages.session_id", "=", parent.id)
    .orderBy("messages.seq")
    .execute();
  // Runs are swept some time after they ended; a message without one belongs to no turn at work.
  const complete = rows.filter(({ run, ended_at }) => run === null || ended_at !== null);
  const until = complete.findLastIndex(
    ({ seq }, index) =>
      (throughSeq === undefined || seq <= throughSeq) && (count === undefined || index < count),
  );
  if (until < 0) return undefined;
  let last = until;
  // A later turn may begin with what a client answers to a call: that is not this message's.
  const isAnswer = (at: number) =>
    complete[at]?.role === "tool" && complete[at]?.run_id === complete[until]?.run_id;
  while (isAnswer(last + 1)) last++;
  return complete[last]?.seq;
}
