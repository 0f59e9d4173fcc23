import { closeSettledOccurrence } from "../cron/run/end-occurrence.ts";
import type { Tx } from "../store/store.ts";
import type { OutboxRow } from "../store/schema/tables.ts";
import { closeSettledDelivery } from "../webhook/deliveries/trigger.ts";

/** Tells whoever owed a message, in `tx`, that it was sent, or will not be. */
export async function settleMessage(tx: Tx, message: Pick<OutboxRow, "ref">): Promise<void> {
  await closeSettledDelivery(tx, message);
  await closeSettledOccurrence(tx, message);
}
