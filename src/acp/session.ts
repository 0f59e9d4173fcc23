import type { SessionSeed } from "../agent/session.ts";

/** A session that this client has open. */
export class AcpSession {
  readonly id: string;
  readonly seed: SessionSeed;
  /** Turns that have not ended, with what tells that they are cancelled. */
  readonly #turns = new Map<string, AbortController>();

  constructor(id: string, seed: SessionSeed) {
    this.id = id;
    this.seed = seed;
  }

  get runs(): readonly string[] {
    return [...this.#turns.keys()];
  }

  began(runId: string): void {
    this.#turns.set(runId, new AbortController());
  }

  ended(runId: string): void {
    this.#turns.get(runId)?.abort();
    this.#turns.delete(runId);
  }

  signalOf(runId: string): AbortSignal {
    const turn = this.#turns.get(runId) ?? new AbortController();
    return turn.signal;
  }

  /** What runs and what waits ends; their questions are withdrawn at once. */
  cancel(): readonly string[] {
    for (const turn of this.#turns.values()) turn.abort();
    return this.runs;
  }
}
