import type { Store, Tx } from "../store/store.ts";
import type { OutboxRow } from "../store/tables.ts";
import type { AttemptEnd } from "./attempt.ts";
import { retryDelayMs, type Backoff } from "./backoff.ts";

/** Called in the transaction that records that a message was delivered or is given up. */
export type Settled = (
  tx: Tx,
  row: OutboxRow,
  end: { readonly status: "delivered" } | { readonly status: "dead"; readonly error: string },
) => Promise<void>;

/** What a target may ask to wait at most. */
const MAX_ASKED_MS = 86_400_000;

/**
 * Writes how an attempt went: delivered, due again, or given up. What was cut by our own shutdown is given back with
 * its attempt. False when the lease was lost: somebody else answers for the message.
 */
export async function recordEnd(
  store: Store,
  row: OutboxRow,
  end: AttemptEnd,
  { backoff, settled }: { readonly backoff: Backoff; readonly settled?: Settled | undefined },
): Promise<boolean> {
  // Drawn before the transaction, which may run twice.
  const asked = end.status === "retry" ? end.afterMs : undefined;
  const delayMs = asked === undefined ? retryDelayMs(row.attempts, backoff) : Math.max(0, asked);
  return store.write(async (tx) => {
    const isKept = await record(tx, store, { id: row.id, end, delayMs: Math.min(delayMs, MAX_ASKED_MS) });
    const last = isKept ? lastOf(row, end) : undefined;
    if (last) await settled?.(tx, row, last);
    return isKept;
  });
}

/** Undefined while the message is still owed. */
function lastOf(row: OutboxRow, end: AttemptEnd): Parameters<Settled>[2] | undefined {
  switch (end.status) {
    case "delivered":
      return end;
    case "permanent":
      return { status: "dead", error: end.error };
    case "retry":
    case "unknown":
      return row.attempts >= row.max_attempts ? { status: "dead", error: end.error } : undefined;
    default:
      return undefined;
  }
}

async function record(
  tx: Tx,
  { outbox }: Store,
  { id, end, delayMs }: { readonly id: string; readonly end: AttemptEnd; readonly delayMs: number },
): Promise<boolean> {
  switch (end.status) {
    case "delivered":
      return outbox.delivered(tx, id);
    case "permanent":
      return outbox.dead(tx, id, end.error);
    case "stopped":
      return outbox.release(tx, id);
    case "lost":
      return false;
    case "retry":
    case "unknown":
      return outbox.retryAt(tx, id, { error: end.error, atMs: tx.nowMs + delayMs });
  }
}
