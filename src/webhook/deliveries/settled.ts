import type { Tx } from "../../store/store.ts";
import type { OutboxRow } from "../../store/schema/tables.ts";
import { keepFailed } from "./failed-messages.ts";
import { freeAllNames } from "../receive/dedupe.ts";

/**
 * Closes the record of a direct delivery whose messages were sent, or given up, by the outbox, or dropped by people:
 * whoever took the request is gone, or could not tell. Of one that was given up the names are free again: the sender, who
 * heard nothing of it, may try once more. Nothing happens for other messages, whose records are closed already.
 */
export async function closeSettledDelivery(tx: Tx, { ref }: Pick<OutboxRow, "ref">): Promise<void> {
  if (!ref?.startsWith("dlv_")) return;
  const closed = await closeDelivery(tx, ref);
  if (closed?.status !== "failed") return;
  const row = await tx.find("deliveries", { id: ref });
  if (!row) return;
  await freeAllNames(tx, row);
  await keepFailed(tx, { route: row.route, deliveryId: row.delivery_id }, closed.messages);
}

type Message = Pick<OutboxRow, "id" | "target" | "status" | "last_error">;

export interface ClosedDelivery {
  /** delivered: one target has it, at least. unknown: none is known to have it, and one may. */
  readonly status: "delivered" | "unknown" | "failed";
  readonly messages: readonly Message[];
}

const MAX_REASON_CHARACTERS = 500;

/** Closes the record of a direct delivery, inside `tx`. Undefined: it is closed already, or something of it is owed still. */
export async function closeDelivery(tx: Tx, id: string): Promise<ClosedDelivery | undefined> {
  // It locks the record, too: messages of one delivery may end at once, in several processes.
  const open = await tx.update("deliveries", { id, ended_at: null }, { status: "accepted" });
  if (open === 0) return undefined;
  const messages = await tx.db
    .selectFrom("outbox")
    .select(["id", "target", "status", "last_error"])
    .where("ref", "=", id)
    .orderBy("id")
    .execute();
  if (messages.some(({ status }) => status === "due" || status === "leased")) return undefined;
  const status = statusOf(messages);
  const reason = status === "delivered" ? null : reasonOf(messages);
  await tx.update("deliveries", { id }, { status, reason, ended_at: tx.nowMs });
  return { status, messages };
}

function statusOf(messages: readonly Message[]): ClosedDelivery["status"] {
  const has = (wanted: string) => messages.some(({ status }) => status === wanted);
  if (has("delivered")) return "delivered";
  return has("unknown") ? "unknown" : "failed";
}

function reasonOf(messages: readonly Message[]): string {
  const [only, ...others] = messages;
  const texts =
    only && others.length === 0
      ? [endOf(only)]
      : messages.map((message) => `${message.target}: ${endOf(message)}`);
  return texts.join(" ").slice(0, MAX_REASON_CHARACTERS);
}

/** What a dropped one said last is not why it ended. */
function endOf({ status, last_error: error }: Message): string {
  return status === "dropped" ? "It was dropped." : (error ?? "");
}
