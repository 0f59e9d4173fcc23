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

/**
 * Sends the text without the agent, while the sender waits. Owed before it is sent: a crash in between loses nothing. When
 * the target does not take it nothing is owed any more, and the sender may try again. Undefined: it was taken before.
 */
export async function deliverDirect(
  room: WebhookRoom,
  admission: Admission,
): Promise<WebhookAnswer | undefined> {
  const { request, judged, once } = admission;
  const { route } = request;
  const id = createId("dlv", room.clock.now());
  const name: DeliveryName = { route: route.name, deliveryId: judged.deliveryId, once };
  const row = await owe(room, admission, { id, name });
  if (!row) return undefined;
  const end = await room.send(row, SEND_MS);
  const { store, log } = room;
  const ended = { delivery_id: judged.deliveryId };
  if (end.status === "delivered") {
    await store.write(async (tx) => {
      await store.outbox.delivered(tx, row.id);
      await keepName(tx, store, name);
      await tx.update("deliveries", { id }, { status: "delivered", ended_at: tx.nowMs });
    });
    return delivered({ route: route.name, target: route.deliver, ...ended });
  }
  const reason = "error" in end ? end.error : "the receiver is shutting down";
  log.warn("a message could not be delivered", {
    delivery: id,
    route: route.name,
    target: route.deliver,
    reason,
  });
  await store.write(async (tx) => {
    await store.outbox.dead(tx, row.id, reason);
    await freeName(tx, store, name);
    await tx.update("deliveries", { id }, { status: "failed", reason, ended_at: tx.nowMs });
  });
  return refuse("delivery_failed", { status: "error", ...ended });
}

/** The message with the lease on it; undefined when its names are taken. */
async function owe(
  { store }: WebhookRoom,
  admission: Admission,
  { id, name }: { readonly id: string; readonly name: DeliveryName },
): Promise<OutboxRow | undefined> {
  const { request, judged } = admission;
  const { deliver, deliverExtra } = request.route;
  const payload = { text: judged.text, extra: renderTexts(deliverExtra, judged.subject) };
  try {
    return await store.write(async (tx) => {
      await reserveName(tx, store, name);
      const outboxId = await store.outbox.owe(tx, { target: deliver, payload, ref: id });
      const [row] = await store.outbox.claim(tx, { ids: [outboxId], limit: 1, leaseMs: LEASE_MS });
      await insertDelivery(tx, { ...admission, id, status: "running", outboxId });
      return row;
    });
  } catch (error) {
    if (error instanceof KnownDelivery) return undefined;
    throw error;
  }
}
