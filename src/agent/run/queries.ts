/** The read side of runs: what the surfaces ask about runs, their events and their questions. */
import type { RunTrace } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { EventRow, QuestionRow, RunRow } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";
import {
  type Submitted,
  isFinalStatus,
  runViewColumns,
  type RunStatus,
  type RunView,
  parseInput,
} from "./run.ts";
import { redact } from "../../base/observe.ts";
import { headOf } from "../../base/text.ts";
import { textOf } from "../session/session.ts";
import { listRunIds, triggersOf, type RunPage } from "./list-queries.ts";

/** What the surfaces read of runs, their events and their questions. */
export class RunReads {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Returns true when the run has ended, and when it is no longer stored. */
  async isFinal(runId: string): Promise<boolean> {
    const run = await this.#store.find("runs", { id: runId });
    return run === undefined || isFinalStatus(run.status);
  }

  /** Reads what the submission of a stored run returned; undefined when the run is gone. */
  async findSubmission(runId: string): Promise<StoredSubmission | undefined> {
    const run = await this.#store.find("runs", { id: runId });
    const session = run && (await this.#store.find("sessions", { id: run.session_id }));
    if (!run || !session) return undefined;
    return {
      runId,
      sessionId: session.id,
      sessionKey: session.session_key,
      model: run.model,
      createdAtMs: run.created_at,
      status: run.status === "queued" ? "queued" : "running",
      owner: run.owner,
      runStatus: run.status as RunStatus,
    };
  }

  /** Returns the runs of these ids, newest first. */
  async byId(ids: readonly string[]): Promise<RunView[]> {
    if (ids.length === 0) return [];
    const runs = this.#store.read.selectFrom("runs").select(runViewColumns).where("id", "in", ids);
    return runs.orderBy("id", "desc").execute();
  }

  /** Returns the open questions of these runs, oldest first. */
  async openQuestionsOf(runIds: readonly string[]): Promise<QuestionRow[]> {
    if (runIds.length === 0) return [];
    return this.#store.read
      .selectFrom("questions")
      .selectAll()
      .where("run_id", "in", runIds)
      .where("status", "=", "open")
      .orderBy("created_at")
      .orderBy("id")
      .execute();
  }

  /** Returns the ids of the runs that wait in a session's queue. */
  async queuedIn(sessionId: string): Promise<readonly string[]> {
    const rows = await this.#store.read
      .selectFrom("runs")
      .select("id")
      .where("session_id", "=", sessionId)
      .where("status", "=", "queued")
      .execute();
    return rows.map(({ id }) => id);
  }

  /** Returns true when a run other than a compression came after this one in its session. */
  async hasLaterRun(sessionId: string, runId: string): Promise<boolean> {
    const later = await this.#store.read
      .selectFrom("runs")
      .select("id")
      .where("session_id", "=", sessionId)
      .where("id", ">", runId)
      .where("kind", "!=", "compression")
      .limit(1)
      .executeTakeFirst();
    return later !== undefined;
  }

  /** Finds a sub-agent of `owner` that has not ended. */
  async findOpenSubagent(id: string, owner: string): Promise<RunRow | undefined> {
    const run = await this.#store.find("runs", { id });
    const isOpen = run?.owner === owner && run.parent_id !== null && run.ended_at === null;
    return isOpen ? run : undefined;
  }

  /** Counts the tool calls that each of the runs started. */
  async countToolCalls(runIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    if (runIds.length === 0) return new Map();
    const rows = await this.#store.read
      .selectFrom("events")
      .select((db) => ["run_id", db.fn.countAll<number>().as("count")])
      .where("run_id", "in", runIds)
      .where("type", "=", "tool.started")
      .groupBy("run_id")
      .execute();
    return new Map(rows.map(({ run_id: id, count }) => [id ?? "", Number(count)]));
  }

  /** Returns the start of each run's prompt. */
  async inputPreviews(runIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (runIds.length === 0) return new Map();
    const rows = await this.#store.read
      .selectFrom("runs")
      .select(["id", "input_preview"])
      .where("id", "in", runIds)
      .execute();
    return new Map(rows.map(({ id, input_preview: text }) => [id, text ?? ""]));
  }

  /**
   * Finds the first kept event of a run; undefined when none is kept. Steering events do not count: they may be kept from
   * before that event, because recovery needs them.
   */
  async firstKept(runId: string): Promise<FirstKept | undefined> {
    const row = await this.#store.read
      .selectFrom("events")
      .select(["run_seq", "created_at"])
      .where("run_id", "=", runId)
      .where("type", "not in", ["run.steer_accepted", "run.steered"])
      .orderBy("run_seq")
      .limit(1)
      .executeTakeFirst();
    return row?.run_seq == null ? undefined : { seq: row.run_seq, atMs: row.created_at };
  }

  /** Returns the events of a run of these types, the oldest first. */
  async #eventsOfTypes(
    runId: string,
    { types, limit }: { readonly types: readonly string[]; readonly limit: number },
  ): Promise<readonly Pick<JournalEvent, "type" | "atMs" | "data">[]> {
    const rows = await this.#store.read
      .selectFrom("events")
      .select(["type", "data", "created_at"])
      .where("run_id", "=", runId)
      .where("type", "in", types)
      .orderBy("run_seq")
      .limit(limit)
      .execute();
    return rows.map(({ type, data, created_at: atMs }) => ({ type, atMs, data: JSON.parse(data) }));
  }

