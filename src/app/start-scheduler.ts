/** The scheduler of a service. Loaded when there is one: most programs that share the store run no jobs. */
import { createCronRoom } from "./wire-cron.ts";
import { createScheduler } from "../cron/scheduler.ts";
import type { Ticker } from "../cron/tick/ticker.ts";
import type { Rooms } from "./wire.ts";
import type { CoreOptions } from "./options.ts";

/** It does not look for jobs before it is started. */
export function openScheduler(
  options: Pick<CoreOptions, "config" | "places">,
  { agentRoom, targets, telemetry }: Pick<Rooms, "agentRoom" | "targets" | "telemetry">,
): Ticker {
  return createScheduler({ ...createCronRoom(options, { ...agentRoom, targets }), ...telemetry.cron });
}
