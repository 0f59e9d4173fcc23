import { createId } from "../base/ids.ts";
import { Leases } from "./lease.ts";
import type { Leaseholder } from "./lease.ts";
import type { OutboxRow } from "./tables.ts";
import { rawTx } from "./tx.ts";
import type { Tx } from "./tx.ts";

export interface NewMessage {
  /** Address of the target, such as `matrix:!room:thread`. */
  readonly target: string;
  /** JSON: what to send. */
  readonly payload: unknown;
  /** What owes it: a run or a delivery id. */
  readonly ref?: string;
  /** When the first attempt is due; default now. */
  readonly availableAtMs?: number;
  /** Default 5. */
  readonly maxAttempts?: number;
}

export type Waiting = Pick<OutboxRow, "id" | "target" | "available_at">;

export interface BusyTargets {
  /** Whole addresses. */
  readonly targets: readonly string[];
  /** Every address of these. */
  readonly platforms: readonly string[];
}

/**
 * Messages owed to targets. What is owed is written with the fact that owes it, in one transaction, and sent later:
 * at least once, since a sender may die between sending and saying so.
 */
export interface Outbox {
  /** Resolves to the message's id, by which a target may recognise a repeat. */
  owe(tx: Tx, message: NewMessage): Promise<string>;
  /**
   * Messages that are due, at `fromMs` (default 0) or later, or will be, or whose lease will run out, soonest first;
   * without those of busy targets.
   */
  waiting(
    tx: Tx,
    request: { readonly limit: number; readonly except: BusyTargets; readonly fromMs?: number },
  ): Promise<readonly Waiting[]>;
  /** Takes at most `limit` due messages, of `ids` if given, for `leaseMs`; no other sender gets them meanwhile. */
  claim(
    tx: Tx,
    request: { readonly limit: number; readonly leaseMs: number; readonly ids?: readonly string[] },
  ): Promise<readonly OutboxRow[]>;
  /** Moves the lease's end to `leaseMs` from now. False when the lease is lost: the sender MUST stop. */
  renew(tx: Tx, id: string, leaseMs: number): Promise<boolean>;
  /** The target has it. False when the lease was lost. */
  delivered(tx: Tx, id: string): Promise<boolean>;
  /** Tries again at that instant, or gives up when no attempt is left. False when the lease was lost. */
  retryAt(tx: Tx, id: string, retry: { readonly error: string; readonly atMs: number }): Promise<boolean>;
  /** Gives up: the message stays as a dead letter. False when the lease was lost. */
  dead(tx: Tx, id: string, error: string): Promise<boolean>;
  /** Gives the message back as if this attempt had not been. False when the lease was lost. */
  release(tx: Tx, id: string): Promise<boolean>;
  /** Calls `run` after every commit by which this process owes something; the returned function ends that. */
  onOwed(run: () => void): () => void;
  /** Ends leases of processes that are known to be gone; for start-up. Resolves to their number. */
  reclaim(tx: Tx): Promise<number>;
}

const MAX_ATTEMPTS = 5;

export function createOutbox(holder: Leaseholder): Outbox {
  const leases = new Leases(holder, { table: "outbox", ready: "due", done: "delivered" });
  const listeners = new Set<() => void>();
  const tell = () => {
    for (const run of listeners) run();
  };
  return {
    async owe(tx, message) {
      const id = createId("out", tx.nowMs);
      await tx.insert("outbox", [
        {
          id,
          target: message.target,
          payload: JSON.stringify(message.payload),
          ref: message.ref ?? null,
          status: "due",
          attempts: 0,
          max_attempts: message.maxAttempts ?? MAX_ATTEMPTS,
          available_at: message.availableAtMs ?? tx.nowMs,
          lease_owner: null,
          last_error: null,
          created_at: tx.nowMs,
          done_at: null,
        },
      ]);
      tx.afterCommit(tell);
      return id;
    },
    async waiting(tx, { limit, except: { targets, platforms }, fromMs = 0 }) {
      const others = targets.map(() => " and target <> ?").join("");
      const rest = platforms.map(() => " and target <> ? and target not like ?").join("");
      const names = platforms.flatMap((platform) => [platform, `${platform}:%`]);
      const rows = await rawTx(tx).all(
        `select id, target, available_at from outbox where status in ('due', 'leased') and available_at >= ?${others}${rest} ` +
          "order by available_at, id limit ?",
        [fromMs, ...targets, ...names, limit],
      );
      return rows as unknown as readonly Waiting[];
    },
    async claim(tx, { limit, leaseMs, ids }) {
      const among = ids && ({ column: "id", values: ids } as const);
      const rows = await leases.claim(tx, { limit, leaseMs, ...(among ? { among } : {}) });
      return rows as unknown as readonly OutboxRow[];
    },
    renew: (tx, id, leaseMs) => leases.renew(tx, id, leaseMs),
    delivered: (tx, id) => leases.done(tx, id),
    retryAt: (tx, id, { error, atMs }) => leases.fail(tx, id, { error, retryAtMs: atMs }),
    dead: (tx, id, error) => leases.fail(tx, id, { error, retryAtMs: null }),
    release: (tx, id) => leases.release(tx, id),
    onOwed(run) {
      listeners.add(run);
      return () => void listeners.delete(run);
    },
    reclaim: (tx) => leases.reclaim(tx),
  };
}
