import { closeSettledOccurrence } from "../cron/run/settled.ts";
import type { Tx } from "../store/store.ts";
import type { OutboxRow } from "../store/schema/tables.ts";
import { closeSettledDelivery } from "../webhook/deliveries/settled.ts";

/** Tells whoever owed a message, in `tx`, that it was sent, or will not be. */
export async function settleMessage(tx: Tx, message: Pick<OutboxRow, "ref">): Promise<void> {
  await closeSettledDelivery(tx, message);
  await closeSettledOccurrence(tx, message);
}
