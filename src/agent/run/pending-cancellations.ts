import { LruMap } from "../../base/lru.ts";
import type { RunStop } from "./stop.ts";

const MAX_NOTED = 1_000;

/**
 * Runs that were to stop while they waited: one that begins before that is written does nothing. Only the last 1,000 are
 * known; of others the store alone decides.
 */
export class PendingCancellations {
  readonly #stops = new LruMap<string, RunStop>(MAX_NOTED);

  note(runId: string, stop: RunStop): void {
    this.#stops.set(runId, stop);
  }

  of(runId: string): RunStop | undefined {
    return this.#stops.get(runId);
  }
}
