/** The SQL of the receiver: its deliveries, the events that wait to be coalesced, and the dedupe keys of a delivery. */
import type { Store, Tx } from "../store/store.ts";
import type { DeliveryRow, OutboxRow, PendingEventRow } from "../store/schema/tables.ts";

/** Columns of a delivery without its stages and headers. */
const SUMMARY_COLUMNS = [
  "id",
  "owner",
  "route",
  "delivery_id",
  "event",
  "status",
  "reason",
  "run_id",
  "outbox_id",
  "replay_of",
  "created_at",
  "ended_at",
] as const satisfies readonly (keyof DeliveryRow)[];

export type DeliverySummaryRow = Pick<DeliveryRow, (typeof SUMMARY_COLUMNS)[number]>;

export interface DeliveryFilter {
  /** Absent: of all owners. */
  readonly owner?: string;
  readonly routes?: readonly string[];
  readonly statuses?: readonly string[];
  readonly deliveryId?: string;
  readonly events?: readonly string[];
  readonly replayOf?: string;
  /** Inclusive. */
  readonly fromMs?: number;
  /** Exclusive. */
  readonly toMs?: number;
}

/** Returns at most `limit` deliveries, newest first; `before` is the id of the last one of the previous page. */
export function listDeliveries(
  store: Store,
  filter: DeliveryFilter,
  { limit, before }: { readonly limit: number; readonly before?: string | undefined },
): Promise<DeliverySummaryRow[]> {
  const { owner, routes, statuses, deliveryId, events, replayOf, fromMs, toMs } = filter;
  let query = store.read.selectFrom("deliveries").select(SUMMARY_COLUMNS);
  if (owner !== undefined) query = query.where("owner", "=", owner);
  if (routes !== undefined) query = query.where("route", "in", routes);
  if (statuses !== undefined) query = query.where("status", "in", statuses);
  if (deliveryId !== undefined) query = query.where("delivery_id", "=", deliveryId);
  if (events !== undefined) query = query.where("event", "in", events);
  if (replayOf !== undefined) query = query.where("replay_of", "=", replayOf);
  if (fromMs !== undefined) query = query.where("created_at", ">=", fromMs);
  if (toMs !== undefined) query = query.where("created_at", "<", toMs);
  if (before !== undefined) query = query.where("id", "<", before);
  return query.orderBy("id", "desc").limit(limit).execute();
}

export interface ReplayFilter {
  readonly owner: string;
  readonly route: string;
  readonly statuses: readonly string[];
  /** Inclusive. */
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
  /** The id of the last delivery that was looked at. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** A replay in one of these states repeats nothing: it is under way, or has succeeded. */
const HELD = ["accepted", "running", "completed", "delivered"];

/**
 * Returns the ids of deliveries to replay, oldest first: no replays, none whose sender is unknown, and none whose replay is
 * open or has succeeded.
 */
export async function listReplayable(
  store: Store,
  { owner, route, statuses, fromMs, toMs, after, limit }: ReplayFilter,
): Promise<readonly string[]> {
  let query = store.read
    .selectFrom("deliveries")
    .select("id")
    .where("route", "=", route)
    .where("owner", "=", owner)
    .where("replay_of", "is", null)
    .where("unverified", "is", null)
    .where("status", "in", statuses)
    .where("created_at", ">=", fromMs)
    .where("created_at", "<", toMs)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("deliveries as replay")
            .select("replay.id")
            .whereRef("replay.replay_of", "=", "deliveries.id")
            .where("replay.status", "in", HELD),
        ),
      ),
    );
  if (after !== undefined) query = query.where("id", ">", after);
  const rows = await query.orderBy("id").limit(limit).execute();
  return rows.map(({ id }) => id);
}

/** Returns when the newest delivery of each route came, in milliseconds since the epoch. */
export async function lastDeliveries(
  store: Store,
  routes: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const newest = await Promise.all(
    routes.map((route) =>
      store.read
        .selectFrom("deliveries")
        .select(["route", "created_at"])
        .where("route", "=", route)
        .orderBy("id", "desc")
        .limit(1)
        .executeTakeFirst(),
    ),
  );
  return new Map(newest.flatMap((row) => (row ? [[row.route, row.created_at]] : [])));
}

/** Returns the newest delivery with the sender's id; one whose sender is unknown only when no other has it. */
export function findNewestDelivery(store: Store, deliveryId: string): Promise<DeliveryRow | undefined> {
  return store.read
    .selectFrom("deliveries")
    .selectAll()
    .where("delivery_id", "=", deliveryId)
    .orderBy("unverified", (order) => order.asc().nullsFirst())
    .orderBy("id", "desc")
    .limit(1)
    .executeTakeFirst();
}

/** Deletes the requests of a route whose sender is unknown, but for the newest `keep`. */
export async function deleteUnverified(tx: Tx, route: string, keep: number): Promise<void> {
  const ofRoute = tx.db
    .selectFrom("deliveries")
    .select("id")
    .where("route", "=", route)
    .where("unverified", "is not", null);
  const older = ofRoute.orderBy("id", "desc").offset(keep).limit(MAX_DELETED);
  await tx.db.deleteFrom("deliveries").where("id", "in", older).execute();
}

const MAX_DELETED = 100;

export type DeliveryMessage = Pick<OutboxRow, "id" | "target" | "status" | "last_error">;

/** Returns the outbox messages of a delivery, oldest first. */
export function messagesOf(tx: Tx, ref: string): Promise<DeliveryMessage[]> {
  return tx.db
    .selectFrom("outbox")
    .select(["id", "target", "status", "last_error"])
    .where("ref", "=", ref)
    .orderBy("id")
    .execute();
}

/** Returns at most `limit` events that are due, and how long until the next one is. */
export async function duePendingEvents(
  tx: Tx,
  limit: number,
): Promise<{ readonly due: readonly PendingEventRow[]; readonly nextMs: number }> {
  const soonest = tx.db.selectFrom("pending_events").orderBy("due_at").orderBy("id");
  const due = await soonest.selectAll().where("due_at", "<=", tx.nowMs).limit(limit).execute();
  const next = await soonest.select("due_at").where("due_at", ">", tx.nowMs).limit(1).executeTakeFirst();
  return { due, nextMs: next ? next.due_at - tx.nowMs : Number.POSITIVE_INFINITY };
}

/** Deletes an event unless a newer one replaced it. Resolves to whether it did. */
export async function deletePendingEvent(
  tx: Tx,
  { id, delivery }: Pick<PendingEventRow, "id" | "delivery">,
): Promise<boolean> {
  const deletion = tx.db.deleteFrom("pending_events").where("id", "=", id).where("delivery", "=", delivery);
  return Number((await deletion.executeTakeFirst()).numDeletedRows) === 1;
}

/**
 * Deletes the dedupe keys in `scopes` that belong to `delivery`, or are claimed and not committed. Keys of a later
 * delivery with the same id stay.
 */
export async function deleteDedupeKeys(
  tx: Tx,
  {
    scopes,
    deliveryId,
    delivery,
  }: { readonly scopes: readonly string[]; readonly deliveryId: string; readonly delivery: string },
): Promise<void> {
  await tx.db
    .deleteFrom("ledger")
    .where("scope", "in", scopes)
    .where("fingerprint", "=", deliveryId)
    .where((row) => row.or([row("status", "=", "claimed"), row("result", "=", JSON.stringify(delivery))]))
    .execute();
}
