import type { Store, Tx } from "../store/store.ts";
import type { RunRow } from "../store/tables.ts";
import type { Outcome } from "./outcome.ts";

/** Where the answer of a run goes: the text in its row. */
export interface RunDelivery {
  /** Address of the target, `platform` or `platform:rest`. */
  readonly target: string;
  /** What the target asks for besides the text. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** What owes it: the id of a webhook's delivery or of a cron job's occurrence. */
  readonly ref: string;
  /** True: an answer that says [SILENT] is not sent. */
  readonly suppressesSilence?: boolean;
  readonly maxAttempts?: number;
}

/** What an answer holds that is not meant to be sent. */
export const SILENT = "[SILENT]";

/**
 * Owes the answer of a run that completed to the target it was asked for, in the transaction that ends the run: once
 * the run has ended, nothing but the outbox is needed to send it. Of one that failed people are told that it did.
 */
export async function oweRunDelivery(tx: Tx, store: Store, run: RunRow, outcome: Outcome): Promise<void> {
  if (run.delivery === null) return;
  const { target, extra, ref, suppressesSilence, maxAttempts } = JSON.parse(run.delivery) as RunDelivery;
  const text = textOf(outcome);
  if (suppressesSilence === true && outcome.status === "completed" && text.includes(SILENT)) return;
  await store.outbox.owe(tx, {
    target,
    payload: { text, extra },
    ref,
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
  });
}

function textOf({ status, set, event }: Outcome): string {
  if (status === "completed") return set.output ?? "";
  const { error, reason } = event.data as {
    readonly error?: { readonly message: string };
    readonly reason?: string;
  };
  return `The agent's run ended as ${status}: ${error?.message ?? reason ?? "no reason was told"}`;
}
