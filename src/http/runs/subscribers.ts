import { ServiceError } from "../../base/errors.ts";

/** Counts who follows each run: streams of its events, and those who wait for its end. */
export class RunSubscribers {
  readonly #max: number;
  readonly #counts = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a place; the returned function gives it back, once. ServiceError `too_many_subscribers`. */
  enter(runId: string): () => void {
    const count = this.#counts.get(runId) ?? 0;
    if (count >= this.#max) {
      throw new ServiceError(
        "too_many_subscribers",
        `${this.#max} clients follow this run, which is the limit (limits.max_subscribers_per_run).`,
        { retryAfterSeconds: 5 },
      );
    }
    this.#counts.set(runId, count + 1);
    let entered = true;
    return () => {
      if (!entered) return;
      entered = false;
      const left = (this.#counts.get(runId) ?? 1) - 1;
      if (left > 0) this.#counts.set(runId, left);
      else this.#counts.delete(runId);
    };
  }
}
