/** How a request goes on from a stored response: in its session when it is the first to, else in a branch. */
import { branchSession } from "../../agent/session/sessions.ts";
import { loadContext } from "../../agent/session/transcript.ts";
import type { Message, ToolMessage } from "../../agent/message.ts";
import { isFinalStatus } from "../../agent/run/run.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { ResponseRow, SessionRow } from "../../store/schema/tables.ts";

/** Thrown inside the transaction that would go on in a session when another request has. */
export class Overtaken extends Error {
  override readonly name = "Overtaken";
}

/** Whether a request may go on in the session of `previous`: nothing was said there since. */
export async function isTip(store: Store, previous: ResponseRow): Promise<boolean> {
  if (previous.next_id !== null) return false;
  const later = await store.read
    .selectFrom("runs")
    .select("id")
    .where("session_id", "=", previous.session_id)
    .where("id", ">", previous.run_id)
    .where("kind", "!=", "compression")
    .limit(1)
    .executeTakeFirst();
  return later === undefined;
}

/** Makes `id` the one that goes on from `previous`, inside the transaction that records it. {@link Overtaken}. */
export async function claimNext(tx: Tx, previous: ResponseRow, id: string): Promise<void> {
  const set = { next_id: id, used_at: tx.nowMs };
  if ((await tx.update("responses", { id: previous.id, next_id: null }, set)) === 1) return;
  throw new Overtaken();
}

/**
 * A new session with the conversation up to `previous`; undefined when nothing was said up to there. ServiceError
 * `session_busy` while `previous` is at work: only one request can wait for what it will say.
 */
export async function branchFrom(store: Store, previous: ResponseRow): Promise<SessionRow | undefined> {
  return store.write(async (tx) => {
    const throughSeq = await lastMessage(tx, previous);
    if (throughSeq === undefined) return undefined;
    await tx.update("responses", { id: previous.id }, { used_at: tx.nowMs });
    const { session_id: id, owner } = previous;
    return branchSession(tx, { id, owner, throughSeq, source: "http" });
  });
}

/** Takes a branch away that no run came to be in. */
export async function dropBranch(store: Store, sessionId: string): Promise<void> {
  await store.write(async (tx) => {
    const run = await tx.find("runs", { session_id: sessionId });
    if (run) return;
    await tx.db.deleteFrom("messages").where("session_id", "=", sessionId).execute();
    await tx.db.deleteFrom("sessions").where("id", "=", sessionId).execute();
  });
}

/** What the model would get of the conversation up to `previous`. ServiceError `session_busy` while that is at work. */
export async function contextUpTo(store: Store, previous: ResponseRow): Promise<readonly Message[]> {
  const { throughSeq, session } = await store.write(async (tx) => {
    await tx.update("responses", { id: previous.id }, { used_at: tx.nowMs });
    return {
      throughSeq: await lastMessage(tx, previous),
      session: await tx.find("sessions", { id: previous.session_id }),
    };
  });
  if (throughSeq === undefined || !session) return [];
  const isBehind = session.summary_seq !== null && session.summary_seq <= throughSeq;
  const context = isBehind ? session : { id: session.id, context_seq: 0, summary_seq: null };
  const messages = await loadContext(store, context);
  return messages.filter(({ seq }) => seq <= throughSeq).map(({ message }) => message);
}

/** Number of the last message of the conversation up to `previous`. */
async function lastMessage(tx: Tx, previous: ResponseRow): Promise<number | undefined> {
  const run = await tx.find("runs", { id: previous.run_id });
  if (run && !isFinalStatus(run.status)) {
    throw new ServiceError(
      "session_busy",
      `${previous.id} is still at work, and another request goes on from it. Wait for it to end.`,
      { param: "previous_response_id", retryAfterSeconds: 1 },
    );
  }
  // Ids of runs sort by time. A run that was cancelled before it began said nothing: then what came before counts.
  const { last } = await tx.db
    .selectFrom("messages")
    .select((of) => of.fn.max("seq").as("last"))
    .where("session_id", "=", previous.session_id)
    .where("run_id", "<=", previous.run_id)
    .executeTakeFirstOrThrow();
  return last === null ? undefined : Number(last);
}

/** Names of the tools by the ids of the calls that the client was to make in a session, up to a message. */
export async function clientCalls(
  store: Store,
  sessionId: string,
  throughRun?: string,
): Promise<ReadonlyMap<string, string>> {
  let rows = store.read
    .selectFrom("messages")
    .select("content")
    .where("session_id", "=", sessionId)
    .where("role", "=", "tool");
  if (throughRun !== undefined) rows = rows.where("run_id", "<=", throughRun);
  const messages = (await rows.execute()).map(({ content }) => JSON.parse(content) as ToolMessage);
  const pending = messages.filter(({ status }) => status === "pending");
  return new Map(pending.map(({ callId, tool }) => [callId, tool]));
}
