/** The read side of sessions: what the surfaces ask about sessions and their messages. */
import type { RunToolCall } from "../../../generated/http/client/types.gen.ts";
import type { MessageRow, SessionRow } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { Message, ToolMessage, NumberedMessage, TranscriptRow } from "../engine.ts";
import { firstCharacters } from "../../base/text.ts";
import { idsOfName } from "./session.ts";
import { isSummary, loadContext, toNumbered, type ContextStart } from "./transcript.ts";

/** What the surfaces read of sessions and their messages. */
export class SessionReads {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Returns the saved sessions among these ids. */
  async byId(ids: readonly string[]): Promise<ReadonlyMap<string, SessionRow>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#store.read.selectFrom("sessions").selectAll().where("id", "in", ids).execute();
    return new Map(rows.map((row) => [row.id, row]));
  }

  /**
   * Returns the sessions of all owners whose id clients know as `name`: at most three, since two already say that the
   * owner has to be named.
   */
  async named(name: string): Promise<readonly SessionRow[]> {
    const row = await this.#store.find("sessions", { id: name });
    const [from, to] = idsOfName(name);
    const rows = await this.#store.read
      .selectFrom("sessions")
      .selectAll()
      .where("id", ">=", from)
      .where("id", "<", to)
      .limit(2)
      .execute();
    return row ? [row, ...rows] : rows;
  }

  /** Returns where each saved session among these ids came from. */
  async originsOf(ids: readonly string[]): Promise<ReadonlyMap<string, SessionOrigin>> {
    const rows = await this.#store.read
      .selectFrom("sessions")
      .select(["id", "session_key", "source"])
      .where("id", "in", ids)
      .execute();
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** Returns the sessions among these that have an open question. */
  async asking(ids: readonly string[]): Promise<ReadonlySet<string>> {
    if (ids.length === 0) return new Set();
    const rows = await this.#store.read
      .selectFrom("questions")
      .select("session_id")
      .where("session_id", "in", ids)
      .where("status", "=", "open")
      .execute();
    return new Set(rows.map(({ session_id: id }) => id));
  }

  /** Returns true when every event above `after`, up to `upTo`, is kept. Events expire run by run, so gaps occur anywhere. */
  async hasAllEvents({
    sessionId,
    after,
    upTo,
  }: {
    readonly sessionId: string;
    readonly after: number;
    readonly upTo: number;
  }): Promise<boolean> {
    if (after === upTo) return true;
    const found = await this.#store.read
      .selectFrom("events")
      .select((of) => of.fn.countAll<number>().as("count"))
      .where("session_id", "=", sessionId)
      .where("seq", ">", after)
      .where("seq", "<=", upTo)
      .executeTakeFirst();
    return Number(found?.count ?? 0) === upTo - after;
  }

  /** Counts the messages of a session. */
  async countMessages(sessionId: string): Promise<number> {
    return (await this.messageCounts([sessionId])).get(sessionId) ?? 0;
  }

  /** Counts the messages of each session. A session without messages is missing from the map. */
  async messageCounts(sessionIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    if (sessionIds.length === 0) return new Map();
    const rows = await this.#store.read
      .selectFrom("messages")
      .select(["session_id", (is) => is.fn.countAll<number | string>().as("count")])
      .where("session_id", "in", sessionIds)
      .groupBy("session_id")
      .execute();
    return new Map(rows.map(({ session_id: id, count }) => [id, Number(count)]));
  }

  /** Returns the number of the first message that these runs wrote in a session. */
  async firstMessageOf(sessionId: string, runIds: readonly string[]): Promise<number | undefined> {
    if (runIds.length === 0) return undefined;
    const { first } = await this.#store.read
      .selectFrom("messages")
      .select((is) => is.fn.min("seq").as("first"))
      .where("session_id", "=", sessionId)
      .where("run_id", "in", runIds)
      .executeTakeFirstOrThrow();
    return first === null ? undefined : Number(first);
  }

  /** Returns the first messages of a run, oldest first. */
  async messagesOf(wanted: RunMessages): Promise<readonly NumberedMessage[]> {
    const { sessionId, runId, untilMs, limit } = wanted;
    const all = this.#store.read
      .selectFrom("messages")
      .select(["seq", "content"])
      .where("session_id", "=", sessionId)
      .where("run_id", "=", runId);
    const early = untilMs === undefined ? all : all.where("created_at", "<=", untilMs);
    const rows = await early.orderBy("seq").limit(limit).execute();
    return rows.map(({ seq, content }) => ({ seq, message: JSON.parse(content) as Message }));
  }

  /** Returns the newest answers of the model in a run, newest first. */
  async answersOf({
    sessionId,
    runId,
    untilMs,
    limit,
  }: RunMessages & { readonly untilMs: number }): Promise<readonly Message[]> {
    const rows = await this.#store.read
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

  /** Returns the texts of the messages that completed in the kept events of the millisecond of the first one, oldest first. */
  async textsFrom(
    runId: string,
    { seq, atMs }: { readonly seq: number; readonly atMs: number },
  ): Promise<readonly string[]> {
    const rows = await this.#store.read
      .selectFrom("events")
      .select("data")
      .where("run_id", "=", runId)
      .where("run_seq", ">=", seq)
      .where("type", "=", "message.completed")
      .where("created_at", "<=", atMs)
      .orderBy("run_seq")
      .execute();
    return rows
      .map(({ data }) => String((JSON.parse(data) as { text?: unknown }).text ?? ""))
      .filter(Boolean);
  }

  /** Returns the tool of each call that the client has to make in a session, by call id, up to and with `throughRun`. */
  async pendingClientCalls(sessionId: string, throughRun?: string): Promise<ReadonlyMap<string, string>> {
    const all = this.#store.read
      .selectFrom("messages")
      .select("content")
      .where("session_id", "=", sessionId)
      .where("role", "=", "tool");
    const rows = await (throughRun === undefined ? all : all.where("run_id", "<=", throughRun)).execute();
    const messages = rows.map(({ content }) => JSON.parse(content) as ToolMessage);
    const pending = messages.filter(({ status }) => status === "pending");
    return new Map(pending.map(({ callId, tool }) => [callId, tool]));
  }

  /** Returns the active run of each session among these. */
  async activeRuns(sessionIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (sessionIds.length === 0) return new Map();
    const rows = await this.#store.read
      .selectFrom("runs")
      .select(["id", "session_id"])
      .where("session_id", "in", sessionIds)
      .where("ended_at", "is", null)
      .where("status", "!=", "queued")
      .execute();
    return new Map(rows.map((row) => [row.session_id, row.id]));
  }

  /** A page of the transcript with everything that is stored about its messages. */
  async listMessages(
    sessionId: string,
    page: { readonly order: "asc" | "desc"; readonly after: number | undefined; readonly count: number },
  ): Promise<readonly MessageRow[]> {
    const { order, after, count } = page;
    const all = this.#store.read.selectFrom("messages").selectAll().where("session_id", "=", sessionId);
    const rest = after === undefined ? all : all.where("seq", order === "asc" ? ">" : "<", after);
    return rest.orderBy("seq", order).limit(count).execute();
  }

  /** Returns the folders of an owner's sessions, as stored; null: some have none. */
  async foldersOf(owner: string): Promise<readonly (string | null)[]> {
    const rows = await this.#store.read
      .selectFrom("sessions")
      .select("cwd")
      .distinct()
      .where((is) => is("transient", "=", is.lit(0)))
      .where("owner", "=", owner)
      .limit(MAX_FOLDERS)
      .execute();
    return rows.map(({ cwd }) => cwd);
  }

  /** Returns the start of the first prompt of each session. */
  async previewsOf(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (ids.length === 0) return new Map();
    const rows = await this.#store.read
      .selectFrom("messages")
      .select(["session_id", "content"])
      .where("session_id", "in", ids)
      .where("seq", "<=", FIRST_MESSAGES)
      .where("role", "=", "user")
      .orderBy("seq", "desc")
      .execute();
    return new Map(rows.map(({ session_id, content }) => [session_id, previewOf(content)]));
  }

  /** Returns a page of the transcript without summaries: newest page first, each page oldest first. */
  async transcript(
    sessionId: string,
    options: { readonly before?: number; readonly limit?: number } = {},
  ): Promise<{ readonly messages: readonly NumberedMessage[]; readonly hasMore: boolean }> {
    const { before = Number.MAX_SAFE_INTEGER, limit = 1000 } = options;
    const rows = await this.#store.read
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

  /** Returns a page of all messages after number `after`, oldest first. */
  async messagesAfter(
    sessionId: string,
    { after, limit }: { readonly after: number; readonly limit: number },
  ): Promise<readonly TranscriptRow[]> {
    const rows = await this.#store.read
      .selectFrom("messages")
      .select(["seq", "run_id", "content"])
      .where("session_id", "=", sessionId)
      .where("seq", ">", after)
      .orderBy("seq")
      .limit(limit)
      .execute();
    return rows.map((row) => ({ ...toNumbered(row), runId: row.run_id }));
  }

  /** Returns the model's context of the conversation up to message `throughSeq`; an older summary counts as a message. */
  async contextThrough(session: ContextStart, throughSeq: number): Promise<readonly Message[]> {
    const isBehind = session.summary_seq !== null && session.summary_seq <= throughSeq;
    const context = isBehind ? session : { id: session.id, context_seq: 0, summary_seq: null };
    const messages = await loadContext(this.#store, context);
    return messages.filter(({ seq }) => seq <= throughSeq).map(({ message }) => message);
  }

  /** Returns the newest runs of an owner that ended because their client makes the call `callId`. */
  async findRunsWaiting({
    owner,
    callId,
  }: {
    readonly owner: string;
    readonly callId: string;
  }): Promise<readonly { readonly id: string; readonly sessionId: string }[]> {
    const rows = await this.#store.read
      .selectFrom("runs")
      .select(["id", "session_id", "required_action"])
      .where("owner", "=", owner)
      .where("status", "=", "completed")
      .where("required_action", "is not", null)
      .orderBy("id", "desc")
      .limit(MAX_WAITING)
      .execute();
    const waiting = rows.filter(({ required_action: action }) => {
      const { tool_calls: calls } = JSON.parse(action ?? "{}") as {
        readonly tool_calls?: readonly RunToolCall[];
      };
      return calls?.some(({ id }) => id === callId) ?? false;
    });
    return waiting.map(({ id, session_id: sessionId }) => ({ id, sessionId }));
  }

  /** Returns the number of the last message up to and with a run, inside `tx`. Ids of runs sort by time. */
  async lastMessageThrough(tx: Tx, sessionId: string, runId: string): Promise<number | undefined> {
    const { last } = await tx.db
      .selectFrom("messages")
      .select((of) => of.fn.max("seq").as("last"))
      .where("session_id", "=", sessionId)
      .where("run_id", "<=", runId)
      .executeTakeFirstOrThrow();
    return last === null ? undefined : Number(last);
  }

  /** Returns the sessions among these ids that a process has leased. */
  leased(ids: readonly string[]): Promise<SessionRow[]> {
    return this.#store.read
      .selectFrom("sessions")
      .selectAll()
      .where("id", "in", ids)
      .where("lease_owner", "is not", null)
      .execute();
  }
}

/** The key of a session, and the surface that created it. */
export type SessionOrigin = Pick<SessionRow, "session_key" | "source">;

/** Which messages of a run to read. */
export interface RunMessages {
  readonly sessionId: string;
  readonly runId: string;
  /** Only messages written until then. */
  readonly untilMs?: number | undefined;
  readonly limit: number;
}

export interface ListOptions {
  /** Absent: of all owners. */
  readonly owner?: string;
  /** True: also the sessions of other owners, of single requests and of sub-agents. */
  readonly all?: boolean;
  /** At most 200; default 50. */
  readonly limit?: number;
  readonly cursor?: string;
  readonly source?: string;
  /** Only sessions of these sources. */
  readonly sources?: readonly string[];
  /** Only sessions in one of these folders, as stored; null: sessions without a folder. */
  readonly folders?: readonly (string | null)[];
  /** True: only sessions with a user message. */
  readonly prompted?: boolean;
  /** Only sessions that changed later than this. */
  readonly afterMs?: number;
  /** Only sessions with exactly this title. */
  readonly title?: string;
  /** Only sessions whose title has this text, whatever its case, or whose id is this. */
  readonly text?: string;
  /** Only sessions that changed at `fromMs` or later, and before `toMs`. */
  readonly fromMs?: number;
  readonly toMs?: number;
  readonly statuses?: readonly SessionActivity[];
  /** True: also sessions of sub-agents and of background work. */
  readonly internal?: boolean;
  /** True: also sessions of single requests. */
  readonly stateless?: boolean;
  /** Where the cursor came from, for its error. Default: cursor. */
  readonly cursorParam?: string;
}

/** waiting: a question is open; running: a run is active or queued. */
export type SessionActivity = "idle" | "running" | "waiting";

const PREVIEW_CHARACTERS = 80;

const MAX_FOLDERS = 10_000;

/** The first prompt is among these; instructions may come before it. */
const FIRST_MESSAGES = 4;

function previewOf(content: string): string {
  const { text } = JSON.parse(content) as { readonly text: string };
  return firstCharacters(text.replace(/\s+/g, " ").trim(), PREVIEW_CHARACTERS);
}

/** Newest runs among which one that waits for a call is searched. */
const MAX_WAITING = 200;
