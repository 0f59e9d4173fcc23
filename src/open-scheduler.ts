/** The scheduler of a service. Loaded when there is one: most programs that share the store run no jobs. */
import type { AgentRoom } from "./agent-room.ts";
import { createCronRoom } from "./cron-room.ts";
import { createScheduler } from "./cron/scheduler.ts";
import type { Ticker } from "./cron/ticker.ts";
import type { Targets } from "./deliver/target.ts";
import type { CoreOptions } from "./service-options.ts";

/** It does not look for jobs before it is started. */
export function openScheduler(
  options: Pick<CoreOptions, "config" | "places">,
  { agentRoom, targets }: { readonly agentRoom: AgentRoom; readonly targets: Targets },
): Ticker {
  return createScheduler(createCronRoom(options, { ...agentRoom, targets }));
}
