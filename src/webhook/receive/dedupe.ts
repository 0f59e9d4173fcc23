/** Finds deliveries that a sender repeats, by their ids and by signatures that sign the time. */
import { sha256 } from "../../base/digest.ts";
import { isRecord } from "../../base/json/schema.ts";
import { deleteDedupeKeys, type DeliveryMessage } from "../queries.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { DeliveryRow } from "../../store/schema/tables.ts";

/** Thrown inside a transaction, which it rolls back: another delivery has the key. */
export class DuplicateDelivery extends Error {
  override readonly name = "DuplicateDelivery";
}

/** How long the sender's id identifies a delivery. */
const ID_KEEP_MS = 3_600_000;
/** Twice the largest tolerance of a route. After that the signature is stale. */
const SIGNATURE_KEEP_MS = 1_800_000;

export interface DedupeKey {
  readonly route: string;
  readonly deliveryId: string;
  /** Identifies the signature, when its scheme signs the time. */
  readonly nonce: string | undefined;
}

/** `delivery`: the id of the record, `dlv_...`. */
type RecordedKey = DedupeKey & { readonly delivery: string };

/** Claims the key inside `tx`, until {@link commitKey} or {@link releaseKey}. DuplicateDelivery when it is taken. */
export async function reserveKey(tx: Tx, { ledger }: Store, key: DedupeKey): Promise<void> {
  for (const { keepMs, ...entry } of entriesOf(key)) {
    const claim = await ledger.claim(tx, { ...entry, fingerprint: key.deliveryId, leaseMs: keepMs });
    if (!claim.claimed) throw new DuplicateDelivery();
  }
}

/** Reserves and commits the key in one step, for a delivery that `tx` records completely. */
export async function recordKey(tx: Tx, { ledger }: Store, { delivery, ...key }: RecordedKey): Promise<void> {
  for (const entry of entriesOf(key)) {
    const claim = await ledger.record(tx, { ...entry, fingerprint: key.deliveryId, result: delivery });
    if (!claim.claimed) throw new DuplicateDelivery();
  }
}

/** Keeps a reserved key for its whole time, inside `tx`. */
export async function commitKey(tx: Tx, { ledger }: Store, { delivery, ...key }: RecordedKey): Promise<void> {
  for (const { keepMs, ...entry } of entriesOf(key))
    await ledger.finish(tx, entry, { result: delivery, keepMs });
}

/** Frees a reserved key, so that the sender may try again. */
export async function releaseKey(tx: Tx, { ledger }: Store, dedupeKey: DedupeKey): Promise<void> {
  for (const { scope, key } of entriesOf(dedupeKey)) await ledger.release(tx, { scope, key });
}

/** Frees every key of a delivery, in any process and without its signature. */
export async function releaseAllKeys(
  tx: Tx,
  { id, route, delivery_id: deliveryId }: Pick<DeliveryRow, "id" | "route" | "delivery_id">,
): Promise<void> {
  await deleteDedupeKeys(tx, { scopes: [idScope(route), signatureScope(route)], deliveryId, delivery: id });
}

/** Returns the id of the delivery that has the key. Undefined: the request is new. */
export async function findDuplicate(
  store: Store,
  { nowMs, ...dedupeKey }: DedupeKey & { readonly nowMs: number },
): Promise<string | undefined> {
  for (const { scope, key } of entriesOf(dedupeKey)) {
    const row = await store.find("ledger", { scope, key });
    if (row && row.expires_at > nowMs) return row.fingerprint;
  }
  return undefined;
}

function entriesOf({ route, deliveryId, nonce }: DedupeKey) {
  const id = { scope: idScope(route), key: deliveryId, keepMs: ID_KEEP_MS };
  if (nonce === undefined) return [id];
  return [id, { scope: signatureScope(route), key: sha256(nonce), keepMs: SIGNATURE_KEEP_MS }];
}

const idScope = (route: string): string => `webhook:${route}`;
const signatureScope = (route: string): string => `webhook-signature:${route}`;

type FailedDelivery = Pick<DedupeKey, "route" | "deliveryId">;

/**
 * Keeps the message ids of a failed delivery for as long as its own id would be kept, inside `tx`. When the sender tries
 * again, the targets get the same ids.
 */
export async function keepFailedMessages(
  tx: Tx,
  failed: FailedDelivery,
  messages: readonly Pick<DeliveryMessage, "id" | "target">[],
): Promise<void> {
  const key = failedKey(failed);
  const result = JSON.stringify(Object.fromEntries(messages.map(({ id, target }) => [target, id])));
  const set = { result, expires_at: tx.nowMs + ID_KEEP_MS };
  if ((await tx.update("ledger", key, set)) > 0) return;
  const entry = { ...key, ...set, fingerprint: failed.deliveryId, status: "done" };
  await tx.insert("ledger", [{ ...entry, owner: "", created_at: tx.nowMs }]);
}

/**
 * Enqueues a message again under the id with which it failed, inside `tx`. Undefined: it did not fail, or it failed with
 * another text. A target that received that text without saying so would drop this one as a repeat.
 */
export async function requeueFailedMessage(
  tx: Tx,
  failed: FailedDelivery,
  message: { readonly target: string; readonly payload: unknown; readonly ref: string },
): Promise<string | undefined> {
  const entry = await tx.find("ledger", failedKey(failed));
  if (!entry?.result || entry.expires_at <= tx.nowMs) return undefined;
  const ids = JSON.parse(entry.result) as unknown;
  const id = isRecord(ids) && Object.hasOwn(ids, message.target) ? String(ids[message.target]) : undefined;
  const row = id === undefined ? undefined : await tx.find("outbox", { id });
  if (row?.status !== "dead" || row.payload !== JSON.stringify(message.payload)) return undefined;
  const due = { status: "due", attempts: 0, available_at: tx.nowMs, retried_at: tx.nowMs, done_at: null };
  const again = { ...due, ref: message.ref, last_error: null };
  const changed = await tx.update("outbox", { id: row.id, status: "dead" }, again);
  return changed === 1 ? row.id : undefined;
}

const failedKey = ({ route, deliveryId }: FailedDelivery) => ({
  scope: `webhook-failed:${route}`,
  key: deliveryId,
});
