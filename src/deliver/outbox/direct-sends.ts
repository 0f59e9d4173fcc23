import { waitAtMost } from "../../base/deadline.ts";
import type { Clock } from "../../base/clock.ts";
import type { Tracer } from "../../base/observe/trace.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { Attempt, type AttemptEnd, sendRow } from "./attempt.ts";
import { recordIn, type Recorded, rulesFor } from "./outcome.ts";
import { parseTarget, type Targets } from "../target.ts";

interface DirectSendsOptions {
  readonly targets: Targets;
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly store: Store;
  /** Delays before each retry where the target has none of its own, milliseconds. */
  readonly retryDelaysMs: readonly number[];
}

/** Makes attempts at messages whose senders wait for the outcome; the callers hold the leases. */
export class DirectSends {
  readonly #options: DirectSendsOptions;
  readonly #attempts = new Map<Attempt, Promise<AttemptEnd>>();
  #isClosed = false;

  constructor(options: DirectSendsOptions) {
    this.#options = options;
  }

  /** Makes one attempt. `stopped`: the service stops, and the message will be sent again. Never rejects. */
  async send(row: OutboxRow, timeoutMs: number): Promise<AttemptEnd> {
    if (this.#isClosed) return { status: "stopped" };
    const { platform } = parseTarget(row.target);
    if (this.#options.targets.get(platform)?.isReady?.() === false) return notReady(platform);
    const attempt = new Attempt();
    const end = sendRow(row, attempt, { ...this.#options, timeoutMs });
    this.#attempts.set(attempt, end);
    await end;
    this.#attempts.delete(attempt);
    return end;
  }

  /**
   * Records the outcome of an attempt like the dispatcher, which sends the message from then on if it is still pending.
   */
  record(tx: Tx, row: OutboxRow, end: AttemptEnd): Promise<Recorded> {
    const { targets, store, retryDelaysMs: delaysMs } = this.#options;
    const target = targets.get(parseTarget(row.target).platform);
    const rules = rulesFor(target, { delaysMs, random: Math.random });
    return recordIn(tx, store, { row, end }, { target, rules });
  }

  /** Waits up to `graceMs` for the running attempts and cuts the rest. */
  async close(graceMs: number): Promise<void> {
    await waitAtMost(this.#options.clock, graceMs, Promise.all(this.#attempts.values()));
    this.#isClosed = true;
    for (const attempt of this.#attempts.keys()) attempt.cut("stopped");
    await Promise.all(this.#attempts.values());
  }
}

/** Another process may hold the platform's only connection, or the platform asked to wait. */
function notReady(platform: string): AttemptEnd {
  return {
    status: "retry",
    isThrottled: true,
    error: `${platform} accepts no messages from this process for now.`,
  };
}
