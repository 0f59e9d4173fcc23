/** The scheduler of a service. Loaded when there is one: most programs that share the store run no jobs. */
import { wireCron } from "./wire-cron.ts";
import { createScheduler } from "../cron/scheduler.ts";
import type { Ticker } from "../cron/tick/ticker.ts";
import type { WiredService } from "./wire.ts";
import type { CoreOptions } from "./options.ts";

/** It does not look for jobs before it is started. */
export function openScheduler(
  options: Pick<CoreOptions, "config" | "paths">,
  { wiredAgent, targets, telemetry }: Pick<WiredService, "wiredAgent" | "targets" | "telemetry">,
): Ticker {
  return createScheduler({ ...wireCron(options, { ...wiredAgent, targets }), ...telemetry.cron });
}
