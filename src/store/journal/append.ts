import { ServiceError } from "../../base/errors.ts";
import type { JournalEvent, NewEvent } from "./journal.ts";
import { stepTexts } from "../tx/statement.ts";
import type { EventRow, RunRow, SessionRow } from "../schema/tables.ts";
import { rawTx } from "../tx/tx.ts";
import type { RawTx, Row, Tx } from "../tx/tx.ts";

const SESSION_STEP = stepTexts("sessions", { id: "" }, { column: "last_seq" });
const LEASED_STEP = stepTexts("sessions", { id: "", lease_owner: "" }, { column: "last_seq" });
const RUN_STEP = stepTexts(
  "runs",
  { id: "", session_id: "" },
  {
    column: "last_seq",
    set: ["last_event", "updated_at"],
  },
);

/** Numbers and writes events, see {@link Journal.append}. */
export async function appendEvents(
  tx: Tx,
  sessionId: string,
  events: readonly NewEvent[],
  { leasedBy }: { readonly leasedBy?: string } = {},
): Promise<readonly JournalEvent[]> {
  if (events.length === 0) return [];
  const raw = rawTx(tx);
  // The session first, always: its row lock orders the appends of all processes, so numbers commit in order.
  const taking =
    leasedBy === undefined
      ? raw.step(SESSION_STEP, events.length, { where: [sessionId] })
      : raw.step(LEASED_STEP, events.length, { where: [sessionId, leasedBy] });
  // Both are waited for at once: when one fails so does the other, and neither rejection may be left alone.
  const [last, runSeqs] = await Promise.all([taking, takeRuns(raw, sessionId, events)]);
  if (last === undefined && leasedBy !== undefined) {
    throw new ServiceError("session_busy", "Another process has taken this session over.");
  }
  if (last === undefined) {
    throw new ServiceError("session_not_found", `There is no session ${JSON.stringify(sessionId)}.`);
  }
  let seq = last - events.length;
  const numbered = events.map(({ type, runId, data }): JournalEvent => {
    const runSeq = runId === null ? null : next(runSeqs, runId);
    return { sessionId, seq: ++seq, runId, runSeq, type, data, atMs: tx.nowMs };
  });
  await tx.insert("events", numbered.map(toRow));
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
  await tx.insert("runs", [{ ...rows.run, ...counted, last_event: events.at(-1)?.type ?? null }]);
  if (numbered.length > 0) await tx.insert("events", numbered.map(toRow));
  return numbered;
}

/** What an event weighs besides the text of its data. */
const ENVELOPE_BYTES = 256;
const sizes = new WeakMap<JournalEvent, number>();

/** Returns about how many bytes an event takes. */
export function sizeOf(event: JournalEvent): number {
  return sizes.get(event) ?? weigh(event, JSON.stringify(event.data));
}

function weigh(event: JournalEvent, data: string): number {
  const bytes = data.length + ENVELOPE_BYTES;
  sizes.set(event, bytes);
  return bytes;
}

/** What a row says. The other direction is {@link toRow}. */
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

/** The number before each run's first new event; undefined for a run that is not in the session. */
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
    taking.push(tx.step(RUN_STEP, by, { where: [runId, sessionId], set: [type, tx.nowMs] }));
  }
  const lasts = await Promise.all(taking);
  const runs = [...counts].map(([runId, { by }], index) => {
    const last = lasts[index];
    return [runId, last === undefined ? undefined : last - by] as const;
  });
  return new Map(runs);
}

function next(seqs: Map<string, number | undefined>, runId: string): number {
  const before = seqs.get(runId);
  if (before === undefined) {
    throw new ServiceError("run_not_found", `There is no run ${JSON.stringify(runId)} in the session.`);
  }
  seqs.set(runId, before + 1);
  return before + 1;
}
