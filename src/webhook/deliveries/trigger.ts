/** Keeps deliveries in step with their runs and messages, in whichever process those start and end. */
import type { Outcome } from "../../agent/run/outcome.ts";
import {
  isRunDelivery,
  readDelivery,
  SILENT,
  type RunDelivery,
  type RunTrigger,
} from "../../agent/notify/run-trigger.ts";
import type { Log } from "../../base/observe/log.ts";
import { messagesOf, type DeliveryMessage } from "../queries.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OutboxRow, RunRow } from "../../store/schema/tables.ts";
import { keepFailedMessages, releaseAllKeys } from "../receive/dedupe.ts";

/** Returns the trigger that updates the delivery of a run when the run starts, is requeued and ends. */
export function createWebhookTrigger({
  store,
  log,
}: {
  readonly store: Store;
  readonly log: Log;
}): RunTrigger {
  return {
    owns: isRunDelivery,

    async started(tx, run) {
      const { ref } = deliveryOf(run);
      await tx.update("deliveries", { id: ref, status: "accepted" }, { status: "running" });
    },

    async requeued(tx, run) {
      const { ref } = deliveryOf(run);
      await tx.update("deliveries", { id: ref, status: "running" }, { status: "accepted" });
    },

    /**
     * Enqueues the answer in the transaction that ends the run: from then on only the outbox is needed to send it. When
     * the run did not complete, its dedupe keys are released, so that the sender may send the delivery again.
     */
    async ended(tx, run, outcome) {
      const delivery = deliveryOf(run);
      const { ref } = delivery;
      const first = await enqueueAnswer(tx, store, delivery, outcome);
      const status = outcome.status === "cancelled" ? "interrupted" : outcome.status;
      const reason = failureOf(outcome);
      const ended = { status, reason: reason ?? null, outbox_id: first ?? null, ended_at: tx.nowMs };
      await tx.update("deliveries", { id: ref }, ended);
      if (status === "completed") return;
      const row = await tx.find("deliveries", { id: ref });
      if (row) await releaseAllKeys(tx, row);
      tx.afterCommit(() =>
        log.warn("the run of a webhook did not complete", {
          delivery: ref,
          route: row?.route,
          run: run.id,
          status,
          reason,
        }),
      );
    },
  };
}

function deliveryOf({ reply_to: replyTo }: RunRow): RunDelivery {
  return readDelivery(replyTo ?? "");
}

/** Resolves to the id of the first message. */
async function enqueueAnswer(
  tx: Tx,
  { outbox }: Store,
  delivery: RunDelivery,
  outcome: Outcome,
): Promise<string | undefined> {
  const { extra, ref } = delivery;
  const ids: string[] = [];
  for (const { target, text } of answersOf(delivery, outcome)) {
    ids.push(await outbox.enqueue(tx, { target, payload: { text, extra }, ref }));
  }
  return ids[0];
}

function answersOf(
  { targets, failure, suppressesSilence }: RunDelivery,
  outcome: Outcome,
): readonly { readonly target: string; readonly text: string }[] {
  if (outcome.status !== "completed") {
    return failure.map(({ target, says }) => ({ target, text: failureText(outcome, says) }));
  }
  const text = outcome.set.output ?? "";
  if (suppressesSilence === true && text.includes(SILENT)) return [];
  return targets.map((target) => ({ target, text }));
}

/** A notice reveals nothing about this service: anyone may read it. */
function failureText(outcome: Outcome, says: "notice" | "reason"): string {
  const notice =
    outcome.status === "failed"
      ? "The agent could not finish this."
      : "The agent was interrupted and did not finish this.";
  const reason = says === "reason" ? failureOf(outcome) : undefined;
  return reason === undefined ? notice : `${notice} ${reason}`;
}

function failureOf({ event }: Outcome): string | undefined {
  const { error, reason } = event.data as {
    readonly error?: { readonly message: string };
    readonly reason?: string;
  };
  return error?.message ?? reason;
}

/**
 * Closes a direct delivery after the outbox sent or gave up its messages, or a person dropped them: the process that
 * received it is gone, or could not know the result. A failed one releases its dedupe keys, so that the sender may try
 * again. Messages of deliveries that are closed change nothing.
 */
export async function closeSettledDelivery(tx: Tx, { ref }: Pick<OutboxRow, "ref">): Promise<void> {
  if (!ref?.startsWith("dlv_")) return;
  const closed = await closeDelivery(tx, ref);
  if (closed?.status !== "failed") return;
  const row = await tx.find("deliveries", { id: ref });
  if (!row) return;
  await releaseAllKeys(tx, row);
  await keepFailedMessages(tx, { route: row.route, deliveryId: row.delivery_id }, closed.messages);
}

export interface ClosedDelivery {
  /** delivered: at least one target has it. unknown: no target confirmed it, and one may have it. */
  readonly status: "delivered" | "unknown" | "failed";
  readonly messages: readonly DeliveryMessage[];
}

const MAX_REASON_CHARACTERS = 500;

/** Closes a direct delivery inside `tx`. Undefined: it is closed already, or a message is still pending. */
export async function closeDelivery(tx: Tx, id: string): Promise<ClosedDelivery | undefined> {
  // The update also locks the row: messages of one delivery may end at once in several processes.
  const open = await tx.update("deliveries", { id, ended_at: null }, { status: "accepted" });
  if (open === 0) return undefined;
  const messages = await messagesOf(tx, id);
  if (messages.some(({ status }) => status === "due" || status === "leased")) return undefined;
  const status = statusOf(messages);
  const reason = status === "delivered" ? null : reasonOf(messages);
  await tx.update("deliveries", { id }, { status, reason, ended_at: tx.nowMs });
  return { status, messages };
}

function statusOf(messages: readonly DeliveryMessage[]): ClosedDelivery["status"] {
  const has = (wanted: string) => messages.some(({ status }) => status === wanted);
  if (has("delivered")) return "delivered";
  return has("unknown") ? "unknown" : "failed";
}

function reasonOf(messages: readonly DeliveryMessage[]): string {
  const [only, ...others] = messages;
  const texts =
    only && others.length === 0
      ? [errorOf(only)]
      : messages.map((message) => `${message.target}: ${errorOf(message)}`);
  return texts.join(" ").slice(0, MAX_REASON_CHARACTERS);
}

/** The last error of a dropped message is not why it ended. */
function errorOf({ status, last_error: error }: DeliveryMessage): string {
  return status === "dropped" ? "It was dropped." : (error ?? "");
}
