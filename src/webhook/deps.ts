import type { RunScheduler } from "../agent/run/scheduler.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { RateLimiter } from "../base/rate-limiter.ts";
import type { AttemptEnd } from "../deliver/outbox/attempt.ts";
import type { Homes } from "../deliver/address.ts";
import type { Store, Tx } from "../store/store.ts";
import type { OutboxRow } from "../store/schema/tables.ts";
import type { Coalescer } from "./receive/coalesce.ts";
import type { Deliveries } from "./deliveries/deliveries.ts";
import type { EvaluationPorts } from "./receive/evaluate.ts";
import type { WebhookMetrics } from "./metrics.ts";
import type { WebhookRoutes } from "./routes/routes.ts";

/** What the receiver is built from. */
export interface WebhookDeps {
  readonly store: Store;
  readonly runs: Pick<RunScheduler, "submit" | "draining">;
  readonly clock: Clock;
  readonly log: Log;
  readonly routes: WebhookRoutes;
  readonly rate: RateLimiter;
  readonly deliveries: Deliveries;
  readonly coalescer: Coalescer;
  readonly ports: EvaluationPorts;
  /** Home channels of the platforms. */
  readonly homes: Homes;
  /** Makes one attempt at a message whose lease is held here. Never rejects. */
  readonly send: (row: OutboxRow, timeoutMs: number) => Promise<AttemptEnd>;
  /** Writes how that went, inside a transaction: what stays owed is the outbox's from then on. */
  readonly record: (tx: Tx, row: OutboxRow, end: AttemptEnd) => Promise<unknown>;
  /** Names of those that the configuration offers, and of those that servers and embedders brought. */
  readonly toolsets: () => readonly string[];
  /** Whose sessions the runs are in. */
  readonly owner: string;
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  /** Absent: metrics are off. */
  readonly metrics?: WebhookMetrics;
}
