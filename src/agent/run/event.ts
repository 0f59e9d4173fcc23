import type { RunEvent, SessionEvent } from "../../../generated/http/client/types.gen.ts";
import type { ChangedRun } from "../../store/feed/change.ts";
import type { NewEvent, RunEnded } from "../../store/journal/journal.ts";
import type { EngineEvent, Message } from "../engine.ts";
import type { Clock } from "../../base/time.ts";
import { isUnavailable } from "../../store/tx/group.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";
import { addStep, insertMessages } from "../session/transcript.ts";

/** Names of the journal events of a run; specs/schemas/event.yaml describes their data. */
export type RunEventName = RunEvent["event"];

/** The data of one event: its wire form without the envelope, which the journal keeps in columns. */
export type RunEventData<N extends RunEventName> = Omit<
  Extract<RunEvent, { event: N }>,
  "event" | "run_id" | "seq" | "timestamp"
>;

/** Returns an event of a run. The compiler checks the data against the spec. */
export function runEvent<N extends RunEventName>(runId: string, event: N, data: RunEventData<N>): NewEvent {
  return { type: event, runId, data: data as Readonly<Record<string, unknown>> };
}

/** Names of the events of a session outside its runs. */
export type SessionEventName = SessionEvent["event"];

export type SessionEventData<N extends SessionEventName> = Omit<
  Extract<SessionEvent, { event: N }>,
  "event" | "session_id" | "seq" | "timestamp"
>;

/** Returns an event of a session that belongs to no run. */
export function sessionEvent<N extends SessionEventName>(event: N, data: SessionEventData<N>): NewEvent {
  return { type: event, runId: null, data: data as Readonly<Record<string, unknown>> };
}

/** Returns the journal event for an event of the engine. */
export function fromEngine(runId: string, event: EngineEvent): NewEvent {
  switch (event.type) {
    case "message.start":
      return runEvent(runId, "message.started", { message_id: event.messageId });
    case "message.delta":
      return runEvent(runId, "message.delta", { message_id: event.messageId, delta: event.text });
    case "message.end":
      return runEvent(runId, "message.completed", { message_id: event.messageId, text: event.text });
    case "reasoning.delta":
      return runEvent(runId, "reasoning.delta", { message_id: event.messageId, delta: event.text });
    case "reasoning.end":
      return runEvent(runId, "reasoning.completed", { text: event.text });
    case "tool.generating":
      return runEvent(runId, "tool.generating", { tool: event.tool });
    case "notice":
      return runEvent(runId, "run.notice", { message: event.text });
  }
}

/** Deltas wait this long to be merged, except the first. One display frame at 40 Hz. */
export const MERGE_MS = 25;

/** Events whose adjacent deltas are merged, and the field that holds the text. */
const MERGED: Readonly<Record<string, string>> = {
  "message.delta": "delta",
  "reasoning.delta": "delta",
  "tool.progress": "delta",
};

/** Longest merged delta: a slow reader holds at least one in memory. */
const MAX_MERGED_CHARACTERS = 16_384;

/** Most text that may wait to be stored before the model has to wait: a few of the largest events. */
const MAX_WAITING_CHARACTERS = 131_072;

const isDelta = (event: NewEvent): boolean => event.type in MERGED;

interface Batch {
  readonly events: readonly NewEvent[];
  readonly messages: readonly Message[];
}

/** A batch whose write failed, and the position of the last attempt in case it was committed after all. */
interface Uncertain {
  readonly batch: Batch;
  readonly firstRunSeq: number | undefined;
  readonly lastMessage: number | undefined;
}

/** How a run ends: its status, its other columns and its final event. */
interface FinalStep {
  readonly status: string;
  readonly set: Partial<RunRow>;
  readonly event: NewEvent;
}

/** Returns the columns of a run that ends. */
export function endColumns(
  { nowMs }: Pick<Tx, "nowMs">,
  status: string,
  set: Partial<RunRow>,
): Partial<RunRow> {
  return { status, ended_at: nowMs, updated_at: nowMs, ...set };
}

interface RecorderOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly sessionId: string;
  readonly runId: string;
  /** What the change feed says of the run. Absent: it is read. */
  readonly run?: ChangedRun;
  /** The end of the run decides by rows of its session alone; see `session` of {@link Store.write}. */
  readonly endsApart?: boolean;
  /** Called when the journal cannot be written: the run must stop. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Writes the events and messages of one run to the journal and the transcript, in order. Merges deltas before it appends
 * them, so that the live stream and its replay have the same events. At most one write is under way.
 */
