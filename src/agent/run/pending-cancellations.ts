import type { RunStop } from "./stop.ts";

const MAX_NOTED = 1_000;

/**
 * Runs that were to stop while they waited: one that begins before that is written does nothing. Only the last 1,000 are
 * known; of others the store alone decides.
 */
export class PendingCancellations {
  readonly #stops = new Map<string, RunStop>();

  note(runId: string, stop: RunStop): void {
    this.#stops.set(runId, stop);
    const [oldest] = this.#stops.size > MAX_NOTED ? this.#stops.keys() : [];
    if (oldest !== undefined) this.#stops.delete(oldest);
  }

  of(runId: string): RunStop | undefined {
    return this.#stops.get(runId);
  }
}
