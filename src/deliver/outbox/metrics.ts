import type { SendOutcome, Target, Targets } from "../target.ts";

/** How an attempt went; `cut`: its time was up, its lease was lost, or the service ended. */
export type AttemptOutcome = SendOutcome["status"] | "throttled" | "cut";

/** What is counted of deliveries. */
export interface DeliveryMetrics {
  /** An attempt came to an end in this process. */
  attempted(platform: string, outcome: AttemptOutcome): void;
  /** A message arrived, so many seconds after it was owed. */
  delivered(platform: string, seconds: number): void;
}

export interface MeterOptions {
  readonly metrics: DeliveryMetrics;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/** The same targets, whose attempts are counted whoever makes them. */
export function meterTargets(targets: Targets, options: MeterOptions): Targets {
  return new Map([...targets].map(([name, target]) => [name, meterTarget(target, options)]));
}

/** What the target says of itself may change while it lives: all but `send` is asked of it anew. */
function meterTarget(target: Target, options: MeterOptions): Target {
  const send = measured(target, options);
  return new Proxy(target, {
    get(_, key) {
      if (key === "send") return send;
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

function measured(target: Target, { metrics, now }: MeterOptions): Target["send"] {
  return async (delivery, options) => {
    const { signal } = options;
    let isOver = false;
    const end = (outcome: AttemptOutcome) => {
      if (isOver) return;
      isOver = true;
      signal.removeEventListener("abort", onAbort);
      metrics.attempted(target.name, outcome);
      if (outcome === "delivered") {
        metrics.delivered(target.name, Math.max(0, now() - delivery.createdAtMs) / 1000);
      }
    };
    // The attempt is over then, whatever the target still does.
    const onAbort = () => end("cut");
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    try {
      const outcome = await target.send(delivery, options);
      const isThrottled = outcome.status === "retry" && outcome.isThrottled === true;
      end(isThrottled ? "throttled" : outcome.status);
      return outcome;
    } catch (error) {
      end("retry");
      throw error;
    }
  };
}
