import type { Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { Outcome } from "../run/outcome.ts";

/**
 * What asked for a run and keeps a record of its own of it, such as a webhook or a scheduled job. Called in the
 * transactions in which the run starts and ends, in whatever process that happens. It MUST NOT wait for anything but the
 * transaction.
 */
export interface RunTrigger {
  /** Whether the run is one of its own, by its column `delivery`. */
  owns(delivery: string): boolean;
  /** Of a run that waited; one that starts as it is recorded is handled by `alsoRecord`. */
  started(tx: Tx, run: RunRow): Promise<void>;
  /** The run's process is gone, and the run waits to start again. Absent: its runs never do. */
  requeued?(tx: Tx, run: RunRow): Promise<void>;
  ended(tx: Tx, run: RunRow, outcome: Outcome): Promise<void>;
}

/** Several as one: of a run the first that owns it is called, and none for a run that nobody owns. */
export function joinTriggers(triggers: readonly RunTrigger[]): RunTrigger {
  const ownerOf = ({ reply_to: replyTo }: RunRow) =>
    replyTo === null ? undefined : triggers.find((trigger) => trigger.owns(replyTo));
  return {
    owns: (delivery) => triggers.some((trigger) => trigger.owns(delivery)),
    started: async (tx, run) => ownerOf(run)?.started(tx, run),
    requeued: async (tx, run) => ownerOf(run)?.requeued?.(tx, run),
    ended: async (tx, run, outcome) => ownerOf(run)?.ended(tx, run, outcome),
  };
}
