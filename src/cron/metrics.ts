import type { Clock } from "../base/clock.ts";
import type { Store } from "../store/store.ts";
import type { Claimed } from "./tick/claim.ts";
import { jitterMs } from "./schedule/jitter.ts";

/** What is counted of jobs. */
export interface CronMetrics {
  /** A run began in this process, so many seconds behind the instant at which it was due. */
  began(seconds: number): void;
  /** An occurrence that began in this process came to its end. */
  ended(status: string): void;
}

/** The same work, whose beginnings and ends are counted. Never rejects when `fire` does not. */
export function meterFire(
  fire: (claimed: Claimed) => Promise<void>,
  { metrics, store, clock }: { readonly metrics: CronMetrics; readonly store: Store; readonly clock: Clock },
): (claimed: Claimed) => Promise<void> {
  return async (claimed) => {
    const { occurrence, job } = claimed;
    const jitter = occurrence.cause === "schedule" ? jitterMs(job, occurrence.scheduled_at) : 0;
    metrics.began(Math.max(0, clock.now() - occurrence.scheduled_at - jitter) / 1000);
    await fire(claimed);
    // Where the database does not tell, the end is another process's to count.
    const ended = await store.find("occurrences", { id: occurrence.id }).catch(() => undefined);
    if (ended && ended.ended_at !== null) metrics.ended(ended.status);
  };
}
