import type { SessionSeed } from "../../agent/session/session.ts";
import type { AcpTurn } from "../prompt/turn.ts";

export type AcpSessionSeed = SessionSeed & { readonly cwd: string };

interface AcpSessionOptions {
  readonly id: string;
  readonly seed: AcpSessionSeed;
  readonly openedAtMs: number;
}

/** A turn that a client is told of and did not begin. */
interface WatchedTurn {
  readonly runId: string;
  /** Stops the turn itself. */
  cancel(): void;
  /** It goes on, and is told no more. */
  detach(): void;
}

/** A session that the client has open. */
export class AcpSession {
  readonly id: string;
  readonly openedAtMs: number;
  /** Prompts of the client that have no answer yet, in their order; the first may be at work. */
  readonly turns = new Set<AcpTurn>();
  /** The turn that somebody else began, while this client is told of it. */
  watched: WatchedTurn | undefined;
  /** It was in the store: when it is there no more, somebody deleted it. */
  isSaved = false;
  #seed: AcpSessionSeed;
  readonly #closing = new AbortController();
  readonly #releases: (() => void | Promise<void>)[] = [];

  constructor({ id, seed, openedAtMs }: AcpSessionOptions) {
    this.id = id;
    this.#seed = seed;
    this.openedAtMs = openedAtMs;
  }

  /** What the session is made with when its first prompt comes; of one that is saved, what it has. */
  get seed(): AcpSessionSeed {
    return this.#seed;
  }

  /** Aborts when the client closes the session, or leaves. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** From now on the session works in this folder. */
  moveTo(cwd: string): void {
    this.#seed = { ...this.#seed, cwd };
  }

  /**
   * What runs and what waits is cancelled, and nothing of it is told any more; see {@link AcpTurn}. The newest first: a
   * prompt that waits is gone before the one ends that it waits for.
   */
  cancel(): void {
    for (const turn of [...this.turns].toReversed()) turn.cancel();
  }

  /** As {@link cancel}, and the turn too that somebody else began. */
  interrupt(): void {
    this.cancel();
    this.watched?.cancel();
  }

  /** Runs when the session is closed; {@link released} waits for it. */
  onClose(release: () => void | Promise<void>): void {
    this.#releases.push(release);
  }

  close(): void {
    this.cancel();
    this.#closing.abort();
  }

  /** Resolves when the prompts that were cancelled are answered. */
  async settled(): Promise<void> {
    await Promise.all([...this.turns].map(({ answered }) => answered));
  }

  /** Gives back what the session held here. Once; what fails is left behind. */
  async released(): Promise<void> {
    await Promise.allSettled(this.#releases.splice(0).map(async (release) => release()));
  }
}
