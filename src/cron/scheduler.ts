import { fire } from "./fire.ts";
import type { CronRoom } from "./room.ts";
import { Ticker } from "./ticker.ts";

/** The ticker of a room, which runs what it claims. */
export function createScheduler(room: CronRoom): Ticker {
  const { store, clock, log, settings, homes, ends } = room;
  return new Ticker({
    store,
    clock,
    log,
    settings,
    homes,
    fire: (claimed) => fire(room, claimed),
    told: (occurrenceId) => ends.told(occurrenceId),
  });
}
