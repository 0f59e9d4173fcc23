/** Which deliveries were taken: by their ids, and by the signatures that bind a time. */
import { sha256 } from "../../base/digest.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { DeliveryRow } from "../../store/schema/tables.ts";

/** The delivery was taken before; thrown inside a transaction, which it undoes. */
export class KnownDelivery extends Error {
  override readonly name = "KnownDelivery";
}

/** How long a sender's id is known. */
export const ID_KEEP_MS = 3_600_000;
/** How long a signature is known: twice the most that a route lets clocks differ. Later it is stale. */
const SIGNATURE_KEEP_MS = 1_800_000;

export interface DeliveryName {
  readonly route: string;
  readonly deliveryId: string;
  /** The signature itself, of a scheme that binds the time. */
  readonly once: string | undefined;
}

/** Takes the names of a delivery, inside `tx`, until {@link keepName} or {@link freeName}. KnownDelivery when one is taken. */
export async function reserveName(tx: Tx, { ledger }: Store, name: DeliveryName): Promise<void> {
  for (const { keepMs, ...each } of namesOf(name)) {
    const claim = await ledger.claim(tx, { ...each, fingerprint: name.deliveryId, leaseMs: keepMs });
    if (!claim.claimed) throw new KnownDelivery();
  }
}

/**
 * As {@link reserveName} and {@link keepName} in one, for a delivery that `tx` takes whole. `delivery`: the id of its record,
 * `dlv_...`.
 */
export async function takeName(
  tx: Tx,
  { ledger }: Store,
  { delivery, ...name }: DeliveryName & { readonly delivery: string },
): Promise<void> {
  for (const each of namesOf(name)) {
    const claim = await ledger.record(tx, { ...each, fingerprint: name.deliveryId, result: delivery });
    if (!claim.claimed) throw new KnownDelivery();
  }
}

/** The names stay taken for their time, inside `tx`. */
export async function keepName(
  tx: Tx,
  { ledger }: Store,
  { delivery, ...name }: DeliveryName & { readonly delivery: string },
): Promise<void> {
  for (const { keepMs, ...each } of namesOf(name))
    await ledger.finish(tx, each, { result: delivery, keepMs });
}

/** Nothing came of it: the sender may try again under the same names. */
export async function freeName(tx: Tx, { ledger }: Store, name: DeliveryName): Promise<void> {
  for (const { scope, key } of namesOf(name)) await ledger.release(tx, { scope, key });
}

/**
 * As {@link freeName}, by whoever ends the delivery, in whatever process, and whatever its signature was. Names that ran out
 * meanwhile may be those of a later delivery with the same id: they stay taken.
 */
export async function freeAllNames(
  tx: Tx,
  { id, route, delivery_id: deliveryId }: Pick<DeliveryRow, "id" | "route" | "delivery_id">,
): Promise<void> {
  await tx.db
    .deleteFrom("ledger")
    .where("scope", "in", [idScope(route), signatureScope(route)])
    .where("fingerprint", "=", deliveryId)
    .where((row) => row.or([row("status", "=", "claimed"), row("result", "=", JSON.stringify(id))]))
    .execute();
}

/** The id of the delivery that has one of the names. Undefined: it is new. */
export async function knownDelivery(
  store: Store,
  { nowMs, ...name }: DeliveryName & { readonly nowMs: number },
): Promise<string | undefined> {
  for (const { scope, key } of namesOf(name)) {
    const row = await store.find("ledger", { scope, key });
    if (row && row.expires_at > nowMs) return row.fingerprint;
  }
  return undefined;
}

function namesOf({ route, deliveryId, once }: DeliveryName) {
  const id = { scope: idScope(route), key: deliveryId, keepMs: ID_KEEP_MS };
  if (once === undefined) return [id];
  return [id, { scope: signatureScope(route), key: sha256(once), keepMs: SIGNATURE_KEEP_MS }];
}

const idScope = (route: string): string => `webhook:${route}`;
const signatureScope = (route: string): string => `webhook-signature:${route}`;
