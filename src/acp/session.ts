import type { SessionSeed } from "../agent/session.ts";
import type { AcpTurn } from "./turn.ts";

/** A session that the client has open. */
export class AcpSession {
  readonly id: string;
  /** What the session is made with when its first prompt comes; of one that is saved, what it was made with. */
  readonly seed: SessionSeed & { readonly cwd: string };
  /** Prompts of the client that have no answer yet, in their order; the first may be at work. */
  readonly turns = new Set<AcpTurn>();
  readonly #closing = new AbortController();

  constructor(id: string, seed: SessionSeed & { readonly cwd: string }) {
    this.id = id;
    this.seed = seed;
  }

  /** Aborts when the client closes the session, or leaves. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** What runs and what waits is cancelled, and nothing of it is told any more; see {@link AcpTurn}. */
  cancel(): void {
    for (const turn of this.turns) turn.cancel();
  }

  close(): void {
    this.cancel();
    this.#closing.abort();
  }
}
