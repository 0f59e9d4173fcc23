/** Which runs may start now in this process. Pure. */
import { ServiceError } from "../../base/errors.ts";

/**
 * Set for a run that nobody waits at the wire for: while too many are at work it is recorded and waits, where another
 * would be refused.
 */
export interface RunSlot {
  /** Runs that are counted together. */
  readonly group: string;
  /** Most of the group at work at once in one process; absent: as many as of all. */
  readonly max?: number;
}

/** A run that was let in, or is to wait. */
export interface Entry {
  readonly waits: boolean;
  /** Makes room for another. Calling it again does nothing. */
  leave(): void;
}

/** A session whose run waited, and may start now. */
export interface Ready {
  readonly sessionId: string;
  readonly entry: Entry;
}

/** Of sub-agents: the run that waits for them is counted. */
export const uncounted: Entry = { waits: false, leave: () => {} };

/**
 * An entry that is asked for when it turns out that a run starts: a prompt that joins a session at work takes no room. At
 * most one, however often it is asked for, since the transaction that finds out may run again.
 */
export class EntryOnDemand {
  readonly #admit: () => Entry;
  #entry: Entry | undefined;

  constructor(admit: () => Entry) {
    this.#admit = admit;
  }

  /** As {@link ConcurrencyLimit.admit}. */
  take(): Entry {
    return (this.#entry ??= this.#admit());
  }

  /** Gives back what was taken, if anything was. */
  leave(): void {
    this.#entry?.leave();
  }
}

const MAX_WAITING = 1_000;

/**
 * Counts the runs at work, all together and by group, and keeps the sessions of those that wait in their order. What
 * waits is on disk before it comes here: a crash loses the order only.
 */
export class ConcurrencyLimit {
  readonly #max: number;
  readonly #onRoom: () => void;
  readonly #groups = new Map<string, number>();
  readonly #waiting = new Map<string, RunSlot>();
  #atWork = 0;

  /** `max` 0: no limit of all. `onRoom` is called whenever one leaves. */
  constructor({ max, onRoom }: { readonly max: number; readonly onRoom: () => void }) {
    this.#max = max > 0 ? max : Number.POSITIVE_INFINITY;
    this.#onRoom = onRoom;
  }

  /** Runs that wait for room in this process. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The sessions whose runs wait. */
  get sessions(): Iterable<string> {
    return this.#waiting.keys();
  }

  /**
   * Lets a new run in, or tells it to wait when it can. ServiceError `too_many_concurrent_runs` when it cannot, or when
   * too many wait.
   */
  admit(slot: RunSlot | undefined): Entry {
    if (this.hasRoom(slot)) return this.enter(slot);
    if (!slot) {
      throw tooMany(
        `${this.#max} runs are at work, which is the limit (limits.max_concurrent_runs). Try again when one has ended.`,
      );
    }
    if (this.#waiting.size >= MAX_WAITING) throw tooMany(`${MAX_WAITING} runs wait for others to end.`);
    return { waits: true, leave: () => {} };
  }

  hasRoom(slot: RunSlot | undefined): boolean {
    if (this.#atWork >= this.#max) return false;
    return slot?.max === undefined || (this.#groups.get(slot.group) ?? 0) < slot.max;
  }

  /** Counts a run, whether there is room for it or not. */
  enter(slot: RunSlot | undefined): Entry {
    this.#count(slot, 1);
    let isInside = true;
    const leave = () => {
      if (!isInside) return;
      isInside = false;
      this.#count(slot, -1);
      this.#onRoom();
    };
    return { waits: false, leave };
  }

  wait(sessionId: string, slot: RunSlot): void {
    this.#waiting.set(sessionId, slot);
  }

  isWaiting(sessionId: string): boolean {
    return this.#waiting.has(sessionId);
  }

  /** The session waits no more. False when it did not, or was let in: then somebody else goes on with it. */
  forget(sessionId: string): boolean {
    return this.#waiting.delete(sessionId);
  }

  /** Lets the one in that has waited longest of those that there is room for. */
  next(): Ready | undefined {
    for (const [sessionId, slot] of this.#waiting) {
      if (!this.hasRoom(slot)) continue;
      this.#waiting.delete(sessionId);
      return { sessionId, entry: this.enter(slot) };
    }
    return undefined;
  }

  /** Empties what waits: the sessions. */
  takeAll(): readonly string[] {
    const sessions = [...this.#waiting.keys()];
    this.#waiting.clear();
    return sessions;
  }

  #count(slot: RunSlot | undefined, by: 1 | -1): void {
    this.#atWork += by;
    if (!slot) return;
    const count = (this.#groups.get(slot.group) ?? 0) + by;
    if (count > 0) this.#groups.set(slot.group, count);
    else this.#groups.delete(slot.group);
  }
}

function tooMany(message: string): ServiceError {
  return new ServiceError("too_many_concurrent_runs", message, { retryAfterSeconds: 1 });
}
