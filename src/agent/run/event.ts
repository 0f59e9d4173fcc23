import type { RunEvent, SessionEvent } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent, NewEvent } from "../../store/journal/journal.ts";
import type { EngineEvent } from "../engine.ts";
import type { Clock } from "../../base/clock.ts";
import { isUnavailable } from "../../store/tx/failure.ts";
import type { Store, Tx } from "../../store/store.ts";
import { addMessages } from "../session/transcript.ts";
import type { Message } from "../message.ts";

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

/** The journal's form of what an engine reports. */
export function fromEngine(runId: string, event: EngineEvent): NewEvent {
  switch (event.type) {
    case "message.start":
      return runEvent(runId, "message.started", { message_id: event.messageId });
    case "message.delta":
      return runEvent(runId, "message.delta", { message_id: event.messageId, delta: event.text });
    case "message.end":
      return runEvent(runId, "message.completed", { message_id: event.messageId, text: event.text });
    case "reasoning.delta":
      return runEvent(runId, "reasoning.delta", { delta: event.text });
    case "reasoning.end":
      return runEvent(runId, "reasoning.completed", { text: event.text });
    case "notice":
      return runEvent(runId, "run.notice", { message: event.text });
  }
}

/** Later deltas wait this long to be merged; the first goes at once. One display frame at 40 Hz. */
export const MERGE_MS = 25;

/** Events whose adjacent pieces may become one, and the field that holds the text. */
const MERGED: Readonly<Record<string, string>> = {
  "message.delta": "delta",
  "reasoning.delta": "delta",
  "tool.progress": "delta",
};

/** A longer piece is an event of its own: whoever reads slowly holds one at least. */
const MAX_MERGED_CHARACTERS = 16_384;

const isDelta = (event: NewEvent): boolean => event.type in MERGED;

interface Batch {
  readonly events: readonly NewEvent[];
  readonly messages: readonly Message[];
}

/** A batch whose write failed, and where the last attempt at it stands if it was committed all the same. */
interface Uncertain {
  readonly batch: Batch;
  readonly firstRunSeq: number | undefined;
  readonly lastMessage: number | undefined;
}

interface RecorderOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly sessionId: string;
  readonly runId: string;
  /** Called when the journal cannot be written; the run cannot go on then. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Carries what one run does into the journal and the transcript, in order, merging deltas on a short tick before they
 * are appended, so that the live stream and its replay are the same events. At most one write is under way.
 */
export class EventWriter {
  readonly #options: RecorderOptions;
  #events: NewEvent[] = [];
  #messages: Message[] = [];
  /** When deltas were last written: only they make later ones wait. */
  #lastDeltaMs = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  #write: Promise<void> | undefined;
  /** True once the write under way has taken its batch. */
  #taken = false;
  #finishing = false;
  #failed = false;
  #doubtful: Uncertain | undefined;
  /** What goes with the end. */
  #rest: Batch | undefined;
  /** True when somebody waits for what was taken so far to be safe. */
  #urgent = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  /** Takes an event. Deltas may wait for {@link MERGE_MS}; everything else goes at once. */
  event(event: NewEvent): void {
    if (this.#finishing) return;
    if (!isDelta(event) || !this.#merge(event)) this.#events.push(event);
    if (isDelta(event)) this.#beginSoon();
    else this.#begin();
  }

  /** Takes the messages of a finished step; they are committed together. */
  messages(messages: readonly Message[]): void {
    this.#messages.push(...messages);
    this.#begin();
  }

  /** Resolves when everything taken so far is committed, safe from a crash. Rejects when it cannot be. */
  async flush(): Promise<void> {
    while (this.#events.length > 0 || this.#messages.length > 0 || this.#write) {
      if (this.#finishing || this.#failed) return;
      this.#urgent = true;
      this.#begin();
      await this.#write;
    }
  }

  /**
   * Writes what is left and the final event, in one durable transaction, and takes nothing more. `conclude` comes first
   * in it and gives that event, and `next` goes with it: its value is what this resolves to. Undefined instead of an
   * event says that the run has ended already: nothing is written then, and `ended` goes instead of `next`. All may be
   * called twice, as any store work. When this rejects it may be called again.
   */
  async finish<T>(
    conclude: (tx: Tx) => Promise<NewEvent | undefined>,
    next: (tx: Tx) => Promise<T>,
    ended: (tx: Tx) => Promise<T | undefined> = async () => undefined,
  ): Promise<T | undefined> {
    this.#finishing = true;
    this.#cancelTimer?.();
    if (this.#taken) await this.#write;
    return this.#options.store.write(async (tx) => {
      const last = await conclude(tx);
      if (!last) return ended(tx);
      const { events, messages } = await this.#restOf(tx);
      await this.#put(tx, { events: [...events, last], messages });
      return next(tx);
    });
  }

  /** Takes nothing more, and writes nothing of what is left: another process goes on from what is stored. */
  abandon(): void {
    this.#finishing = true;
    this.#cancelTimer?.();
    this.#events = [];
    this.#messages = [];
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
          // What came since and has to be safe goes with the next write, which is.
          if (!batch && (this.#finishing || (!durable && this.#mustBeSafe))) return;
          this.#taken = true;
          batch ??= this.#take();
          if (batch.events.some(isDelta)) this.#lastDeltaMs = this.#options.clock.now();
          this.#doubtful = { batch, firstRunSeq: undefined, lastMessage: undefined };
          this.#doubtful = { batch, ...(await this.#put(tx, batch)) };
        },
        { durable },
      )
      .then(
        () => (this.#doubtful = undefined),
        (error: unknown) => this.#fail(error),
      )
      .then(() => this.#settled());
  }

  /**
   * The run is being stopped now; what it still says waits for the finish, and so does what could not be written because
   * the store was away. What the store itself refuses it would refuse again.
   */
  #fail(error: unknown): void {
    this.#failed = true;
    if (!isUnavailable(error)) this.#doubtful = undefined;
    this.#options.onFailure(error);
  }

  /** What the end has to write besides the final event. */
  async #restOf(tx: Tx): Promise<Batch> {
    const rest = (this.#rest ??= this.#take());
    if (!this.#doubtful || (await this.#isWritten(tx, this.#doubtful))) return rest;
    const { events, messages } = this.#doubtful.batch;
    return { events: [...events, ...rest.events], messages: [...messages, ...rest.messages] };
  }

  /** Whether a write that failed was committed all the same. Nobody else writes these types and messages of the run. */
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
    if (this.#finishing || (this.#events.length === 0 && this.#messages.length === 0)) return;
    if (this.#messages.length === 0 && this.#events.every(isDelta)) this.#beginSoon();
    else this.#begin();
  }

  /** At once when no delta was written lately, else when the merge time since then is over. */
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
    return batch;
  }

  async #put(tx: Tx, { events, messages }: Batch): Promise<Omit<Uncertain, "batch">> {
    const { store, sessionId, runId } = this.#options;
    // A process that slept past its lease must not write into a session that another has taken over.
    const leasedBy = store.owner;
    const lastMessage = await addMessages(tx, { sessionId, runId, leasedBy }, messages);
    const [first] = events.length > 0 ? await store.journal.append(tx, sessionId, events, { leasedBy }) : [];
    return { lastMessage, firstRunSeq: first?.runSeq ?? undefined };
  }

  /** Adds a delta to the newest pending event when that is an earlier piece of the same text. */
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
