import type { JournalEvent, ListenOptions } from "./journal.ts";

/** The result of a listener's read: the events of its types above a number, and how far it has read. */
export interface Heard {
  readonly events: readonly JournalEvent[];
  readonly upTo: number;
}

interface ListenerSource {
  /** Reads the committed events of the listener's types above `after`. */
  read(after: number): Promise<Heard>;
  /** Called once, at the end. */
  leave(): void;
}

/** Receives the events of some types of one run. Reads rows only if another process may have written events. */
export class Listener {
  readonly scope: { readonly runId: string };
  readonly #types: ReadonlySet<string>;
  readonly #options: ListenOptions;
  readonly #from: ListenerSource;
  #upTo = 0;
  #isBehind = false;
  #isReading = false;
  #isEnded = false;

  constructor(runId: string, options: ListenOptions, from: ListenerSource) {
    this.scope = { runId };
    this.#types = new Set(options.types);
    this.#options = options;
    this.#from = from;
  }

  /** Number of the last event of the run that was examined. */
  get upTo(): number {
    return this.#upTo;
  }

  offer(events: readonly JournalEvent[]): void {
    for (const event of events) {
      const { runSeq } = event;
      if (runSeq === null || runSeq <= this.#upTo) continue;
      if (this.#isReading || runSeq > this.#upTo + 1) return this.look();
      this.#hear(runSeq, this.#types.has(event.type) ? [event] : []);
    }
  }

  /** Some events may not have been offered. */
  look(): void {
    this.#isBehind = true;
    if (!this.#isReading) void this.#catchUp();
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#from.leave();
  }

  async #catchUp(): Promise<void> {
    this.#isReading = true;
    try {
      while (this.#isBehind && !this.#isEnded) {
        this.#isBehind = false;
        const { events, upTo } = await this.#from.read(this.#upTo);
        this.#hear(upTo, events);
      }
    } catch (error) {
      if (!this.#isEnded) this.#options.onFailure(error);
      this.end();
    } finally {
      this.#isReading = false;
    }
  }

  #hear(upTo: number, events: readonly JournalEvent[]): void {
    for (const event of events) {
      // Events that are no longer delivered must not count as heard.
      if (this.#isEnded) return;
      this.#options.onEvent(event);
    }
    if (!this.#isEnded) this.#upTo = Math.max(this.#upTo, upTo);
  }
}
