import type { Claimed } from "./tick/claim.ts";
import { fire } from "./run/fire.ts";
import { meterFire } from "./metrics.ts";
import type { CronDeps } from "./deps.ts";
import { Ticker } from "./tick/ticker.ts";

/** The ticker of a room, which runs what it claims. */
export function createScheduler(deps: CronDeps): Ticker {
  const { store, clock, log, settings, homes, ends, metrics } = deps;
  const run = (claimed: Claimed) => fire(deps, claimed);
  return new Ticker({
    store,
    clock,
    log,
    settings,
    homes,
    fire: metrics ? meterFire(run, { metrics, store, clock }) : run,
    told: (occurrenceId) => ends.told(occurrenceId),
  });
}