  /** Returns the text of a run's last message, as far as its deltas are kept. */
  async lastMessageText(runId: string): Promise<string> {
    const rows = await this.#store.read
      .selectFrom("events")
      .select(["type", "data"])
      .where("run_id", "=", runId)
      .where("type", "in", ["message.started", "message.delta"])
      .orderBy("run_seq", "desc")
      .limit(MAX_DELTAS)
      .execute();
    const start = rows.findIndex(({ type }) => type === "message.started");
    return joinDeltas(start < 0 ? rows : rows.slice(0, start));
  }

  /** Returns the text that a run had streamed when its session's event `upTo` was written. */
  async streamedText(runId: string, upTo: number): Promise<string> {
    const rows = await this.#store.read
      .selectFrom("events")
      .select("data")
      .where("run_id", "=", runId)
      .where("type", "=", "message.delta")
      .where("seq", "<=", upTo)
      .orderBy("run_seq", "desc")
      .limit(MAX_DELTAS)
      .execute();
    return joinDeltas(rows);
  }

  /** Returns the run that had started at this position and had not ended; undefined for none, and for a compression. */
  async runAt({ sessionId, upTo }: JournalPosition): Promise<string | undefined> {
    const started = await this.#store.read
      .selectFrom("events")
      .select(["run_id", "data"])
      .where("session_id", "=", sessionId)
      .where("seq", "<=", upTo)
      .where("type", "=", "run.started")
      .orderBy("seq", "desc")
      .limit(1)
      .executeTakeFirst();
    const runId = started?.run_id ?? undefined;
    const { kind } = JSON.parse(started?.data ?? "{}") as { readonly kind?: string };
    if (runId === undefined || kind === "compression") return undefined;
    const ended = await this.#store.read
      .selectFrom("events")
      .select("seq")
      .where("run_id", "=", runId)
      .where("type", "in", FINAL_TYPES)
      .where("seq", "<=", upTo)
      .executeTakeFirst();
    return ended ? undefined : runId;
  }

  /** Returns the runs that started after this position, oldest first. */
  async runsStartedAfter({ sessionId, upTo }: JournalPosition): Promise<readonly string[]> {
    const started = await this.#store.read
      .selectFrom("events")
      .select("run_id")
      .where("session_id", "=", sessionId)
      .where("seq", ">", upTo)
      .where("type", "=", "run.started")
      .orderBy("seq")
      .limit(MAX_LATER)
      .execute();
    return started.flatMap(({ run_id: runId }) => runId ?? []);
  }

  /** Returns the newest `limit` events of these types up to a position, oldest first. */
  async eventsUpTo(
    { sessionId, upTo }: JournalPosition,
    { types, limit }: { readonly types: readonly string[]; readonly limit: number },
  ): Promise<readonly JournalEvent[]> {
    const rows = await this.#store.read
      .selectFrom("events")
      .selectAll()
      .where("session_id", "=", sessionId)
      .where("seq", "<=", upTo)
      .where("type", "in", types)
      .orderBy("seq", "desc")
      .limit(limit)
      .execute();
    return rows.reverse().map(toJournalEvent);
  }

  /**
   * Returns the sub-agents of `owner` that have not ended, oldest first; with `rootSessionId` only those that work for
   * this session.
   */
  async activeSubagents(where: {
    readonly owner: string;
    readonly rootSessionId?: string;
  }): Promise<readonly Subagent[]> {
    const rows = await this.#store.read
      .selectFrom("runs")
      .selectAll()
      .where("parent_id", "is not", null)
      .where("owner", "=", where.owner)
      .where("ended_at", "is", null)
      .orderBy("created_at")
      .limit(MAX_LISTED)
      .execute();
    const all = rows.map((row) => ({ row, family: parseInput(row).family }));
    return all
      .filter(
        ({ family }) => where.rootSessionId === undefined || family?.root.sessionId === where.rootSessionId,
      )
      .map(({ row }) => describe(row));
  }

  /** Returns all sub-agents below a run, parents before children. */
  async subagentsOf(runId: string): Promise<readonly Subagent[]> {
    const found: Subagent[] = [];
    let parents = [runId];
    while (parents.length > 0 && found.length < MAX_LISTED) {
      const rows = await this.#store.read
        .selectFrom("runs")
        .selectAll()
        .where("parent_id", "in", parents)
        .orderBy("created_at")
        .orderBy("id")
        .limit(MAX_LISTED - found.length)
        .execute();
      found.push(...rows.map(describe));
      parents = rows.map(({ id }) => id);
    }
    return found;
  }

