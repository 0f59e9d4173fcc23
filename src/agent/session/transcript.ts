import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { MessageRow, SessionRow } from "../../store/schema/tables.ts";
import type { Message } from "../message.ts";

/** A message of the transcript and its permanent number. */
export interface NumberedMessage {
  readonly seq: number;
  readonly message: Message;
}

/** Returns the model's context: the summary, if any, then the messages after those that it covers. */
export async function loadContext(
  store: Store,
  session: Pick<SessionRow, "id" | "context_seq" | "summary_seq">,
): Promise<readonly NumberedMessage[]> {
  const { id, context_seq: after, summary_seq: summarySeq } = session;
  const rows = await store.read
    .selectFrom("messages")
    .select(["seq", "content"])
    .where("session_id", "=", id)
    .where("seq", ">", after)
    .orderBy("seq")
    .execute();
  const messages: NumberedMessage[] = [];
  // Each text is dropped once it is parsed, so that a long conversation is not held twice.
  for (let row = rows.shift(); row; row = rows.shift()) messages.push(toNumbered(row));
  if (summarySeq === null) return messages;
  const summary = messages.find(({ seq }) => seq === summarySeq);
  const rest = messages.filter(({ message }) => !isSummary(message));
  return summary ? [summary, ...rest] : rest;
}

/**
 * As {@link loadContext}, for a caller that has the messages: reads only their numbers. Undefined when the store has other
 * messages.
 */
export async function numberContext(
  store: Store,
  session: Pick<SessionRow, "id" | "context_seq" | "summary_seq">,
  messages: readonly Message[],
): Promise<readonly NumberedMessage[] | undefined> {
  const { id, context_seq: after, summary_seq: summarySeq } = session;
  const rows = await store.read
    .selectFrom("messages")
    .select(["seq", "role"])
    .where("session_id", "=", id)
    .where("seq", ">", after)
    .orderBy("seq")
    .execute();
  const summary = rows.filter(({ seq }) => seq === summarySeq);
  const ordered = [...summary, ...rows.filter(({ seq }) => seq !== summarySeq)];
  if (ordered.length !== messages.length) return undefined;
  const numbered: NumberedMessage[] = [];
  for (const [index, message] of messages.entries()) {
    const row = ordered[index];
    // The store may still hold an earlier summary, which no context contains.
    if (row?.role !== message.role || isSummary(message) !== (row.seq === summarySeq)) return undefined;
    numbered.push({ seq: row.seq, message });
  }
  return numbered;
}

/** Returns a page of the transcript without summaries: newest page first, each page oldest first. */
export async function readTranscript(
  store: Store,
  sessionId: string,
  options: { readonly before?: number; readonly limit?: number } = {},
): Promise<{ readonly messages: readonly NumberedMessage[]; readonly hasMore: boolean }> {
  const { before = Number.MAX_SAFE_INTEGER, limit = 1000 } = options;
  const rows = await store.read
    .selectFrom("messages")
    .select(["seq", "content"])
    .where("session_id", "=", sessionId)
    .where("seq", "<", before)
    .orderBy("seq", "desc")
    .limit(limit + 1)
    .execute();
  const page = rows.slice(0, limit).reverse().map(toNumbered);
  return { messages: page.filter(({ message }) => !isSummary(message)), hasMore: rows.length > limit };
}

/** A message and its run; null without one. */
export interface TranscriptRow extends NumberedMessage {
  readonly runId: string | null;
}

