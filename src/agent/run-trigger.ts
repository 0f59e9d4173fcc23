import type { Tx } from "../store/store.ts";
import type { RunRow } from "../store/tables.ts";
import type { Outcome } from "./outcome.ts";

/**
 * What asked for a run and keeps a record of its own of it, such as a job of the clock. Told in the transactions in which
 * the run starts and ends, in whatever process that happens. It MUST NOT wait for anything but the transaction.
 */
export interface RunTrigger {
  /** Whether the run is one of its own, by what stands in its column `delivery`. */
  owns(delivery: string): boolean;
  /** Of a run that waited; one that starts as it is recorded is told by `alsoRecord`. */
  started(tx: Tx, run: RunRow): Promise<void>;
  ended(tx: Tx, run: RunRow, outcome: Outcome): Promise<void>;
}
