import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import { resolveAddresses } from "../../deliver/address.ts";
import type { AttemptEnd } from "../../deliver/outbox/attempt.ts";
import { storeAttempt } from "../../deliver/outbox/outcome.ts";
import type { NewMessage } from "../../store/outbox/outbox.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import type { Admission } from "../receive/admit.ts";
import { accepted, delivered, refuse, type WebhookAnswer } from "../receive/answer.ts";
import {
  commitKey,
  DuplicateDelivery,
  keepFailedMessages,
  releaseKey,
  requeueFailedMessage,
  reserveKey,
  type DedupeKey,
} from "../receive/dedupe.ts";
import { renderTexts } from "../receive/template.ts";
import type { WebhookDeps } from "../deps.ts";
import { insertDelivery } from "./deliveries.ts";
import { closeDelivery } from "./trigger.ts";

/** How long the sender waits for the targets. Senders commonly give up after ten seconds. */
const SEND_MS = 8_000;
/** After this time other processes take over the messages of a process that died. */
const LEASE_MS = 30_000;

/** A delivery whose messages are being sent while the sender waits. */
interface DirectDelivery {
  readonly admission: Admission;
  readonly id: string;
  readonly key: DedupeKey;
  readonly rows: readonly OutboxRow[];
}

interface Sent {
  readonly row: OutboxRow;
  readonly end: AttemptEnd;
}

/**
 * Sends the text without the agent, to all targets at once, while the sender waits. The messages are in the outbox first:
 * when the process dies, another one sends them, and a retry of the sender is a duplicate. When one target has the
 * message, or may have it, the outbox delivers the others. When none has it the messages are given up, and the sender may
 * try again with the same message ids. Undefined: the delivery is a duplicate.
 *
 * ServiceError `server_draining`, and `state_store_unavailable`.
 */
export async function deliverDirect(
  deps: WebhookDeps,
  admission: Admission,
): Promise<WebhookAnswer | undefined> {
  const direct = await enqueue(deps, admission);
  if (!direct) return undefined;
  const sent = await Promise.all(
    direct.rows.map(async (row) => ({ row, end: await deps.send(row, SEND_MS) })),
  );
  const has = (...statuses: readonly AttemptEnd["status"][]) =>
    sent.some(({ end }) => statuses.includes(end.status));
  if (has("delivered")) return endDelivered(deps, direct, sent);
  if (has("stopped", "lost")) return endStopped(deps, direct, sent);
  return has("unknown") ? endUncertain(deps, direct, sent) : endFailed(deps, direct, sent);
}

/** Enqueues and leases the messages; undefined when the delivery is a duplicate. */
async function enqueue(
  { store, runs, clock, homes }: WebhookDeps,
  admission: Admission,
): Promise<DirectDelivery | undefined> {
  if (runs.draining) throw new ServiceError("server_draining", "The server is shutting down.");
  const { request, evaluated } = admission;
  const { name: route, deliver, deliverExtra } = request.route;
  const id = createId("dlv", clock.now());
  const key = { route, deliveryId: evaluated.deliveryId, nonce: request.nonce };
  const extra = renderTexts(deliverExtra, evaluated.subject) as Readonly<Record<string, unknown>>;
  const payload = { text: evaluated.text, extra };
  try {
    return await store.write(async (tx) => {
      await reserveKey(tx, store, key);
      const rows: OutboxRow[] = [];
      for (const target of resolveAddresses(deliver, { extra, homes })) {
        rows.push(await leaseNew(tx, store, { key, message: { target, payload, ref: id } }));
      }
      const [first] = rows;
      await insertDelivery(tx, {
        ...admission,
        id,
        status: "running",
        ...(first ? { outboxId: first.id } : {}),
      });
      return { admission, id, key, rows };
    });
  } catch (error) {
    if (error instanceof DuplicateDelivery) return undefined;
    throw error;
  }
}

/** The message has no ordering key: the sender does not wait for older messages to the same chat. */
async function leaseNew(
  tx: Tx,
  { outbox }: Store,
  { key, message }: { readonly key: DedupeKey; readonly message: NewMessage & { readonly ref: string } },
): Promise<OutboxRow> {
  const id =
    (await requeueFailedMessage(tx, key, message)) ??
    (await outbox.enqueue(tx, { ...message, orderingKey: null }));
  const [row] = await outbox.claim(tx, { ids: [id], limit: 1, leaseMs: LEASE_MS });
  if (row) return row;
  throw new TypeError(`The message ${id} is gone in the transaction that created it.`);
}

/** The outbox delivers the other messages; it repeats an uncertain one only where the target supports idempotency. */
async function endDelivered(
  deps: WebhookDeps,
  { id, key, rows }: DirectDelivery,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  const { store } = deps;
  await store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await commitKey(tx, store, { ...key, delivery: id });
    await tx.update("deliveries", { id }, { status: "delivered", ended_at: tx.nowMs });
  });
  warnOfErrors(deps, key, { id, sent });
  const target = rows.map((row) => row.target).join(",");
  return delivered({ route: key.route, target, delivery_id: key.deliveryId });
}

/** A target may have the message: the sender must not send it again, and the record shows the uncertainty. */
async function endUncertain(
  deps: WebhookDeps,
  { admission, id, key }: DirectDelivery,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  const { store } = deps;
  await store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await commitKey(tx, store, { ...key, delivery: id });
    await closeDelivery(tx, id);
  });
  warnOfErrors(deps, key, { id, sent });
  const { event } = admission.evaluated.subject;
  return accepted({ route: key.route, event, delivery_id: key.deliveryId });
}

/** The log gets the errors of the targets, the sender does not. */
async function endFailed(
  deps: WebhookDeps,
  { id, key }: DirectDelivery,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  const { store } = deps;
  warnOfErrors(deps, key, { id, sent });
  await store.write(async (tx) => {
    for (const { row, end } of sent) {
      await storeAttempt(tx, store, { row, end });
      await store.outbox.dead(tx, row.id, errorOf(end) ?? "");
    }
    // A process that took over a lease ends its message, and releases the key.
    const closed = await closeDelivery(tx, id);
    if (closed?.status !== "failed") return;
    await releaseKey(tx, store, key);
    await keepFailedMessages(tx, key, closed.messages);
  });
  return refuse("delivery_failed", { status: "error", delivery_id: key.deliveryId });
}

/** A shutdown cut the attempt: the messages stay in the outbox under their ids, and the key stays taken. */
async function endStopped(
  deps: WebhookDeps,
  { id }: DirectDelivery,
  sent: readonly Sent[],
): Promise<WebhookAnswer> {
  await deps.store.write(async (tx) => {
    for (const { row, end } of sent) await deps.record(tx, row, end);
    await closeDelivery(tx, id);
  });
  return refuse("draining", { retryAfterSeconds: 1 });
}

function warnOfErrors(
  { log }: WebhookDeps,
  { route }: DedupeKey,
  { id, sent }: { readonly id: string; readonly sent: readonly Sent[] },
): void {
  for (const { row, end } of sent) {
    const reason = errorOf(end);
    if (reason === undefined) continue;
    log.warn("a message could not be delivered", { delivery: id, route, target: row.target, reason });
  }
}

const errorOf = (end: AttemptEnd): string | undefined => ("error" in end ? end.error : undefined);
