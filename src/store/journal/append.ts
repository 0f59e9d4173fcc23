import { ServiceError } from "../../base/errors.ts";
import type { ChangedRun } from "../feed/change.ts";
import type { JournalEvent, NewEvent, RunEnd, RunEnded, SessionEvents } from "./journal.ts";
import { stepTexts, rawTx, toValue, type RawTx, type Row, type StepTexts, type Tx } from "../tx/tx.ts";
import type { EventRow, RunRow, SessionRow } from "../schema/tables.ts";

/** Steps of a session without a lease, and of one under a lease. */
const SESSION_STEPS_OF_ONE = {
  events: oneSession(["last_seq"]),
  both: oneSession(["last_seq", "last_message"]),
};
const RUN_STEP = stepTexts(
  "runs",
  { id: "", session_id: "" },
  { columns: ["last_seq"], set: ["last_event", "updated_at"] },
);

const SESSION_END = stepTexts(
  "sessions",
  { id: "", lease_owner: "" },
  {
    columns: ["last_seq", "last_message", "queued"],
    assignments: [
      "lease_owner = case when queued = 0 then null else lease_owner end",
      "lease_until = case when queued = 0 then 0 else lease_until end",
      "updated_at = case when queued = 0 then ? else updated_at end",
    ],
  },
);
const runEnds = new Map<string, StepTexts>();

/** Returns the texts that end a run and set these columns: there are as many as kinds of ends. */
function runEnd(columns: readonly string[]): StepTexts {
  const shape = columns.join();
  let texts = runEnds.get(shape);
  if (!texts) {
    const where = { id: "", session_id: "", ended_at: null };
    texts = stepTexts("runs", where, { columns: ["last_seq"], set: columns });
    runEnds.set(shape, texts);
  }
  return texts;
}

function oneSession(columns: readonly string[]) {
  return {
    free: stepTexts("sessions", { id: "" }, { columns }),
    leased: stepTexts("sessions", { id: "", lease_owner: "" }, { columns }),
  };
}

// Rows as JSON: one statement, prepared once, for any number of rows.
const SESSION_STEPS = {
  sqlite: stepsText("sessions", {
    rows: "select value ->> 'id' as id, value ->> 'by' as steps from json_each(?)",
    set: "",
    where: "",
  }),
  postgres: stepsText("sessions", {
    rows: `select id, "by" as steps from json_to_recordset(?::text::json) as step(id text, "by" integer)`,
    set: "",
    where: "",
  }),
};
const IN_SESSION = {
  set: ", last_event = given.type, updated_at = ?",
  where: " and runs.session_id = given.session",
};
const RUN_STEPS = {
  sqlite: stepsText("runs", {
    rows:
      "select value ->> 'id' as id, value ->> 'session' as session, value ->> 'by' as steps, " +
      "value ->> 'type' as type from json_each(?)",
    ...IN_SESSION,
  }),
  postgres: stepsText("runs", {
    rows:
      `select id, session, "by" as steps, type from json_to_recordset(?::text::json) ` +
      `as step(id text, session text, "by" integer, type text)`,
    ...IN_SESSION,
  }),
};

function stepsText(
  table: "sessions" | "runs",
  { rows, set, where }: { readonly rows: string; readonly set: string; readonly where: string },
): string {
  return (
    `update ${table} set last_seq = last_seq + given.steps${set} from (${rows}) as given ` +
    `where ${table}.id = given.id${where} returning ${table}.id, ${table}.last_seq`
  );
}

/** Numbers and writes events, see {@link Journal.append}. */
export async function appendEvents(
  tx: Tx,
  sessionId: string,
  events: readonly NewEvent[],
  { leasedBy }: { readonly leasedBy?: string } = {},
): Promise<readonly JournalEvent[]> {
  if (events.length === 0) return [];
  return (await appendStep(tx, { sessionId, leasedBy }, { events, messages: 0 })).events;
}

