import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import { sessionNotFound, type SessionSeed } from "./session.ts";

/** A session that somebody has open in this process; it need not be saved yet. */
export interface LiveSession {
  readonly id: string;
  readonly owner: string;
  /** What the session is made with when its first prompt comes. */
  readonly seed: SessionSeed;
  readonly openedAtMs: number;
  lastActiveAtMs: number;
  /** Viewers that have it open; at 0 it stays open until it is closed or reaped. */
  viewers: number;
}

/** Nobody looks at it and nothing happened for so long: it is closed here, and stays saved. */
const IDLE_MS = 6 * 3_600_000;

/** The sessions open in this process. What is saved is another matter, see sessions.ts. */
export class LiveSessions {
  readonly #clock: Clock;
  readonly #max: number;
  readonly #open = new Map<string, LiveSession>();
  readonly #listeners = new Set<(reclaimed: LiveSession) => void>();

  constructor(options: { readonly clock: Clock; readonly max: number }) {
    this.#clock = options.clock;
    this.#max = options.max;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Opens a session, or finds it open. ServiceError `too_many_live_sessions`, and `session_not_found` for another's. */
  open(session: { readonly id: string; readonly owner: string; readonly seed: SessionSeed }): LiveSession {
    const known = this.#open.get(session.id);
    if (known && known.owner !== session.owner) throw sessionNotFound(session.id);
    if (known) {
      this.touch(session.id);
      return known;
    }
    if (this.#open.size >= this.#max) this.#reap();
    if (this.#open.size >= this.#max) {
      throw new ServiceError(
        "too_many_live_sessions",
        `${this.#max} sessions are open, which is the limit (sessions.max_live). Close one.`,
      );
    }
    const nowMs = this.#clock.now();
    const live: LiveSession = { ...session, openedAtMs: nowMs, lastActiveAtMs: nowMs, viewers: 0 };
    this.#open.set(session.id, live);
    return live;
  }

  /** Undefined when it is not open here, or another's. */
  find(id: string, owner: string): LiveSession | undefined {
    const live = this.#open.get(id);
    return live?.owner === owner ? live : undefined;
  }

  touch(id: string): void {
    const live = this.#open.get(id);
    if (live) live.lastActiveAtMs = this.#clock.now();
  }

  /** In the order in which they were opened. */
  list(owner: string): readonly LiveSession[] {
    return [...this.#open.values()].filter((live) => live.owner === owner);
  }

  /** False when it was not open. */
  close(id: string, owner: string): boolean {
    return this.find(id, owner) !== undefined && this.#open.delete(id);
  }

  /** Tells of sessions that were closed because nobody used them. Call what it returns to hear no more. */
  onReclaimed(listener: (reclaimed: LiveSession) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #reap(): void {
    const before = this.#clock.now() - IDLE_MS;
    for (const [id, live] of this.#open) {
      if (live.viewers > 0 || live.lastActiveAtMs >= before) continue;
      this.#open.delete(id);
      this.#listeners.forEach((listener) => listener(live));
    }
  }
}
