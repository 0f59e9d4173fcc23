import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import { resolveAddresses } from "../../deliver/address.ts";
import type { AttemptEnd } from "../../deliver/outbox/attempt.ts";
import { noteAttempt } from "../../deliver/outbox/record.ts";
import type { NewMessage } from "../../store/outbox/outbox.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import type { Admission } from "../receive/admit.ts";
import { accepted, delivered, refuse, type WebhookAnswer } from "../receive/answer.ts";
import { insertDelivery } from "./deliveries.ts";
import { keepFailed, enqueueFailed } from "./failed-messages.ts";
import { freeName, keepName, KnownDelivery, reserveName, type DeliveryName } from "../receive/dedupe.ts";
import type { WebhookDeps } from "../deps.ts";
import { closeDelivery } from "./settled.ts";
import { renderTexts } from "../receive/template.ts";

/** How long the sender waits for the target; what it is then told leaves room for its own patience of ten seconds. */
const SEND_MS = 8_000;
/** When the process dies while it sends, others take the message over so late. */
const LEASE_MS = 30_000;

/** Messages, one for each target, of which the sender waits to hear. */
interface Owed {
  readonly admission: Admission;
  /** Of the delivery's record. */
  readonly id: string;
  readonly name: DeliveryName;
  readonly rows: readonly OutboxRow[];
}

interface Sent {
  readonly row: OutboxRow;
  readonly end: AttemptEnd;
}

/**
 * Sends the text without the agent, to all targets at once, while the sender waits. It is owed before it is sent: when the
 * process dies in between, the outbox sends it later, and the sender's next attempt is known. Once one target has it, or
 * may have it, the others are owed it. When none took it nothing is owed any more, and the sender may try again: then
 * the targets hear the same ids. Undefined: it was taken before.
 *
 * ServiceError `server_draining`, and `state_store_unavailable`.
 */
export async function deliverDirect(
  deps: WebhookDeps,
  admission: Admission,
): Promise<WebhookAnswer | undefined> {
  const owed = await enqueue(deps, admission);
  if (!owed) return undefined;
  const sent = await Promise.all(owed.rows.map(async (row) => ({ row, end: await deps.send(row, SEND_MS) })));
  const has = (...statuses: readonly AttemptEnd["status"][]) =>
    sent.some(({ end }) => statuses.includes(end.status));
  if (has("delivered")) return succeed(deps, owed, sent);
  if (has("stopped", "lost")) return leave(deps, owed, sent);
  return has("unknown") ? doubt(deps, owed, sent) : fail(deps, owed, sent);
}

/** The messages with the leases on them; undefined when its names are taken. */
async function enqueue(
  { store, runs, clock, homes }: WebhookDeps,
  admission: Admission,
): Promise<Owed | undefined> {
  if (runs.draining) throw new ServiceError("server_draining", "The server is shutting down.");
  const { request, evaluated, once } = admission;
  const { name: route, deliver, deliverExtra } = request.route;
  const id = createId("dlv", clock.now());
  const name = { route, deliveryId: evaluated.deliveryId, once };
  const extra = renderTexts(deliverExtra, evaluated.subject) as Readonly<Record<string, unknown>>;
  const payload = { text: evaluated.text, extra };
  try {
    return await store.write(async (tx) => {
      await reserveName(tx, store, name);
      const rows: OutboxRow[] = [];
      for (const target of resolveAddresses(deliver, { extra, homes })) {
        rows.push(await claimNew(tx, store, { name, message: { target, payload, ref: id } }));
      }
      const [first] = rows;
      await insertDelivery(tx, {
        ...admission,
        id,
        status: "running",
        ...(first ? { outboxId: first.id } : {}),
      });
      return { admission, id, name, rows };
    });
  } catch (error) {
    if (error instanceof KnownDelivery) return undefined;
    throw error;
  }
}

/** The sender waits: older messages to the same chat do not hold this one up. */
async function claimNew(
  tx: Tx,
  { outbox }: Store,
  { name, message }: { readonly name: DeliveryName; readonly message: NewMessage & { readonly ref: string } },
): Promise<OutboxRow> {
  const id =
    (await enqueueFailed(tx, name, message)) ?? (await outbox.enqueue(tx, { ...message, lane: null }));
  const [row] = await outbox.claim(tx, { ids: [id], limit: 1, leaseMs: LEASE_MS });
  if (row) return row;
  throw new TypeError(`The message ${id} is gone in the transaction that made it.`);
}

/** What the others did not take stays owed, and what may have arrived is sent again where repeats are told apart. */
async function succeed(
  deps: WebhookDeps,
  { id, name, rows }: Owed,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  const { store } = deps;
  await store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await keepName(tx, store, { ...name, delivery: id });
    await tx.update("deliveries", { id }, { status: "delivered", ended_at: tx.nowMs });
  });
  warnOf(deps, name, { id, sent });
  const target = rows.map((row) => row.target).join(",");
  return delivered({ route: name.route, target, delivery_id: name.deliveryId });
}

/** Nobody knows whether it arrived: the sender is not to send it again, and the record says how it stands. */
async function doubt(
  deps: WebhookDeps,
  { admission, id, name }: Owed,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  const { store } = deps;
  await store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await keepName(tx, store, { ...name, delivery: id });
    await closeDelivery(tx, id);
  });
  warnOf(deps, name, { id, sent });
  const { event } = admission.evaluated.subject;
  return accepted({ route: name.route, event, delivery_id: name.deliveryId });
}

/** What the targets said is for those who run this service, not for the sender. */
async function fail(deps: WebhookDeps, { id, name }: Owed, sent: readonly Sent[]): Promise<WebhookAnswer> {
  const { store } = deps;
  warnOf(deps, name, { id, sent });
  await store.write(async (tx) => {
    for (const { row, end } of sent) {
      await noteAttempt(tx, store, { row, end });
      await store.outbox.dead(tx, row.id, reasonOf(end) ?? "");
    }
    // Whoever has a lease by now answers for its message, and for the names.
    const closed = await closeDelivery(tx, id);
    if (closed?.status !== "failed") return;
    await freeName(tx, store, name);
    await keepFailed(tx, name, closed.messages);
  });
  return refuse("delivery_failed", { status: "error", delivery_id: name.deliveryId });
}

/** Cut by our own end, and a target may have it or not: it stays owed, under the same id, and its names are taken. */
async function leave(deps: WebhookDeps, { id }: Owed, sent: readonly Sent[]): Promise<WebhookAnswer> {
  await deps.store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await closeDelivery(tx, id);
  });
  return refuse("draining", { retryAfterSeconds: 1 });
}

function warnOf(
  { log }: WebhookDeps,
  { route }: DeliveryName,
  { id, sent }: { readonly id: string; readonly sent: readonly Sent[] },
): void {
  for (const { row, end } of sent) {
    const reason = reasonOf(end);
    if (reason === undefined) continue;
    log.warn("a message could not be delivered", { delivery: id, route, target: row.target, reason });
  }
}

const reasonOf = (end: AttemptEnd): string | undefined => ("error" in end ? end.error : undefined);