/** Numbers and writes events and numbers messages, see {@link Journal.appendStep}. */
export async function appendStep(
  tx: Tx,
  { sessionId, leasedBy }: { readonly sessionId: string; readonly leasedBy?: string | undefined },
  { events, messages }: { readonly events: readonly NewEvent[]; readonly messages: number },
): Promise<{ readonly events: readonly JournalEvent[]; readonly lastMessage: number }> {
  const raw = rawTx(tx);
  const texts = SESSION_STEPS_OF_ONE[messages > 0 ? "both" : "events"];
  const by = messages > 0 ? [events.length, messages] : [events.length];
  // The session first, always: its row lock orders the appends of all processes, so numbers commit in order.
  const taking =
    leasedBy === undefined
      ? raw.step(texts.free, by, { where: [sessionId] })
      : raw.step(texts.leased, by, { where: [sessionId, leasedBy] });
  // Awaited together: when one fails so does the other, and neither rejection may stay unhandled.
  const [lasts, runSeqs] = await Promise.all([taking, takeRuns(raw, sessionId, events)]);
  if (lasts === undefined && leasedBy !== undefined) {
    throw new ServiceError("session_busy", "Another process has taken this session over.");
  }
  if (lasts === undefined) throw sessionNotFound(sessionId);
  const [last = 0, lastMessage = 0] = lasts;
  const numbered = number(tx, sessionId, { events, after: last - events.length, runSeqs });
  await tx.insert("events", numbered.map(toRow));
  recordChanges(tx, numbered);
  return { events: numbered, lastMessage };
}

/** Ends a run with its last events, see {@link Journal.end}. */
export async function appendEnd(
  tx: Tx,
  { sessionId, leasedBy }: { readonly sessionId: string; readonly leasedBy: string },
  { runId, run, columns, events, messages }: RunEnd,
): Promise<RunEnded | undefined> {
  const raw = rawTx(tx);
  const named = Object.entries({ ...columns, last_event: events.at(-1)?.type });
  const texts = runEnd(named.map(([name]) => name));
  const set = named.map(([name, value]) => toValue(value, name));
  const runLast = (await raw.step(texts, [events.length], { where: [runId, sessionId], set }))?.[0];
  if (runLast === undefined) return undefined;
  const where = [sessionId, leasedBy];
  const lasts = await raw.step(SESSION_END, [events.length, messages, 0], { where, set: [tx.nowMs] });
  if (lasts === undefined) {
    throw new ServiceError("session_busy", "Another process has taken this session over.");
  }
  const [last = 0, lastMessage = 0, queued] = lasts;
  const runSeqs = new Map([[runId, runLast - events.length]]);
  const numbered = number(tx, sessionId, { events, after: last - events.length, runSeqs });
  await tx.insert("events", numbered.map(toRow));
  recordChanges(tx, numbered, run);
  return { events: numbered, lastMessage, isReleased: queued === 0 };
}

/** Numbers and writes events of many sessions, see {@link Journal.appendAll}. */
export async function appendAllEvents(
  tx: Tx,
  appends: readonly SessionEvents[],
): Promise<readonly SessionEvents<JournalEvent>[]> {
  const bySession = Map.groupBy(appends, ({ sessionId }) => sessionId);
  const wanted = Array.from(bySession, ([sessionId, some]) => ({
    sessionId,
    events: some.flatMap(({ events }) => events),
  })).filter(({ events }) => events.length > 0);
  if (wanted.length === 0) return [];
  const raw = rawTx(tx);
  // The sessions first, as everywhere. Awaited together: when one fails so does the other.
  const [lasts, runSeqs] = await Promise.all([takeSessions(raw, wanted), takeAllRuns(raw, wanted)]);
  const numbered = wanted.map(({ sessionId, events }) => {
    const last = lasts.get(sessionId);
    if (last === undefined) throw sessionNotFound(sessionId);
    return { sessionId, events: number(tx, sessionId, { events, after: last - events.length, runSeqs }) };
  });
  await tx.insert("events", numbered.flatMap(({ events }) => events).map(toRow));
  for (const { events } of numbered) recordChanges(tx, events);
  return numbered;
}

