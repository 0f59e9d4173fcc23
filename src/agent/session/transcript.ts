/** The transcript of a session: what a model gets of it, how messages are added, and how full the context is. */
import { ServiceError } from "../../base/errors.ts";
import type { Journal, JournalEvent, NewEvent } from "../../store/journal/journal.ts";
import type { Store, Tx } from "../../store/store.ts";
import { isOneOf } from "../../store/tx/tx.ts";
import type { MessageRow, SessionRow, RunRow } from "../../store/schema/tables.ts";
import type { Message, NumberedMessage } from "../engine.ts";
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { Memo } from "../../base/data.ts";
import { contextTokens } from "../engines/turn.ts";

/** Where the model's context of a session starts. */
export type ContextStart = Pick<SessionRow, "id" | "context_seq" | "summary_seq">;

/** Returns where the context starts now: a session row that a run holds may be older than the last compression. */
export function contextStart(store: Store, sessionId: string): Promise<ContextStart> {
  return store.read
    .selectFrom("sessions")
    .select(["id", "context_seq", "summary_seq"])
    .where("id", "=", sessionId)
    .executeTakeFirstOrThrow();
}

/** Returns the model's context: the summary, if any, then the messages after those that it covers. */
export async function loadContext(store: Store, session: ContextStart): Promise<readonly NumberedMessage[]> {
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
  session: ContextStart,
  messages: readonly Message[],
): Promise<readonly NumberedMessage[] | undefined> {
  const { id, context_seq: after, summary_seq: summarySeq } = session;
  const rows = await store.read
    .selectFrom("messages")
    .select(["seq", "role"])
    // Distinguishes summaries from prompts. Nothing else is read of a text, which may be long.
    .select((row) => {
      const head = row.fn<string>("substr", [row.ref("content"), row.lit(1), row.lit(40)]);
      return row.case().when("role", "=", "user").then(head).else("").end().as("head");
    })
    .where("session_id", "=", id)
    .where("seq", ">", after)
    .orderBy("seq")
    .execute();
  const summary = rows.filter(({ seq }) => seq === summarySeq);
  const rest = rows.filter(({ seq, head }) => seq !== summarySeq && !SUMMARY_HEAD.test(head));
  const ordered = [...summary, ...rest];
  if (ordered.length !== messages.length) return undefined;
  const numbered: NumberedMessage[] = [];
  for (const [index, message] of messages.entries()) {
    const row = ordered[index];
    if (row?.role !== message.role || isSummary(message) !== (row.seq === summarySeq)) return undefined;
    numbered.push({ seq: row.seq, message });
  }
  return numbered;
}

