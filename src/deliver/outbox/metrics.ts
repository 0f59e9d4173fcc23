import type { SendOutcome, Target, Targets } from "../target.ts";
import { countMessages, type MessageStatus } from "../../store/outbox/messages.ts";
import type { Store } from "../../store/store.ts";
import { platforms } from "../message.ts";

/** The outcome of an attempt. `cut`: it timed out, its lease was lost, or the service stopped. */
type AttemptOutcome = SendOutcome["status"] | "throttled" | "cut";

/** The metrics of outbound messages. */
export interface DeliveryMetrics {
  /** Counts an attempt that ended in this process. */
  attempted(platform: string, outcome: AttemptOutcome): void;
  /** Records that a message arrived `seconds` after it was enqueued. */
  delivered(platform: string, seconds: number): void;
}

interface MeterOptions {
  readonly metrics: DeliveryMetrics;
  /** Unix milliseconds. */
  readonly now: () => number;
}

/** Returns the same targets with every attempt counted. */
export function meterTargets(targets: Targets, options: MeterOptions): Targets {
  return new Map([...targets].map(([name, target]) => [name, meterTarget(target, options)]));
}

/** A target's properties may change while it lives, so everything but `send` is read from it. */
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
    // After an abort the attempt is over, whatever the target still does.
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

/** Number of messages by status. */
export interface OutboxCounts {
  readonly due: number;
  readonly sending: number;
  /** No attempt is left. */
  readonly dead: number;
  /** They may have arrived. */
  readonly unknown: number;
}

export interface OutboxStats {
  readonly all: OutboxCounts;
  /** When the oldest due message was enqueued, Unix milliseconds. */
  readonly oldestDueAtMs: number | undefined;
  /** Counts by platform. Unknown platforms count as `other`. */
  readonly byPlatform: ReadonlyMap<string, OutboxCounts>;
}

const NONE: OutboxCounts = { due: 0, sending: 0, dead: 0, unknown: 0 };
const COUNTED: Readonly<Partial<Record<MessageStatus, keyof OutboxCounts>>> = {
  due: "due",
  leased: "sending",
  dead: "dead",
  unknown: "unknown",
};

/** Returns the message counts of the whole database. Throws ServiceError `state_store_unavailable`. */
export async function readOutboxStats(store: Store): Promise<OutboxStats> {
  const byPlatform = new Map<string, OutboxCounts>();
  let all = NONE;
  let oldestDueAtMs: number | undefined;
  for (const { platform, status, count, oldestAtMs } of await countMessages(store)) {
    const key = COUNTED[status];
    if (key === undefined) continue;
    const name = Object.hasOwn(platforms, platform) ? platform : "other";
    const before = byPlatform.get(name) ?? NONE;
    byPlatform.set(name, { ...before, [key]: before[key] + count });
    all = { ...all, [key]: all[key] + count };
    if (key === "due") oldestDueAtMs = Math.min(oldestDueAtMs ?? Infinity, oldestAtMs);
  }
  return { all, oldestDueAtMs, byPlatform };
}