/** Writes a new session and its first run with the events that open them, see {@link Journal.begin}. */
export async function beginSession(
  tx: Tx,
  rows: { readonly session: SessionRow; readonly run: RunRow },
  events: readonly NewEvent[],
): Promise<readonly JournalEvent[]> {
  const { id: sessionId } = rows.session;
  const numbered = events.map(({ type, runId, data }, index): JournalEvent => {
    return { sessionId, seq: index + 1, runId, runSeq: index + 1, type, data, atMs: tx.nowMs };
  });
  const counted = { last_seq: events.length };
  await tx.insert("sessions", [{ ...rows.session, ...counted }]);
  const { owner, transient, source } = rows.session;
  const { key, kind } = rows.run;
  if (transient === 0) tx.record({ type: "session.created", ref: sessionId, owner, data: {}, actor: key });
  await tx.insert("runs", [{ ...rows.run, ...counted, last_event: events.at(-1)?.type ?? null }]);
  if (numbered.length > 0) await tx.insert("events", numbered.map(toRow));
  recordChanges(tx, numbered, { owner: rows.run.owner, key, kind, session_id: sessionId, source });
  return numbered;
}

/** The status of a run after each of these events. */
const RUN_STATUS: Readonly<Record<string, string | undefined>> = {
  "run.queued": "queued",
  "run.started": "running",
  "run.completed": "completed",
  "run.failed": "failed",
  "run.cancelled": "cancelled",
  "run.interrupted": "interrupted",
};
const QUESTION = /^(approval|clarify|sudo|secret)\.(request|responded|expired)$/;

/**
 * Records what events change of runs and questions. Most events, such as deltas, change nothing. `run`: all events are of
 * this run.
 */
function recordChanges(tx: Tx, events: readonly JournalEvent[], run?: ChangedRun): void {
  let isNew = false;
  for (const [index, { type, runId, runSeq, data }] of events.entries()) {
    if (runId === null) continue;
    const status = RUN_STATUS[type];
    if (status !== undefined) {
      isNew ||= runSeq === 1;
      const next = events[index + 1];
      // A run that starts at once is created running: what is not committed is not a state.
      if (next?.runId === runId && RUN_STATUS[next.type] !== undefined) continue;
      tx.record({ type: isNew ? "run.created" : "run.updated", ref: runId, runId, run, data: { status } });
      isNew = false;
      continue;
    }
    const question = type.length > MAX_QUESTION_TYPE ? null : QUESTION.exec(type);
    if (question) recordQuestion(tx, runId, { kind: question[1] ?? "", what: question[2] ?? "", data });
  }
}

/** Length of `approval.responded`. */
const MAX_QUESTION_TYPE = 18;

function recordQuestion(
  tx: Tx,
  runId: string,
  { kind, what, data }: { readonly kind: string; readonly what: string; readonly data: JournalEvent["data"] },
): void {
  const isNew = what === "request";
  const closed = data["reason"] === "cancelled" ? "cancelled" : "expired";
  const status = isNew ? "open" : what === "responded" ? "answered" : closed;
  tx.record({
    type: isNew ? "question.created" : "question.updated",
    ref: String(data["request_id"]),
    runId,
    data: { kind, status, ...(isNew ? { expires_at: data["expires_at"] ?? null } : {}) },
    actor: what === "responded" ? String(data["by"]) : null,
  });
}

/** Bytes of an event besides the text of its data. */
const ENVELOPE_BYTES = 256;
const sizes = new WeakMap<JournalEvent, number>();

/** Returns the approximate size of an event in bytes. */
export function sizeOf(event: JournalEvent): number {
  return sizes.get(event) ?? weigh(event, JSON.stringify(event.data));
}

function weigh(event: JournalEvent, data: string): number {
  const bytes = data.length + ENVELOPE_BYTES;
  sizes.set(event, bytes);
  return bytes;
}

