import type { RunRow, SessionRow } from "../schema/tables.ts";
import type { Tx } from "../tx/tx.ts";

/**
 * An event before it has a number. `data` is a JSON object; its form stands in specs/schemas/event.yaml. Followers of
 * this process get the very object: it MUST be plain JSON and MUST NOT change after it was appended.
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

/** What is read or followed: all of a session by `seq`, or one run by `runSeq`. */
export type Scope = { readonly sessionId: string } | { readonly runId: string };

/**
 * Append-only events. Append is publish: followers receive an event when it is committed, in order, once,
 * with the number it keeps for ever.
 */
export interface Journal {
  /**
   * Numbers and writes events inside `tx`, and notes each run's last event. Resolves to them numbered.
   * The session, and the runs in it, MUST exist: ServiceError `session_not_found`, `run_not_found`.
   * Numbers come from counters of the session and the run, so a swept event's number is never given out again.
   * `leasedBy` fences: when that owner does not hold the session's lease (any more), ServiceError `session_busy`.
   */
  append(
    tx: Tx,
    sessionId: string,
    events: readonly NewEvent[],
    options?: { readonly leasedBy?: string },
  ): Promise<readonly JournalEvent[]>;

  /**
   * As {@link Journal.append}, for many sessions at once: three statements or so, however many sessions they are. All or
   * none are written. Where several processes write to the same sessions, the caller MUST hold their rows already, as who
   * takes their leases in `tx` does.
   */
  appendAll(tx: Tx, appends: readonly SessionEvents[]): Promise<readonly SessionEvents<JournalEvent>[]>;

  /**
   * Inserts a session that does not exist yet and its first run, with `events`, all of that run, as their first: what
   * two inserts and an append do, in half the statements. The rows' own counters are set to fit.
   */
  begin(
    tx: Tx,
    rows: { readonly session: SessionRow; readonly run: RunRow },
    events: readonly NewEvent[],
  ): Promise<readonly JournalEvent[]>;

  /**
   * Committed events with a number above `after`, in order; at most `limit` (default 512), and none after the one with
   * which their data reach `maxBytes` (default 4 MiB). Only an empty answer says that there are no more.
   */
  read(
    scope: Scope,
    options?: { readonly after?: number; readonly limit?: number; readonly maxBytes?: number },
  ): Promise<readonly JournalEvent[]>;

  /**
   * Committed events above `after`, in order, then every later one as it is committed, by this process or another;
   * no gap and no repeat between the two. Yields non-empty groups. Ends when `signal` aborts or the store closes.
   * A group has about 16 KiB or one event. A follower that does not pull holds at most 64 KiB besides, and all of them
   * together what {@link Store.readers} allows: what they missed they read again.
   *
   * The follower listens from the call on, not from the first pull. `fresh` says that nothing above `after` was
   * committed yet, which saves the first read.
   */
  follow(
    scope: Scope,
    options?: { readonly after?: number; readonly fresh?: boolean; readonly signal?: AbortSignal },
  ): AsyncIterable<readonly JournalEvent[]>;
}
