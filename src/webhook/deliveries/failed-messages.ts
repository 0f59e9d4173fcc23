/** Ids of messages that no target took: when their sender tries again the targets hear the same ids. */
import { isRecord } from "../../base/json/schema.ts";
import type { Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { ID_KEEP_MS, type DeliveryName } from "../receive/dedupe.ts";

type Name = Pick<DeliveryName, "route" | "deliveryId">;

/** Keeps the ids of a delivery that failed for as long as its own id would be known, inside `tx`. */
export async function keepFailed(
  tx: Tx,
  name: Name,
  messages: readonly Pick<OutboxRow, "id" | "target">[],
): Promise<void> {
  const place = placeOf(name);
  const result = JSON.stringify(Object.fromEntries(messages.map(({ id, target }) => [target, id])));
  const set = { result, expires_at: tx.nowMs + ID_KEEP_MS };
  if ((await tx.update("ledger", place, set)) > 0) return;
  const row = {
    ...place,
    ...set,
    fingerprint: name.deliveryId,
    status: "done",
    owner: "",
    created_at: tx.nowMs,
  };
  await tx.insert("ledger", [row]);
}

/**
 * Owes a message once more under the id under which it failed, when it did, inside `tx`. Undefined: it is a new one, also
 * when the sender's id stood for another text: a target that took that one, and could not say so, would take this one for
 * a repeat.
 */
export async function enqueueFailed(
  tx: Tx,
  name: Name,
  message: { readonly target: string; readonly payload: unknown; readonly ref: string },
): Promise<string | undefined> {
  const known = await tx.find("ledger", placeOf(name));
  if (!known?.result || known.expires_at <= tx.nowMs) return undefined;
  const ids = JSON.parse(known.result) as unknown;
  const id = isRecord(ids) && Object.hasOwn(ids, message.target) ? String(ids[message.target]) : undefined;
  const row = id === undefined ? undefined : await tx.find("outbox", { id });
  if (row?.status !== "dead" || row.payload !== JSON.stringify(message.payload)) return undefined;
  const due = { status: "due", attempts: 0, available_at: tx.nowMs, retried_at: tx.nowMs, done_at: null };
  const again = { ...due, ref: message.ref, last_error: null };
  const changed = await tx.update("outbox", { id: row.id, status: "dead" }, again);
  return changed === 1 ? row.id : undefined;
}

const placeOf = ({ route, deliveryId }: Name) => ({ scope: `webhook-failed:${route}`, key: deliveryId });
