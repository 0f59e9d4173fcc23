import type { RunEvent, SessionEvent } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent, NewEvent } from "../../store/journal/journal.ts";

/** Names of everything a run can put into the journal; their data are described in specs/schemas/event.yaml. */
export type RunEventName = RunEvent["event"];

/** The data of one event: its wire form without the envelope, which the journal keeps in columns. */
export type RunEventData<N extends RunEventName> = Omit<
  Extract<RunEvent, { event: N }>,
  "event" | "run_id" | "seq" | "timestamp"
>;

/** Makes an event of a run. The compiler holds the data to the spec. */
export function runEvent<N extends RunEventName>(runId: string, event: N, data: RunEventData<N>): NewEvent {
  return { type: event, runId, data: data as Readonly<Record<string, unknown>> };
}

/** Names of what happens to a session outside its runs. */
export type SessionEventName = SessionEvent["event"];

export type SessionEventData<N extends SessionEventName> = Omit<
  Extract<SessionEvent, { event: N }>,
  "event" | "session_id" | "seq" | "timestamp"
>;

/** Makes an event of a session that belongs to no run. */
export function sessionEvent<N extends SessionEventName>(event: N, data: SessionEventData<N>): NewEvent {
  return { type: event, runId: null, data: data as Readonly<Record<string, unknown>> };
}

/** The wire form of a journal event that belongs to no run. */
export function toSessionEvent(event: JournalEvent): SessionEvent {
  return {
    event: event.type,
    session_id: event.sessionId,
    seq: event.seq,
    timestamp: event.atMs / 1000,
    ...event.data,
  } as SessionEvent;
}

const FINAL: ReadonlySet<string> = new Set<RunEventName>([
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.interrupted",
]);

/** After a final event a run has no more events. */
export function isFinalEvent(type: string): boolean {
  return FINAL.has(type);
}

/** The wire form of a journal event that belongs to a run. */
export function toRunEvent(event: JournalEvent): RunEvent {
  return {
    event: event.type,
    run_id: event.runId,
    seq: event.runSeq,
    timestamp: event.atMs / 1000,
    ...event.data,
  } as RunEvent;
}
