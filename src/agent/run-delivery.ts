import type { Store, Tx } from "../store/store.ts";
import type { RunRow } from "../store/tables.ts";
import type { Outcome } from "./outcome.ts";

/** Where the answer of a run goes: the text in its row. */
export interface RunDelivery {
  /** Addresses of targets, each `platform` or `platform:rest`. */
  readonly targets: readonly string[];
  /** What the targets ask for besides the text. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** What owes it: the id of a webhook's delivery or of a cron job's occurrence. */
  readonly ref: string;
  /** True: an answer that says [SILENT] is not sent. */
  readonly suppressesSilence?: boolean;
  readonly maxAttempts?: number;
}

/** Earlier versions knew one target; their runs may still wait. */
type StoredDelivery = RunDelivery | (Omit<RunDelivery, "targets"> & { readonly target: string });

/**
 * Notes in the record of the delivery that asked for a run that the run, which waited, has started, inside `tx`. Of one
 * that starts as it is recorded the record says so from the beginning.
 */
export async function runDeliveryStarted(tx: Tx, run: RunRow): Promise<void> {
  if (run.delivery === null) return;
  const { ref } = readDelivery(run.delivery);
  await tx.update("deliveries", { id: ref, status: "accepted" }, { status: "running" });
}

/** What an answer holds that is not meant to be sent. */
export const SILENT = "[SILENT]";

/**
 * Owes the answer of a run to the targets it was asked for, and closes the record of the delivery that asked, in the
 * transaction that ends the run: once the run has ended, nothing but the outbox is needed to send it. Of a run that did
 * not complete people are told that it did not.
 */
export async function oweRunDelivery(tx: Tx, store: Store, run: RunRow, outcome: Outcome): Promise<void> {
  if (run.delivery === null) return;
  const delivery = readDelivery(run.delivery);
  const text = textOf(outcome);
  const { ref, suppressesSilence } = delivery;
  const isSilent = suppressesSilence === true && outcome.status === "completed" && text.includes(SILENT);
  const first = isSilent ? undefined : await oweToAll(tx, store, { delivery, text });
  // A run that somebody stopped is one that did not come to its end.
  const status = outcome.status === "cancelled" ? "interrupted" : outcome.status;
  const ended = { status, reason: reasonOf(outcome) ?? null };
  await tx.update("deliveries", { id: ref }, { ...ended, outbox_id: first ?? null, ended_at: tx.nowMs });
}

/** Resolves to the id of the first message. */
async function oweToAll(
  tx: Tx,
  { outbox }: Store,
  { delivery, text }: { readonly delivery: RunDelivery; readonly text: string },
): Promise<string | undefined> {
  const { targets, extra, ref, maxAttempts } = delivery;
  const ids: string[] = [];
  for (const target of targets) {
    const message = { target, payload: { text, extra }, ref };
    ids.push(await outbox.owe(tx, { ...message, ...(maxAttempts === undefined ? {} : { maxAttempts }) }));
  }
  return ids[0];
}

/** What stands in the column of a run that a webhook asked for. */
export function readDelivery(text: string): RunDelivery {
  const stored = JSON.parse(text) as StoredDelivery;
  return "targets" in stored ? stored : { ...stored, targets: [stored.target] };
}

function textOf(outcome: Outcome): string {
  if (outcome.status === "completed") return outcome.set.output ?? "";
  return `The agent's run ended as ${outcome.status}: ${reasonOf(outcome) ?? "no reason was told"}`;
}

function reasonOf({ event }: Outcome): string | undefined {
  const { error, reason } = event.data as {
    readonly error?: { readonly message: string };
    readonly reason?: string;
  };
  return error?.message ?? reason;
}
