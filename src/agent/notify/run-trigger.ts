import type { Tx } from "../../store/store.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { Outcome } from "../run/outcome.ts";

/**
 * The origin of a run that keeps its own record of it, such as a webhook or a scheduled job. Called in the transactions
 * in which the run starts and ends, in whichever process that happens. It MUST NOT wait for anything but the transaction.
 */
export interface RunTrigger {
  /** Whether this trigger started the run, by its column `delivery`. */
  owns(delivery: string): boolean;
  /** Called for a run that was queued; `alsoRecord` handles one that starts as it is recorded. */
  started(tx: Tx, run: RunRow): Promise<void>;
  /** Called when the run's process has ended and the run is queued again. Absent: its runs never restart. */
  requeued?(tx: Tx, run: RunRow): Promise<void>;
  ended(tx: Tx, run: RunRow, outcome: Outcome): Promise<void>;
}

/** Joins several triggers into one, which calls the first that owns the run, if any. */
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

/** Where the answer of a run goes: the JSON in the column `delivery` of runs that a webhook asked for. Pure. */

export interface RunDelivery {
  /** Id of the webhook's delivery, `dlv_...`. First, since {@link isRunDelivery} goes by it. */
  readonly ref: string;
  /** Addresses of targets, each `platform` or `platform:rest`. */
  readonly targets: readonly string[];
  /** Targets that get a notice when a run does not complete. */
  readonly failure: readonly FailureTarget[];
  /** Fields for the targets besides the text. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** True: an answer with [SILENT] is not sent. */
  readonly suppressesSilence?: boolean;
}

export interface FailureTarget {
  readonly target: string;
  /** notice: one sentence without details of this service; reason: with the cause. */
  readonly says: "notice" | "reason";
}

/** Marks an answer that should not be sent. */
export const SILENT = "[SILENT]";

/** Whether the column `delivery` is a {@link RunDelivery}, by its first bytes: the end of a run parses no foreign JSON. */
export function isRunDelivery(delivery: string): boolean {
  return delivery.startsWith('{"ref":"dlv_');
}

export function readDelivery(delivery: string): RunDelivery {
  return JSON.parse(delivery) as RunDelivery;
}
