import type { SessionSeed } from "../../agent/session/session.ts";
import type { AcpTurn } from "../prompt/turn.ts";

export type AcpSessionSeed = SessionSeed & { readonly cwd: string };

interface AcpSessionOptions {
  readonly id: string;
  readonly seed: AcpSessionSeed;
  readonly openedAtMs: number;
}

/** A turn that the client follows but did not start. */
interface WatchedTurn {
  readonly runId: string;
  /** Stops the turn. */
  cancel(): void;
  /** Stops following; the turn continues. */
  detach(): void;
}

/** A session that the client has open. */
export class AcpSession {
  readonly id: string;
  readonly openedAtMs: number;
  /** Unanswered prompts of the client, in order. The first one may be running. */
  readonly turns = new Set<AcpTurn>();
  /** The turn of another client that this client follows. */
  watched: WatchedTurn | undefined;
  /** The session was in the store: if it is missing there, it was deleted. */
  isSaved = false;
  #seed: AcpSessionSeed;
  readonly #closing = new AbortController();
  readonly #releases: (() => void | Promise<void>)[] = [];

  constructor({ id, seed, openedAtMs }: AcpSessionOptions) {
    this.id = id;
    this.#seed = seed;
    this.openedAtMs = openedAtMs;
  }

  /** The values with which the first prompt saves the session, or those of the saved session. */
  get seed(): AcpSessionSeed {
    return this.#seed;
  }

  /** Aborts when the client closes the session or disconnects. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** Changes the working folder of the session. */
  moveTo(cwd: string): void {
    this.#seed = { ...this.#seed, cwd };
  }

  /**
   * Cancels running and queued turns; they send no more updates (see {@link AcpTurn}). The newest goes first: a queued
   * prompt must be gone before the turn ahead of it ends.
   */
  cancel(): void {
    for (const turn of [...this.turns].toReversed()) turn.cancel();
  }

  /** Cancels all turns, including the followed turn of another client. */
  interrupt(): void {
    this.cancel();
    this.watched?.cancel();
  }

  /** Adds cleanup that {@link released} runs after the session is closed. */
  onClose(release: () => void | Promise<void>): void {
    this.#releases.push(release);
  }

  close(): void {
    this.cancel();
    this.#closing.abort();
  }

  /** Resolves when all cancelled prompts are answered. */
  async settled(): Promise<void> {
    await Promise.all([...this.turns].map(({ answered }) => answered));
  }

  /** Runs the cleanup once, ignoring failures. */
  async released(): Promise<void> {
    await Promise.allSettled(this.#releases.splice(0).map(async (release) => release()));
  }
}
