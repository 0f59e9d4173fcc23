import type { SessionSeed } from "../agent/session.ts";
import type { AcpTurn } from "./turn.ts";

export interface AcpSessionOptions {
  readonly id: string;
  readonly seed: SessionSeed & { readonly cwd: string };
  readonly openedAtMs: number;
}

/** A session that the client has open. */
export class AcpSession {
  readonly id: string;
  readonly openedAtMs: number;
  /** What the session is made with when its first prompt comes; of one that is saved, what it was made with. */
  readonly seed: SessionSeed & { readonly cwd: string };
  /** Prompts of the client that have no answer yet, in their order; the first may be at work. */
  readonly turns = new Set<AcpTurn>();
  readonly #closing = new AbortController();
  readonly #releases: (() => void | Promise<void>)[] = [];

  constructor({ id, seed, openedAtMs }: AcpSessionOptions) {
    this.id = id;
    this.seed = seed;
    this.openedAtMs = openedAtMs;
  }

  /** Aborts when the client closes the session, or leaves. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** What runs and what waits is cancelled, and nothing of it is told any more; see {@link AcpTurn}. */
  cancel(): void {
    for (const turn of this.turns) turn.cancel();
  }

  /** Runs when the session is closed; {@link released} waits for it. */
  onClose(release: () => void | Promise<void>): void {
    this.#releases.push(release);
  }

  close(): void {
    this.cancel();
    this.#closing.abort();
  }

  /** Gives back what the session held here. Once; what fails is left behind. */
  async released(): Promise<void> {
    await Promise.allSettled(this.#releases.splice(0).map(async (release) => release()));
  }
}