  /** Returns the ids of a page of runs, newest first. */
  listIds(page: RunPage): Promise<readonly string[]> {
    return listRunIds(this.#store, page);
  }

  /** Returns what triggered each of these runs, a webhook delivery or an occurrence of a job, by run. */
  triggersOf(runIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    return triggersOf(this.#store, runIds);
  }

  /** Returns the steps of a run, with the texts of its calls and answers where `hasContent`. */
  async trace(run: RunView, { hasContent }: { readonly hasContent: boolean }): Promise<RunTrace> {
    const { TRACE_EVENTS, traceOf } = await import("./trace.ts");
    const found = await this.#eventsOfTypes(run.id, { types: TRACE_EVENTS, limit: MAX_TRACED + 1 });
    const first = await this.firstKept(run.id);
    const isTruncated = found.length > MAX_TRACED || (run.last_seq > 0 && first?.seq !== 1);
    return traceOf(run, { events: found.slice(0, MAX_TRACED), isTruncated, hasContent });
  }

  /** Returns the starts and ends of the tool calls of these runs that the journal still holds, in their order. */
  async toolEventsOf(runIds: readonly string[]): Promise<ToolEvent[]> {
    if (runIds.length === 0) return [];
    const rows = await this.#store.read
      .selectFrom("events")
      .select(["run_id", "type", "data", "run_seq"])
      .where("run_id", "in", runIds)
      .where("type", "in", ["tool.started", "tool.completed"])
      .orderBy("run_id")
      .orderBy("run_seq")
      .execute();
    return rows.map(({ run_id: runId, type, data, run_seq: runSeq }) => ({
      runId: runId ?? "",
      type: type as ToolEvent["type"],
      runSeq: runSeq ?? 0,
      data: JSON.parse(data) as JournalEvent["data"],
    }));
  }
}

/** A `tool.started` or `tool.completed` event of a run. */
interface ToolEvent {
  readonly runId: string;
  readonly type: "tool.started" | "tool.completed";
  readonly runSeq: number;
  readonly data: JournalEvent["data"];
}

/** Events of a run that a trace has at most. */
const MAX_TRACED = 5_000;

/** A run as `Turns.submit` returned it, with its status as it is now. */
interface StoredSubmission extends Submitted {
  readonly owner: string;
  readonly runStatus: RunStatus;
}

/** The first event from which on a run's events are complete. */
interface FirstKept {
  readonly seq: number;
  readonly atMs: number;
}

const MAX_DELTAS = 5_000;

/** `rows` are newest first. */
function joinDeltas(rows: readonly { readonly data: string }[]): string {
  const deltas = rows.map(({ data }) => (JSON.parse(data) as { readonly delta: string }).delta);
  return deltas.reverse().join("");
}

/** A position in a session's journal. */
interface JournalPosition {
  readonly sessionId: string;
  readonly upTo: number;
}

const FINAL_TYPES = ["run.completed", "run.failed", "run.cancelled", "run.interrupted"];

/** Runs that start while a client reads a session. */
const MAX_LATER = 64;

function toJournalEvent(row: EventRow): JournalEvent {
  return {
    sessionId: row.session_id,
    seq: row.seq,
    runId: row.run_id,
    runSeq: row.run_seq,
    type: row.type,
    data: JSON.parse(row.data) as Record<string, unknown>,
    atMs: row.created_at,
  };
}

/** A sub-agent as its run describes it. */
interface Subagent {
  readonly subagentId: string;
  readonly parentId: string;
  readonly sessionId: string;
  readonly depth: number;
  readonly goal: string;
  readonly model: string;
  readonly status: RunStatus;
  readonly createdAtMs: number;
  readonly startedAtMs: number | null;
  readonly endedAtMs: number | null;
}

const MAX_LISTED = 500;

export const MAX_GOAL_CHARACTERS = 1_000;

function describe(row: RunRow): Subagent {
  const { prompt, family } = parseInput(row);
  const last = prompt.at(-1);
  return {
    subagentId: row.id,
    parentId: row.parent_id ?? "",
    sessionId: row.session_id,
    depth: family?.depth ?? 1,
    goal: last ? headOf(redact(textOf(last)), MAX_GOAL_CHARACTERS) : "",
    model: row.model,
    status: row.status as RunStatus,
    createdAtMs: row.created_at,
    startedAtMs: row.started_at,
    endedAtMs: row.ended_at,
  };
}

/**
 * Counts the sessions of a key with an open run: active or waiting for a permit. Runs queued behind it, sub-agents,
 * and runs without a key do not count.
 */
export async function countAtWork(tx: Tx, key: string): Promise<number> {
  const counted = await tx.db
    .selectFrom("runs")
    .select((runs) => runs.fn.count("session_id").distinct().as("count"))
    .where((is) => is(is.fn.coalesce("key", "owner"), "=", key))
    .where("ended_at", "is", null)
    .where("kind", "!=", "subagent")
    .where("reply_to", "is", null)
    .executeTakeFirst();
  return Number(counted?.count ?? 0);
}