export class EventWriter {
  readonly #options: RecorderOptions;
  #events: NewEvent[] = [];
  #messages: Message[] = [];
  /** Time of the last write with deltas: later deltas wait for it. */
  #lastDeltaMs = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  #write: Promise<void> | undefined;
  /** True once the current write has its batch. */
  #taken = false;
  #finishing = false;
  #failed = false;
  #uncertain: Uncertain | undefined;
  /** The batch that is written with the end. */
  #rest: Batch | undefined;
  /** True while a caller waits for the pending events to be durable. */
  #urgent = false;
  /** Text in pending events, and in the batch of the current write. */
  #pendingCharacters = 0;
  #writtenCharacters = 0;
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  /** Adds an event. Deltas may wait for {@link MERGE_MS}; other events are written at once. */
  event(event: NewEvent): void {
    if (this.#finishing) return;
    this.#pendingCharacters += charactersIn(event);
    if (!isDelta(event) || !this.#merge(event)) this.#events.push(event);
    if (isDelta(event)) this.#beginSoon();
    else this.#begin();
  }

  /** Adds the messages of a finished step; they are committed together. */
  messages(messages: readonly Message[]): void {
    this.#messages.push(...messages);
    this.#begin();
  }

  /** Returns what resolves when little of the events waits to be stored; undefined while that is so. Never rejects. */
  drain(): Promise<void> | undefined {
    if (!this.#isCrowded) return undefined;
    return (this.#drained ??= Promise.withResolvers<void>()).promise;
  }

  /** Resolves when all pending events and messages are durable. Rejects when they cannot be written. */
  async flush(): Promise<void> {
    while (this.#events.length > 0 || this.#messages.length > 0 || this.#write) {
      if (this.#finishing || this.#failed) return;
      this.#urgent = true;
      this.#begin();
      await this.#write;
    }
  }

  /**
   * Ends the run with the rest and the final event in one durable transaction, and accepts nothing more. `conclude` runs
   * first and returns how the run ends; `next` runs last, and its value is the result. If the run has ended already nothing
   * is written, and `ended` runs instead of `next`. Each may be called twice, like all store work. May be called again after
   * a rejection.
   */
  async finish<E extends FinalStep, T>(
    conclude: (tx: Tx) => Promise<E>,
    next: (tx: Tx, end: E, isReleased: boolean) => Promise<T>,
    ended: (tx: Tx) => Promise<T | undefined> = async () => undefined,
  ): Promise<T | undefined> {
    this.#finishing = true;
    this.#relieve();
    this.#cancelTimer?.();
    if (this.#taken) await this.#write;
    const { store, sessionId, endsApart } = this.#options;
    return store.write(
      async (tx) => {
        const end = await conclude(tx);
        const written = await this.#putEnd(tx, end);
        return written ? next(tx, end, written.isReleased) : ended(tx);
      },
      { session: endsApart ? sessionId : undefined },
    );
  }

  /** Drops what is pending and accepts nothing more: another process continues from the stored state. */
  abandon(): void {
    this.#finishing = true;
    this.#cancelTimer?.();
    this.#events = [];
    this.#messages = [];
    this.#relieve();
  }

  get #isCrowded(): boolean {
    if (this.#finishing || this.#failed) return false;
    return this.#pendingCharacters + this.#writtenCharacters > MAX_WAITING_CHARACTERS;
  }

  #relieve(): void {
    if (this.#isCrowded) return;
    this.#drained?.resolve();
    this.#drained = undefined;
  }

  get #mustBeSafe(): boolean {
    return this.#messages.length > 0 || this.#urgent;
  }

  #begin(): void {
    if (this.#write || this.#finishing || this.#failed) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    let batch: Batch | undefined;
    const durable = this.#mustBeSafe;
    this.#urgent = false;
    this.#write = this.#options.store
      .write(
        async (tx) => {
          // Events that became urgent meanwhile go with the next write, which is durable.
          if (!batch && (this.#finishing || (!durable && this.#mustBeSafe))) return;
          this.#taken = true;
          batch ??= this.#take();
          if (batch.events.some(isDelta)) this.#lastDeltaMs = this.#options.clock.now();
          this.#uncertain = { batch, firstRunSeq: undefined, lastMessage: undefined };
          this.#uncertain = { batch, ...(await this.#put(tx, batch)) };
        },
        { durable, session: this.#options.sessionId },
      )
      .then(
        () => (this.#uncertain = undefined),
        (error: unknown) => this.#fail(error),
      )
      .then(() => this.#settled());
  }

  /**
   * The run is being stopped: what it still emits waits for {@link finish}, and so does a batch that failed because the
   * store was unavailable. A batch that the store refuses is dropped: it would be refused again.
   */
  #fail(error: unknown): void {
    this.#failed = true;
    this.#relieve();
    if (!isUnavailable(error)) this.#uncertain = undefined;
    this.#options.onFailure(error);
  }

  /** Returns what the end writes before the final event. */
  async #restOf(tx: Tx): Promise<Batch> {
    const rest = (this.#rest ??= this.#take());
    if (!this.#uncertain || (await this.#isWritten(tx, this.#uncertain))) return rest;
    const { events, messages } = this.#uncertain.batch;
    return { events: [...events, ...rest.events], messages: [...messages, ...rest.messages] };
  }

  /** Whether a failed write was committed after all. Only this writer adds such events and messages of the run. */
  async #isWritten(tx: Tx, { batch, firstRunSeq, lastMessage }: Uncertain): Promise<boolean> {
    const { sessionId, runId } = this.#options;
    if (firstRunSeq !== undefined) {
      const event = await tx.find("events", { run_id: runId, run_seq: firstRunSeq });
      return event?.type === batch.events[0]?.type && event?.data === JSON.stringify(batch.events[0]?.data);
    }
    if (lastMessage === undefined) return false;
    return (await tx.find("messages", { session_id: sessionId, seq: lastMessage }))?.run_id === runId;
  }

  #settled(): void {
    this.#write = undefined;
    this.#taken = false;
    this.#writtenCharacters = 0;
    this.#relieve();
    if (this.#finishing || (this.#events.length === 0 && this.#messages.length === 0)) return;
    if (this.#messages.length === 0 && this.#events.every(isDelta)) this.#beginSoon();
    else this.#begin();
  }

  /** Writes at once if the last deltas are older than {@link MERGE_MS}, else when they are. */
  #beginSoon(): void {
    const { clock } = this.#options;
    const waitMs = this.#lastDeltaMs + MERGE_MS - clock.now();
    if (waitMs <= 0) return this.#begin();
    this.#cancelTimer ??= clock.after(waitMs, () => {
      this.#cancelTimer = undefined;
      this.#begin();
    });
  }

  #take(): Batch {
    const batch = { events: this.#events, messages: this.#messages };
    this.#events = [];
    this.#messages = [];
    this.#writtenCharacters = this.#pendingCharacters;
    this.#pendingCharacters = 0;
    return batch;
  }

  async #put(tx: Tx, { events, messages }: Batch): Promise<Omit<Uncertain, "batch">> {
    const { store, sessionId, runId } = this.#options;
    // A process that slept past its lease must not write to a session that another has taken over.
    const leasedBy = store.owner;
    const where = { sessionId, runId, leasedBy };
    const { lastMessage, events: written } = await addStep({ tx, journal: store.journal }, where, {
      messages,
      events,
    });
    return { lastMessage, firstRunSeq: written[0]?.runSeq ?? undefined };
  }

  /** Undefined when the run has ended already. */
  async #putEnd(tx: Tx, { status, set, event }: FinalStep): Promise<RunEnded | undefined> {
    const { store, sessionId, runId, run } = this.#options;
    const { events, messages } = await this.#restOf(tx);
    const columns = endColumns(tx, status, set);
    const end = { runId, run, columns, events: [...events, event], messages: messages.length };
    const written = await store.journal.end(tx, { sessionId, leasedBy: store.owner }, end);
    if (!written || messages.length === 0) return written;
    await insertMessages(
      tx,
      { sessionId, runId },
      { messages, after: written.lastMessage - messages.length },
    );
    return written;
  }

  /** Appends a delta to the newest pending event if both belong to the same text. */
  #merge(event: NewEvent): boolean {
    const last = this.#events.at(-1);
    const field = MERGED[event.type];
    if (!last || field === undefined || last.type !== event.type) return false;
    for (const [key, value] of Object.entries(event.data)) {
      if (key !== field && last.data[key] !== value) return false;
    }
    const text = `${String(last.data[field])}${String(event.data[field])}`;
    if (text.length > MAX_MERGED_CHARACTERS) return false;
    this.#events[this.#events.length - 1] = { ...last, data: { ...last.data, [field]: text } };
    return true;
  }
}

/** Returns the length of the text that makes an event large. */
function charactersIn({ data }: NewEvent): number {
  const { delta, text } = data;
  return typeof delta === "string" ? delta.length : typeof text === "string" ? text.length : 0;
}
