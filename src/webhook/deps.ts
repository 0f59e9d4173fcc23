import type { Agent } from "../agent/agent.ts";
import type { Clock, RateLimiter } from "../base/time.ts";
import type { Log } from "../base/observe.ts";
import type { AttemptEnd } from "../deliver/outbox/attempt.ts";
import type { Homes } from "../deliver/address.ts";
import type { Store, Tx } from "../store/store.ts";
import type { OutboxRow } from "../store/schema/tables.ts";
import type { Coalescer } from "./receive/coalesce.ts";
import type { Deliveries } from "./deliveries/deliveries.ts";
import type { EvaluationPorts } from "./receive/ports.ts";
import type { WebhookRoutes } from "./routes/routes.ts";

/** Dependencies of the receiver. */
export interface WebhookDeps {
  readonly store: Store;
  readonly runs: Pick<Agent["runs"], "submit" | "draining">;
  readonly clock: Clock;
  readonly log: Log;
  readonly routes: WebhookRoutes;
  readonly rate: RateLimiter;
  readonly deliveries: Deliveries;
  readonly coalescer: Coalescer;
  readonly ports: EvaluationPorts;
  /** Home channels of the platforms. */
  readonly homes: Homes;
  /** Makes one attempt at a message that this process leases. Never rejects. */
  readonly send: (row: OutboxRow, timeoutMs: number) => Promise<AttemptEnd>;
  /** Records the result of an attempt inside `tx`; the outbox sends whatever is still pending. */
  readonly record: (tx: Tx, row: OutboxRow, end: AttemptEnd) => Promise<unknown>;
  /** Writes the verification token that a service sent to a route, for its owner. Resolves to the path of the file. */
  readonly keepVerificationToken: (route: string, token: string) => Promise<string>;
  /** Returns the names of all toolsets, including those of MCP servers and embedders. */
  readonly toolsets: () => readonly string[];
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  /** Absent when metrics are off. */
  readonly metrics?: WebhookMetrics;
}

/** Counters of the receiver. */
export interface WebhookMetrics {
  /**
   * The receiver answered a request to a route after `seconds`. `outcome` is the status of a success or the code of a
   * refusal. Route names are not part of it: a client that guesses names must not create new series.
   */
  answered(outcome: string, seconds: number): void;
}
