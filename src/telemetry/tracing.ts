import { waitAtMost } from "../base/deadline.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import { offTracer } from "../base/observe/trace.ts";
import type { ExportFailure, OtlpModule, Tracing, TracingSettings } from "./settings.ts";

export interface TracingOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Loads what sends spans. For tests. */
  readonly load?: () => Promise<OtlpModule>;
}

/** Longest wait for the last spans when the service stops. */
const CLOSE_MS = 3_000;
/** A collector that is away is told of so often and no more. */
const COMPLAINT_MS = 60_000;

/**
 * The tracer of a service: without settings one that does nothing, and then nothing is loaded. Telemetry never stands
 * in the way: what sends it is loaded in its own time, and when that fails the service runs without.
 */
export async function openTracing(
  settings: TracingSettings | undefined,
  options: TracingOptions,
): Promise<Tracing> {
  if (!settings) return { tracer: offTracer, close: async () => {} };
  const { clock, log, load = () => import("./otlp.ts") } = options;
  try {
    const { createOtlpTracer } = await load();
    const { tracer, close } = createOtlpTracer(settings, complain(log, clock));
    return { tracer, close: () => within(CLOSE_MS, clock, close) };
  } catch (error) {
    log.warn("traces cannot be sent; the service runs without", { error });
    return { tracer: offTracer, close: async () => {} };
  }
}

/** Logs the first failure, and later ones once a minute, with how many spans were lost since. */
function complain(log: Log, clock: Clock): (failure: ExportFailure) => void {
  let lost = 0;
  let nextMs = 0;
  return ({ reason, spans }) => {
    lost += spans;
    if (clock.now() < nextMs) return;
    log.warn("traces could not be sent", { reason, lost });
    lost = 0;
    nextMs = clock.now() + COMPLAINT_MS;
  };
}

async function within(ms: number, clock: Clock, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const late = new AbortController();
  await waitAtMost(clock, ms, work(late.signal));
  late.abort();
}
