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
