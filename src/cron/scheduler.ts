import type { Claimed } from "./claim.ts";
import { fire } from "./fire.ts";
import { meterFire } from "./metrics.ts";
import type { CronRoom } from "./room.ts";
import { Ticker } from "./ticker.ts";

/** The ticker of a room, which runs what it claims. */
export function createScheduler(room: CronRoom): Ticker {
  const { store, clock, log, settings, homes, ends, metrics } = room;
  const run = (claimed: Claimed) => fire(room, claimed);
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
