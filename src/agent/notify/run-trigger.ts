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
  const ownerOf = ({ delivery }: RunRow) =>
    delivery === null ? undefined : triggers.find((trigger) => trigger.owns(delivery));
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
  /** Who hears of a run that did not complete. */
  readonly failure: readonly FailureTarget[];
  /** What the targets ask for besides the text. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** True: an answer that says [SILENT] is not sent. */
  readonly suppressesSilence?: boolean;
}

export interface FailureTarget {
  readonly target: string;
  /** notice: one sentence, which names nothing of this service; reason: why, too. */
  readonly says: "notice" | "reason";
}

/** What an answer holds that is not meant to be sent. */
export const SILENT = "[SILENT]";

/** Only these begin like this; a run's end is no place to parse what is another's. */
export function isRunDelivery(delivery: string): boolean {
  return delivery.startsWith('{"ref":"dlv_');
}

export function readDelivery(delivery: string): RunDelivery {
  return JSON.parse(delivery) as RunDelivery;
}
