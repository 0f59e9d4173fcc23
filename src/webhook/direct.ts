import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import type { OutboxRow } from "../store/tables.ts";
import type { Admission } from "./admit.ts";
import { delivered, refuse, type WebhookAnswer } from "./answer.ts";
import { insertDelivery } from "./deliveries.ts";
import { freeName, keepName, KnownDelivery, reserveName, type DeliveryName } from "./known.ts";
import type { WebhookRoom } from "./room.ts";
import { renderTexts } from "./template.ts";

/** How long the sender waits for the target; what it is then told leaves room for its own patience of ten seconds. */
const SEND_MS = 8_000;
/** When the process dies while it sends, others take the message over so late. */
const LEASE_MS = 30_000;

/** A message of which the sender waits to hear. */
interface Owed {
  readonly admission: Admission;
  /** Of the delivery's record. */
  readonly id: string;
  readonly name: DeliveryName;
  readonly row: OutboxRow;
}

/**
 * Sends the text without the agent, while the sender waits. It is owed before it is sent: when the process dies in
 * between, the outbox sends it later, and the sender's next attempt is known. When the target does not take it nothing is
 * owed any more, and the sender may try again. Undefined: it was taken before.
 *
 * ServiceError `server_draining`, and `state_store_unavailable`.
 */
export async function deliverDirect(
  room: WebhookRoom,
  admission: Admission,
): Promise<WebhookAnswer | undefined> {
  const owed = await owe(room, admission);
  if (!owed) return undefined;
  const end = await room.send(owed.row, SEND_MS);
  switch (end.status) {
    case "delivered":
      return succeed(room, owed);
    case "retry":
    case "permanent":
    case "unknown":
      return fail(room, owed, end.error);
    case "stopped":
    case "lost":
      return leave(room, owed);
  }
}

/** The message with the lease on it; undefined when its names are taken. */
async function owe({ store, turns, clock }: WebhookRoom, admission: Admission): Promise<Owed | undefined> {
  if (turns.draining) throw new ServiceError("server_draining", "The server is shutting down.");
  const { request, judged, once } = admission;
  const { name: route, deliver, deliverExtra } = request.route;
  const id = createId("dlv", clock.now());
  const name = { route, deliveryId: judged.deliveryId, once };
  const payload = { text: judged.text, extra: renderTexts(deliverExtra, judged.subject) };
  try {
    return await store.write(async (tx) => {
      await reserveName(tx, store, name);
      const outboxId = await store.outbox.owe(tx, { target: deliver, payload, ref: id });
      const [row] = await store.outbox.claim(tx, { ids: [outboxId], limit: 1, leaseMs: LEASE_MS });
      if (!row) throw new TypeError(`The message ${outboxId} is gone in the transaction that made it.`);
      await insertDelivery(tx, { ...admission, id, status: "running", outboxId });
      return { admission, id, name, row };
    });
  } catch (error) {
    if (error instanceof KnownDelivery) return undefined;
    throw error;
  }
}

async function succeed({ store }: WebhookRoom, { id, name, row }: Owed): Promise<WebhookAnswer> {
  await store.write(async (tx) => {
    await store.outbox.delivered(tx, row.id);
    await keepName(tx, store, name);
    await tx.update("deliveries", { id }, { status: "delivered", ended_at: tx.nowMs });
  });
  return delivered({ route: name.route, target: row.target, delivery_id: name.deliveryId });
}

/** What the target said is for those who run this service, not for the sender. */
async function fail({ store, log }: WebhookRoom, owed: Owed, reason: string): Promise<WebhookAnswer> {
  const { id, name, row } = owed;
  const facts = { delivery: id, route: name.route, target: row.target, reason };
  log.warn("a message could not be delivered", facts);
  await store.write(async (tx) => {
    // Whoever has the lease by now answers for the message, and for its names.
    if (!(await store.outbox.dead(tx, row.id, reason))) return;
    await freeName(tx, store, name);
    await tx.update("deliveries", { id }, { status: "failed", reason, ended_at: tx.nowMs });
  });
  return refuse("delivery_failed", { status: "error", delivery_id: name.deliveryId });
}

/** Cut by our own end, and the target may have it or not: it stays owed, under the same id, and its names are taken. */
async function leave({ store }: WebhookRoom, { id, row }: Owed): Promise<WebhookAnswer> {
  await store.write(async (tx) => {
    await store.outbox.release(tx, row.id);
    await tx.update("deliveries", { id, ended_at: null }, { status: "accepted" });
  });
  return refuse("draining", { retryAfterSeconds: 1 });
}
