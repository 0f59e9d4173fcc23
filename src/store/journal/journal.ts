import type { ChangedRun } from "../feed/change.ts";
import type { RunRow, SessionRow } from "../schema/tables.ts";
import type { Tx } from "../tx/tx.ts";

/**
 * An event before it has a number. `data` is a JSON object; specs/schemas/event.yaml defines its form. Followers in
 * this process get this same object: it MUST be plain JSON and MUST NOT change after it was appended.
 */
export interface NewEvent {
  readonly type: string;
  readonly runId: string | null;
  readonly data: Readonly<Record<string, unknown>>;
}

/** An event of the journal. `seq` counts within the session, `runSeq` within the run (null without a run). */
export interface JournalEvent extends NewEvent {
  readonly sessionId: string;
  readonly seq: number;
  readonly runSeq: number | null;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
}

/** Events of one session. */
export interface SessionEvents<E extends NewEvent = NewEvent> {
  readonly sessionId: string;
  readonly events: readonly E[];
}

/** The end of a run: its last events, all of that run, and the columns that it sets. */
export interface RunEnd {
  readonly runId: string;
  /** What the change feed says of the run. Absent: it is read. */
  readonly run?: ChangedRun | undefined;
  readonly columns: Partial<RunRow>;
  readonly events: readonly NewEvent[];
  /** Number of messages of the conversation that are written with it. */
  readonly messages: number;
}

export interface RunEnded {
  readonly events: readonly JournalEvent[];
  /** Number of the last message. */
  readonly lastMessage: number;
  /** True: the session's lease is free. False: runs are queued in the session, and it is kept. */
  readonly isReleased: boolean;
}

/** What is read or followed: all of a session by `seq`, or one run by `runSeq`. */
export type Scope = { readonly sessionId: string } | { readonly runId: string };

/**
 * Append-only events. Append is publish: followers receive an event when it is committed, in order, once,
 * with its final number.
 */
export interface Journal {
  /**
   * Numbers and writes events inside `tx`, and records each run's last event. Resolves to the numbered events. The
   * session, and the runs in it, MUST exist: ServiceError `session_not_found`, `run_not_found`. Numbers come from
   * counters of the session and the run, so the number of a deleted event is never used again. `leasedBy` is a fencing
   * check: ServiceError `session_busy` unless that owner holds the session's lease.
   */
  append(
    tx: Tx,
    sessionId: string,
    events: readonly NewEvent[],
    options?: { readonly leasedBy?: string },
  ): Promise<readonly JournalEvent[]>;

  /**
   * Like {@link Journal.append}, and also numbers as many messages of the session's conversation, with the same statement.
   * The caller inserts the messages; the last one has the number `lastMessage`. Both counts MUST be above 0.
   */
  appendStep(
    tx: Tx,
    session: { readonly sessionId: string; readonly leasedBy?: string | undefined },
    step: { readonly events: readonly NewEvent[]; readonly messages: number },
  ): Promise<{ readonly events: readonly JournalEvent[]; readonly lastMessage: number }>;

  /**
   * Ends a run that has not ended, with the numbers and the fencing check of {@link Journal.appendStep}, and releases the
   * session's lease if no run is queued in the session: one statement for the run and one for the session. Undefined when
   * the run has ended already: nothing is written.
   */
  end(
    tx: Tx,
    session: { readonly sessionId: string; readonly leasedBy: string },
    end: RunEnd,
  ): Promise<RunEnded | undefined>;

  /**
   * Like {@link Journal.append}, for many sessions at once, in about three statements for any number of sessions.
   * Writes all or none. If several processes write to the same sessions, the caller MUST have locked their rows
   * already, for example by taking their leases in `tx`.
   */
  appendAll(tx: Tx, appends: readonly SessionEvents[]): Promise<readonly SessionEvents<JournalEvent>[]>;

  /**
   * Inserts a session that does not exist yet and its first run, with `events`, all of that run, as their first events.
   * The same as two inserts and an append, in half the statements. Sets the counters of both rows.
   */
  begin(
    tx: Tx,
    rows: { readonly session: SessionRow; readonly run: RunRow },
    events: readonly NewEvent[],
  ): Promise<readonly JournalEvent[]>;

  /**
   * Returns committed events with a number above `after`, in order: at most `limit` (default 512), and none after the
   * one with which their data reaches `maxBytes` (default 4 MiB). Only an empty result means that no further events
   * exist.
   */
  read(
    scope: Scope,
    options?: { readonly after?: number; readonly limit?: number; readonly maxBytes?: number },
  ): Promise<readonly JournalEvent[]>;

  /**
   * Yields the committed events above `after`, in order, then every later one as it is committed, by this process or
   * another, without gaps or repetition. Yields non-empty groups. Ends when `signal` aborts or the store closes. A
   * group has about 16 KiB or one event. A follower that is not being read buffers at most 64 KiB more, and all of them
   * together what {@link Store.readers} allows; they read from the database what they missed.
   *
   * The follower starts with the call, not with the first pull. `fresh`: nothing above `after` is committed yet, which
   * saves the first read.
   */
  follow(
    scope: Scope,
    options?: { readonly after?: number; readonly fresh?: boolean; readonly signal?: AbortSignal },
  ): AsyncIterable<readonly JournalEvent[]>;

  /**
   * Receives the committed events of some types of a run, by this process or another, from its first event on, in
   * order, each once. Events of other types cost nothing, whatever their size. Ends with `end`, and with the store.
   * `upTo` is the number of the last event of the run that it has examined.
   */
  listen(runId: string, options: ListenOptions): { readonly upTo: number; end(): void };
}

export interface ListenOptions {
  /** The types of events to receive; the data of others is neither read nor buffered. */
  readonly types: readonly string[];
  /** Called with each event, in order. MUST NOT throw. */
  onEvent(event: JournalEvent): void;
  /** Called when the journal cannot be read: the listener ends. */
  onFailure(error: unknown): void;
}
