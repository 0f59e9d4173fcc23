import type { Tx } from "../store/store.ts";
import type { OutboxRow } from "../store/tables.ts";
import { freeNamesLeft } from "./known.ts";

/**
 * Closes the record of a direct delivery whose message was sent, or given up, by the outbox: whoever took the request is
 * gone. Of one that was given up the names are free again: the sender, who heard nothing of it, may try once more.
 * Nothing happens for other messages, whose records are closed already.
 */
export async function closeSettledDelivery(
  tx: Tx,
  { id: outboxId, ref }: OutboxRow,
  end: { readonly status: "delivered" } | { readonly status: "dead" | "unknown"; readonly error: string },
): Promise<void> {
  if (!ref?.startsWith("dlv_")) return;
  const set = end.status === "delivered" ? { status: "delivered" } : { status: "failed", reason: end.error };
  const open = { id: ref, outbox_id: outboxId, ended_at: null };
  const closed = await tx.update("deliveries", open, { ...set, ended_at: tx.nowMs });
  // Of what may have arrived the names stay taken.
  if (closed === 0 || end.status !== "dead") return;
  const row = await tx.find("deliveries", { id: ref });
  if (row) await freeNamesLeft(tx, { route: row.route, deliveryId: row.delivery_id });
}