/** The start of a stored summary. One that is not recognised costs a read of the whole context, and no more. */
const SUMMARY_HEAD = /^\{"role":"user","origin":"summary"/;

/**
 * Adds messages to the end of a transcript, inside `tx`. Resolves to the number of the last one. `leasedBy` is a
 * fencing check: ServiceError `session_busy` unless that owner holds the session's lease.
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

/**
 * Adds messages of a run with the events that belong to them, under the session's lease if `leasedBy` names its owner.
 * Resolves to the number of the last message, undefined without messages, and to the numbered events.
 */
export async function addStep(
  { tx, journal }: { readonly tx: Tx; readonly journal: Journal },
  where: { readonly sessionId: string; readonly runId: string; readonly leasedBy?: string },
  { messages, events }: { readonly messages: readonly Message[]; readonly events: readonly NewEvent[] },
): Promise<{ readonly lastMessage: number | undefined; readonly events: readonly JournalEvent[] }> {
  if (events.length === 0) return { lastMessage: await addMessages(tx, where, messages), events: [] };
  if (messages.length === 0) {
    const { sessionId, ...lease } = where;
    return { lastMessage: undefined, events: await journal.append(tx, sessionId, events, lease) };
  }
  const added = await journal.appendStep(tx, where, { events, messages: messages.length });
  await insertMessages(tx, where, { messages, after: added.lastMessage - messages.length });
  return added;
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
    const ids = some.map(([id]) => id);
    const rows = await tx.db
      .updateTable("sessions")
      .set((is) => ({ last_message: is("last_message", "+", count) }))
      .where(isOneOf(tx, "id", ids))
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
  throw new ServiceError("session_busy", "The session is busy. Stop its turn first.");
}

export function isSummary(message: Message): boolean {
  return message.role === "user" && message.origin === "summary";
}

export function toNumbered(row: { readonly seq: number; readonly content: string }): NumberedMessage {
  return { seq: row.seq, message: JSON.parse(row.content) as Message };
}

/** The part of the configuration that every context starts with. */
interface Instructed {
  readonly instructions: string;
}

export interface ContextUse {
  /** Approximate size of the next call's context in tokens; 0 for an empty session. */
  readonly used: number;
  readonly compressions: number;
}

const MAX_KNOWN = 512;
const contexts = new WeakMap<Store, Memo<ContextUse>>();

/** Returns how full a session's context is. Cached until its messages change. */
export function contextUse(
  { store, settings }: { readonly store: Store; readonly settings: Instructed },
  row: SessionRow,
): Promise<ContextUse> {
  const memo = contexts.get(store) ?? new Memo(MAX_KNOWN);
  contexts.set(store, memo);
  const version = [row.last_message, row.context_seq, row.summary_seq, row.updated_at].join(":");
  return memo.get(row.id, version, async () => ({
    used: await contextUsed(store, settings, row),
    compressions: row.context_seq > 0 ? await compressionsOf(store, row.id) : 0,
  }));
}

/** Returns the provider's count of the last call plus an estimate for newer messages, or an estimate for all. */
async function contextUsed(store: Store, settings: Instructed, row: SessionRow): Promise<number> {
  const { id, context_seq: start, summary_seq: summarySeq } = row;
  const counted = await lastCall(store, row);
  if (counted) {
    const { tokens } = await estimateAfter(store, id, counted.seq, () => true);
    return counted.tokens + tokens;
  }
  const isInContext = ({ seq, message }: NumberedMessage) =>
    summarySeq === null || seq === summarySeq || !isSummary(message);
  const { tokens, count } = await estimateAfter(store, id, start, isInContext);
  return count === 0 ? 0 : contextTokens(settings, []) + tokens;
}

/** Messages that are read at once: all of a long session would not fit into memory. */
const PAGE_MESSAGES = 64;

/** Estimates the tokens of the messages after a number. */
async function estimateAfter(
  store: Store,
  sessionId: string,
  start: number,
  isCounted: (message: NumberedMessage) => boolean,
): Promise<{ readonly tokens: number; readonly count: number }> {
  let [tokens, count] = [0, 0];
  for (let after: number | undefined = start; after !== undefined;) {
    const rows = await store.read
      .selectFrom("messages")
      .select(["seq", "content"])
      .where("session_id", "=", sessionId)
      .where("seq", ">", after)
      .orderBy("seq")
      .limit(PAGE_MESSAGES)
      .execute();
    const page = rows.map(toNumbered).filter(isCounted);
    tokens += contextTokens(
      { instructions: "" },
      page.map(({ message }) => message),
    );
    count += page.length;
    after = rows.length < PAGE_MESSAGES ? undefined : rows.at(-1)?.seq;
  }
  return { tokens, count };
}

/** A count is searched in this many of the newest runs: interrupted calls have none. */
const COUNTED_RUNS = 5;

/** Returns the tokens of the newest counted call and its last message; undefined when unknown. */
async function lastCall(
  store: Store,
  { id, context_seq: from }: SessionRow,
): Promise<{ readonly tokens: number; readonly seq: number } | undefined> {
  const runs = await store.read
    .selectFrom("runs")
    .select(["id", "kind", "usage"])
    .where("session_id", "=", id)
    .where("ended_at", "is not", null)
    .where("started_at", "is not", null)
    .orderBy("created_at", "desc")
    .limit(COUNTED_RUNS)
    .execute();
  for (const run of runs) {
    if (run.kind === "compression") return undefined;
    const tokens = run.usage === null ? undefined : await tokensOfLastCall(store, run);
    const seq = tokens === undefined ? undefined : await lastMessageOf(store, id, run.id);
    // Its messages were summarised, forgotten or undone since.
    if (seq !== undefined && seq <= from) return undefined;
    if (tokens !== undefined && seq !== undefined) return { tokens, seq };
  }
  return undefined;
}

/** Returns the number of a run's last message; undefined when it has none. */
async function lastMessageOf(store: Store, sessionId: string, runId: string): Promise<number | undefined> {
  const { max: seq } = await store.read
    .selectFrom("messages")
    .select((is) => is.fn.max("seq").as("max"))
    .where("session_id", "=", sessionId)
    .where("run_id", "=", runId)
    .executeTakeFirstOrThrow();
  return seq === null ? undefined : Number(seq);
}

/** A run's usage sums its calls; subtracts the last total reported before the final call. */
async function tokensOfLastCall(
  store: Store,
  { id, usage }: Pick<RunRow, "id" | "usage">,
): Promise<number | undefined> {
  const whole = JSON.parse(usage ?? "{}") as Partial<RunUsage>;
  const before = await store.read
    .selectFrom("events")
    .select("data")
    .where("run_id", "=", id)
    .where("type", "=", "usage.updated")
    .orderBy("run_seq", "desc")
    .limit(1)
    .executeTakeFirst();
  const reported = before ? (JSON.parse(before.data) as { readonly usage: Partial<RunUsage> }).usage : {};
  const of = (field: "model_calls" | "input_tokens" | "output_tokens") =>
    (whole[field] ?? 0) - (reported[field] ?? 0);
  return of("model_calls") === 1 && of("input_tokens") > 0
    ? of("input_tokens") + of("output_tokens")
    : undefined;
}

/** Counts summaries: each compression writes one. */
async function compressionsOf(store: Store, sessionId: string): Promise<number> {
  const { count } = await store.read
    .selectFrom("messages")
    .select((is) => is.fn.countAll<number | string>().as("count"))
    .where("session_id", "=", sessionId)
    .where("role", "=", "user")
    .where("content", "like", '%"origin":"summary"%')
    .executeTakeFirstOrThrow();
  return Number(count);
}
