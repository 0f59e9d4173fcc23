import { sha256 } from "../base/digest.ts";
import type { Store, Tx } from "../store/store.ts";

/** The delivery was taken before; thrown inside a transaction, which it undoes. */
export class KnownDelivery extends Error {
  override readonly name = "KnownDelivery";
}

/** How long a sender's id is known. */
const ID_KEEP_MS = 3_600_000;
/** How long a signature that binds the time is known: twice what clocks may differ, and some. */
const SIGNATURE_KEEP_MS = 1_800_000;

export interface DeliveryName {
  readonly route: string;
  readonly deliveryId: string;
  /** The signature itself, of a scheme that binds the time. */
  readonly once: string | undefined;
  /** Our id of the delivery that takes the name. */
  readonly id: string;
}

/** Takes the name of a delivery for good, inside `tx`. KnownDelivery when it is taken. */
export async function claimOnce(
  tx: Tx,
  store: Store,
  { route, deliveryId, once, id }: DeliveryName,
): Promise<void> {
  await take(tx, store, { name: { scope: idScope(route), key: deliveryId }, id, keepMs: ID_KEEP_MS });
  if (once === undefined) return;
  const name = { scope: `webhook-signature:${route}`, key: sha256(once) };
  await take(tx, store, { name, id, keepMs: SIGNATURE_KEEP_MS });
}

/** Whether a delivery of this id was taken within the hour. */
export async function isKnownDelivery(
  store: Store,
  { route, deliveryId, nowMs }: Pick<DeliveryName, "route" | "deliveryId"> & { readonly nowMs: number },
): Promise<boolean> {
  const row = await store.find("ledger", { scope: idScope(route), key: deliveryId });
  return row !== undefined && row.expires_at > nowMs;
}

const idScope = (route: string): string => `webhook:${route}`;

async function take(
  tx: Tx,
  { ledger }: Store,
  {
    name,
    id,
    keepMs,
  }: {
    readonly name: { readonly scope: string; readonly key: string };
    readonly id: string;
    readonly keepMs: number;
  },
): Promise<void> {
  const claim = await ledger.claim(tx, { ...name, fingerprint: id, leaseMs: keepMs });
  if (!claim.claimed) throw new KnownDelivery();
  await ledger.finish(tx, name, { result: { delivery: id }, keepMs });
}
