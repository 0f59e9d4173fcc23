/** The read side of sessions: what the surfaces ask about sessions and their messages. */
import type { SessionRow } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { Message, ToolMessage } from "../message.ts";
import type { NumberedMessage } from "./transcript.ts";

type Reader = Pick<Store, "read">;

/** Returns the saved sessions among these ids. */
export async function readSessions(
  { read }: Reader,
  ids: readonly string[],
): Promise<ReadonlyMap<string, SessionRow>> {
  if (ids.length === 0) return new Map();
  const rows = await read.selectFrom("sessions").selectAll().where("id", "in", ids).execute();
  return new Map(rows.map((row) => [row.id, row]));
}

/** Returns the session key of each saved session among these ids. */
export async function sessionKeys(
  { read }: Reader,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string | null>> {
  const rows = await read
    .selectFrom("sessions")
    .select(["id", "session_key"])
    .where("id", "in", ids)
    .execute();
  return new Map(rows.map(({ id, session_key: key }) => [id, key]));
}

/** Counts the sessions that are kept. */
export async function countStored({ read }: Reader): Promise<number> {
  const row = await read
    .selectFrom("sessions")
    .select(({ fn }) => fn.countAll().as("count"))
    // A literal: with a bound value SQLite does not use the partial index.
    .where((is) => is("transient", "=", is.lit(0)))
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** Returns the sessions among these that have an open question. */
export async function sessionsAsking({ read }: Reader, ids: readonly string[]): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const rows = await read
    .selectFrom("questions")
    .select("session_id")
    .where("session_id", "in", ids)
    .where("status", "=", "open")
    .execute();
  return new Set(rows.map(({ session_id: id }) => id));
}

/** Returns true when every event above `after`, up to `upTo`, is kept. Events expire run by run, so gaps occur anywhere. */
export async function hasAllEvents(
  { read }: Reader,
  { sessionId, after, upTo }: { readonly sessionId: string; readonly after: number; readonly upTo: number },
): Promise<boolean> {
  if (after === upTo) return true;
  const found = await read
    .selectFrom("events")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("session_id", "=", sessionId)
    .where("seq", ">", after)
    .where("seq", "<=", upTo)
    .executeTakeFirst();
  return Number(found?.count ?? 0) === upTo - after;
}

/** Counts the messages of a session. */
export async function countMessages(store: Reader, sessionId: string): Promise<number> {
  return (await messageCounts(store, [sessionId])).get(sessionId) ?? 0;
}

/** Counts the messages of each session. A session without messages is missing from the map. */
export async function messageCounts(
  { read }: Reader,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (sessionIds.length === 0) return new Map();
  const rows = await read
    .selectFrom("messages")
    .select(["session_id", (is) => is.fn.countAll<number | string>().as("count")])
    .where("session_id", "in", sessionIds)
    .groupBy("session_id")
    .execute();
  return new Map(rows.map(({ session_id: id, count }) => [id, Number(count)]));
}

/** Returns the number of the first message that these runs wrote in a session. */
export async function firstMessageOf(
  { read }: Reader,
  sessionId: string,
  runIds: readonly string[],
): Promise<number | undefined> {
  if (runIds.length === 0) return undefined;
  const { first } = await read
    .selectFrom("messages")
    .select((is) => is.fn.min("seq").as("first"))
    .where("session_id", "=", sessionId)
    .where("run_id", "in", runIds)
    .executeTakeFirstOrThrow();
  return first === null ? undefined : Number(first);
}

/** Returns the number of the last message up to and with a run, inside `tx`. Ids of runs sort by time. */
export async function lastMessageThrough(
  tx: Tx,
  sessionId: string,
  runId: string,
): Promise<number | undefined> {
  const { last } = await tx.db
    .selectFrom("messages")
    .select((of) => of.fn.max("seq").as("last"))
    .where("session_id", "=", sessionId)
    .where("run_id", "<=", runId)
    .executeTakeFirstOrThrow();
  return last === null ? undefined : Number(last);
}

/** Which messages of a run to read. */
export interface RunMessages {
  readonly sessionId: string;
  readonly runId: string;
  /** Only messages written until then. */
  readonly untilMs?: number | undefined;
  readonly limit: number;
}

/** Returns the first messages of a run, oldest first. */
export async function messagesOf({ read }: Reader, wanted: RunMessages): Promise<readonly NumberedMessage[]> {
  const { sessionId, runId, untilMs, limit } = wanted;
  const all = read
    .selectFrom("messages")
    .select(["seq", "content"])
    .where("session_id", "=", sessionId)
    .where("run_id", "=", runId);
  const early = untilMs === undefined ? all : all.where("created_at", "<=", untilMs);
  const rows = await early.orderBy("seq").limit(limit).execute();
  return rows.map(({ seq, content }) => ({ seq, message: JSON.parse(content) as Message }));
}

/** Returns the newest answers of the model in a run, newest first. */
export async function answersOf(
  { read }: Reader,
  { sessionId, runId, untilMs, limit }: RunMessages & { readonly untilMs: number },
): Promise<readonly Message[]> {
  const rows = await read
    .selectFrom("messages")
    .select("content")
    .where("session_id", "=", sessionId)
    .where("run_id", "=", runId)
    .where("role", "=", "assistant")
    .where("created_at", "<=", untilMs)
    .orderBy("seq", "desc")
    .limit(limit)
    .execute();
  return rows.map(({ content }) => JSON.parse(content) as Message);
}

/** Returns the tool of each call that the client has to make in a session, by call id, up to and with `throughRun`. */
export async function pendingClientCalls(
  { read }: Reader,
  sessionId: string,
  throughRun?: string,
): Promise<ReadonlyMap<string, string>> {
  const all = read
    .selectFrom("messages")
    .select("content")
    .where("session_id", "=", sessionId)
    .where("role", "=", "tool");
  const rows = await (throughRun === undefined ? all : all.where("run_id", "<=", throughRun)).execute();
  const messages = rows.map(({ content }) => JSON.parse(content) as ToolMessage);
  const pending = messages.filter(({ status }) => status === "pending");
  return new Map(pending.map(({ callId, tool }) => [callId, tool]));
}

/** Deletes a session in which no run was ever submitted. */
export async function deleteUnused(store: Store, sessionId: string): Promise<void> {
  await store.write(async (tx) => {
    if (await tx.find("runs", { session_id: sessionId })) return;
    await tx.db.deleteFrom("messages").where("session_id", "=", sessionId).execute();
    await tx.db.deleteFrom("sessions").where("id", "=", sessionId).execute();
  });
}