/** Converts a row to an event; the inverse of {@link toRow}. */
export function toEvent(row: Row): JournalEvent {
  const event = row as unknown as EventRow;
  const made: JournalEvent = {
    sessionId: event.session_id,
    seq: event.seq,
    runId: event.run_id,
    runSeq: event.run_seq,
    type: event.type,
    data: JSON.parse(event.data) as Record<string, unknown>,
    atMs: event.created_at,
  };
  weigh(made, event.data);
  return made;
}

function toRow(event: JournalEvent): EventRow {
  const data = JSON.stringify(event.data);
  weigh(event, data);
  return {
    session_id: event.sessionId,
    seq: event.seq,
    run_id: event.runId,
    run_seq: event.runSeq,
    type: event.type,
    data,
    created_at: event.atMs,
  };
}

function number(
  { nowMs: atMs }: Tx,
  sessionId: string,
  from: {
    readonly events: readonly NewEvent[];
    readonly after: number;
    readonly runSeqs: Map<string, number | undefined>;
  },
): readonly JournalEvent[] {
  let seq = from.after;
  return from.events.map(({ type, runId, data }): JournalEvent => {
    const runSeq = runId === null ? null : next(from.runSeqs, runId);
    return { sessionId, seq: ++seq, runId, runSeq, type, data, atMs };
  });
}

/** Advances the counters of all sessions. Returns the number of each session's last new event. */
async function takeSessions(
  tx: RawTx,
  wanted: readonly SessionEvents[],
): Promise<ReadonlyMap<string, number>> {
  const steps = wanted.map(({ sessionId: id, events }) => ({ id, by: events.length }));
  const rows = await tx.all(SESSION_STEPS[tx.dialect], [JSON.stringify(steps)]);
  return new Map(rows.map((row) => [String(row["id"]), Number(row["last_seq"])]));
}

/** Like {@link takeRuns}, for all sessions. */
async function takeAllRuns(
  tx: RawTx,
  wanted: readonly SessionEvents[],
): Promise<Map<string, number | undefined>> {
  const steps = new Map<string, { id: string; session: string; by: number; type: string }>();
  for (const { sessionId: session, events } of wanted) {
    for (const { runId: id, type } of events) {
      if (id !== null) steps.set(id, { id, session, by: (steps.get(id)?.by ?? 0) + 1, type });
    }
  }
  if (steps.size === 0) return new Map();
  const rows = await tx.all(RUN_STEPS[tx.dialect], [tx.nowMs, JSON.stringify([...steps.values()])]);
  return new Map(
    rows.map((row) => {
      const id = String(row["id"]);
      return [id, Number(row["last_seq"]) - (steps.get(id)?.by ?? 0)];
    }),
  );
}

/** Returns the number before each run's first new event; undefined for a run that is not in the session. */
async function takeRuns(
  tx: RawTx,
  sessionId: string,
  events: readonly NewEvent[],
): Promise<Map<string, number | undefined>> {
  const counts = new Map<string, { by: number; type: string }>();
  for (const { runId, type } of events) {
    if (runId !== null) counts.set(runId, { by: (counts.get(runId)?.by ?? 0) + 1, type });
  }
  const taking: Promise<number | undefined>[] = [];
  for (const [runId, { by, type }] of counts) {
    const set = [type, tx.nowMs];
    taking.push(tx.step(RUN_STEP, [by], { where: [runId, sessionId], set }).then((lasts) => lasts?.[0]));
  }
  const lasts = await Promise.all(taking);
  const runs = [...counts].map(([runId, { by }], index) => {
    const last = lasts[index];
    return [runId, last === undefined ? undefined : last - by] as const;
  });
  return new Map(runs);
}

function sessionNotFound(id: string): ServiceError {
  return new ServiceError("session_not_found", `Session ${JSON.stringify(id)} does not exist.`);
}

function next(seqs: Map<string, number | undefined>, runId: string): number {
  const before = seqs.get(runId);
  if (before === undefined) {
    throw new ServiceError("run_not_found", `Run ${JSON.stringify(runId)} does not exist in the session.`);
  }
  seqs.set(runId, before + 1);
  return before + 1;
}
