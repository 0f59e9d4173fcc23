import type { Clock } from "../base/clock.ts";
import type { NewEvent } from "../store/journal.ts";
import type { Store, Tx } from "../store/store.ts";
import { addMessages } from "./history.ts";
import type { Message } from "./message.ts";

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
export class Recorder {
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
   * in it and gives that event; undefined says that the run is no longer ours, and nothing is written. `then` goes with
   * it, and its value is what this resolves to. Both may be called twice, as any store work.
   */
  async finish<T>(
    conclude: (tx: Tx) => Promise<NewEvent | undefined>,
    then: (tx: Tx) => Promise<T>,
  ): Promise<T | undefined> {
    this.#finishing = true;
    this.#cancelTimer?.();
    if (this.#taken) await this.#write;
    let batch: Batch | undefined;
    return this.#options.store.write(async (tx) => {
      const last = await conclude(tx);
      if (!last) return undefined;
      batch ??= this.#take();
      await this.#put(tx, { ...batch, events: [...batch.events, last] });
      return then(tx);
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
          await this.#put(tx, batch);
        },
        { durable },
      )
      .catch((error: unknown) => this.#fail(error))
      .then(() => this.#settled());
  }

  /** The run is being stopped now; what it still says waits for the finish, which tries once more. */
  #fail(error: unknown): void {
    this.#failed = true;
    this.#options.onFailure(error);
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

  async #put(tx: Tx, { events, messages }: Batch): Promise<void> {
    const { store, sessionId, runId } = this.#options;
    if (messages.length > 0) await addMessages(tx, { sessionId, runId }, messages);
    // A process that slept past its lease must not write into a session that another has taken over.
    if (events.length > 0) await store.journal.append(tx, sessionId, events, { leasedBy: store.owner });
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
