import type { CronDeps } from "./deps.ts";
import { fire } from "./run/fire.ts";
import { jitterMs } from "./schedule/upcoming.ts";
import type { Claimed } from "./tick/claim.ts";
import { Ticker } from "./tick/ticker.ts";

/** Returns a ticker that runs what it claims with `deps`. */
export function createScheduler(deps: CronDeps): Ticker {
  const { store, clock, log, settings, homes, ends } = deps;
  return new Ticker({
    store,
    clock,
    log,
    settings,
    homes,
    fire: meterFire((claimed) => fire(deps, claimed), deps),
    onEndedElsewhere: (occurrenceId) => ends.resolve(occurrenceId),
  });
}

/** Returns `fire` with its starts and ends counted. Never rejects when `fire` does not. */
function meterFire(
  fire: (claimed: Claimed) => Promise<void>,
  { metrics, store, clock }: Pick<CronDeps, "metrics" | "store" | "clock">,
): (claimed: Claimed) => Promise<void> {
  if (!metrics) return fire;
  return async (claimed) => {
    const { occurrence, job } = claimed;
    const jitter = occurrence.cause === "schedule" ? jitterMs(job, occurrence.scheduled_at) : 0;
    metrics.began(Math.max(0, clock.now() - occurrence.scheduled_at - jitter) / 1000);
    await fire(claimed);
    // When the database cannot say, another process ends the occurrence and counts it.
    const ended = await store.find("occurrences", { id: occurrence.id }).catch(() => undefined);
    if (ended && ended.ended_at !== null) metrics.ended(ended.status);
  };
}