/** Returns a page of all messages after number `after`, oldest first. */
export async function readForward(
  store: Store,
  sessionId: string,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<readonly TranscriptRow[]> {
  const rows = await store.read
    .selectFrom("messages")
    .select(["seq", "run_id", "content"])
    .where("session_id", "=", sessionId)
    .where("seq", ">", after)
    .orderBy("seq")
    .limit(limit)
    .execute();
  return rows.map((row) => ({ ...toNumbered(row), runId: row.run_id }));
}

/**
 * Adds messages to the end of a transcript, inside `tx`. Resolves to the number of the last one. `leasedBy` fences:
 * ServiceError `session_busy` when that owner does not hold the session's lease (any more).
 */
export async function addMessages(
  tx: Tx,
  where: { readonly sessionId: string; readonly runId: string; readonly leasedBy?: string },
  messages: readonly Message[],
): Promise<number | undefined> {
  if (messages.length === 0) return undefined;
  const { sessionId, leasedBy } = where;
  const session = leasedBy === undefined ? { id: sessionId } : { id: sessionId, lease_owner: leasedBy };
  const last = await tx.increment("sessions", session, "last_message", messages.length);
  if (last === undefined && leasedBy !== undefined) {
    throw new ServiceError("session_busy", "Another process has taken this session over (session busy).");
  }
  if (last === undefined) throw new Error(`session ${sessionId} is gone`);
  await insertMessages(tx, where, { messages, after: last - messages.length });
  return last;
}

/** Messages of one run for the transcript of its session. */
export interface RunMessages {
  readonly sessionId: string;
  readonly runId: string;
  readonly messages: readonly Message[];
}

/** As {@link addMessages}, for many runs in a few statements. Those of one session are added in the order given. */
export async function addAllMessages(tx: Tx, adds: readonly RunMessages[]): Promise<void> {
  const counts = new Map<string, number>();
  for (const { sessionId, messages } of adds) {
    if (messages.length > 0) counts.set(sessionId, (counts.get(sessionId) ?? 0) + messages.length);
  }
  const last = await growTranscripts(tx, counts);
  const rows = adds.flatMap(({ sessionId, runId, messages }) => {
    const end = last.get(sessionId);
    if (messages.length === 0) return [];
    if (end === undefined) throw new Error(`session ${sessionId} is gone`);
    const after = end - (counts.get(sessionId) ?? 0);
    counts.set(sessionId, (counts.get(sessionId) ?? 0) - messages.length);
    return messages.map((message, index) =>
      toRow(tx, { sessionId, runId }, { message, seq: after + index + 1 }),
    );
  });
  await tx.insert("messages", rows);
}

/** Reserves message numbers in transcripts; returns the new last number of each. */
async function growTranscripts(
  tx: Tx,
  counts: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  const last = new Map<string, number>();
  for (const [count, some] of Map.groupBy(counts, ([, each]) => each)) {
    const rows = await tx.db
      .updateTable("sessions")
      .set((is) => ({ last_message: is("last_message", "+", count) }))
      .where(
        "id",
        "in",
        some.map(([id]) => id),
      )
      .returning(["id", "last_message"])
      .execute();
    for (const { id, last_message: seq } of rows) last.set(id, seq);
  }
  return last;
}

/** Inserts messages numbered from `after` + 1, inside `tx`; the session's counter already includes them. */
export async function insertMessages(
  tx: Tx,
  where: { readonly sessionId: string; readonly runId: string },
  { messages, after }: { readonly messages: readonly Message[]; readonly after: number },
): Promise<void> {
  const rows = messages.map((message, index) => toRow(tx, where, { message, seq: after + index + 1 }));
  await tx.insert("messages", rows);
}

function toRow(
  { nowMs }: Tx,
  { sessionId, runId }: { readonly sessionId: string; readonly runId: string },
  { message, seq }: NumberedMessage,
): MessageRow {
  return {
    session_id: sessionId,
    seq,
    run_id: runId,
    role: message.role,
    content: JSON.stringify(message),
    created_at: nowMs,
  };
}

/** Empties the model's context, inside `tx`; the transcript stays. ServiceError `session_busy`. */
export async function resetContext(tx: Tx, sessionId: string): Promise<void> {
  const session = await tx.find("sessions", { id: sessionId });
  const set = { context_seq: session?.last_message ?? 0, summary_seq: null };
  if ((await tx.update("sessions", { id: sessionId, lease_owner: null }, set)) === 1) return;
  throw new ServiceError("session_busy", "The session is at work. Stop its turn first.");
}

export function isSummary(message: Message): boolean {
  return message.role === "user" && message.origin === "summary";
}

function toNumbered(row: { readonly seq: number; readonly content: string }): NumberedMessage {
  return { seq: row.seq, message: JSON.parse(row.content) as Message };
}
