import { createId } from "../base/ids.ts";
import { Leases } from "./leases/lease.ts";
import type { LeaseFailure, Leaseholder } from "./leases/lease.ts";
import type { JobRow } from "./schema/tables.ts";
import type { Tx } from "./tx/tx.ts";

export interface NewJob {
  readonly kind: string;
  /** What the job is about, such as a run id. */
  readonly ref: string;
  /** JSON. */
  readonly payload?: unknown;
  /** When it is due; default now. */
  readonly availableAtMs?: number;
  /** Default 5. */
  readonly maxAttempts?: number;
}

/**
 * Leased work that survives its workers. At-least-once: a job whose worker dies is taken again when its lease ends,
 * so work MUST be safe to repeat. Everything but `claim` is fenced: it changes nothing once the lease is lost.
 */
export interface Queue {
  /** Adds a job; due when `tx` commits. Resolves to its id. */
  put(tx: Tx, job: NewJob): Promise<string>;
  /** Takes at most `limit` due jobs of these kinds for `leaseMs`; no other worker gets them meanwhile. */
  claim(tx: Tx, request: JobRequest): Promise<readonly JobRow[]>;
  /** Moves the lease's end to `leaseMs` from now. False when the lease is lost: the worker MUST stop. */
  renew(tx: Tx, id: string, leaseMs: number): Promise<boolean>;
  /** False when the lease was lost: the caller MUST undo what it did by failing the transaction. */
  done(tx: Tx, id: string): Promise<boolean>;
  /** Tries again at `retryAtMs`; gives up when that is null or no attempt is left. False when the lease was lost. */
  fail(tx: Tx, id: string, failure: LeaseFailure): Promise<boolean>;
  /** Ends leases of processes that are known to be gone; for start-up. Resolves to their number. */
  reclaim(tx: Tx): Promise<number>;
}

export interface JobRequest {
  readonly kinds: readonly string[];
  readonly limit: number;
  readonly leaseMs: number;
}

const MAX_ATTEMPTS = 5;

export function createQueue(holder: Leaseholder): Queue {
  const leases = new Leases(holder, { table: "jobs", ready: "queued" });
  return {
    async put(tx, job) {
      const id = createId("job", tx.nowMs);
      await tx.insert("jobs", [
        {
          id,
          kind: job.kind,
          ref: job.ref,
          payload: JSON.stringify(job.payload ?? {}),
          status: "queued",
          attempts: 0,
          max_attempts: job.maxAttempts ?? MAX_ATTEMPTS,
          available_at: job.availableAtMs ?? tx.nowMs,
          lease_owner: null,
          last_error: null,
          created_at: tx.nowMs,
          done_at: null,
        },
      ]);
      return id;
    },
    async claim(tx, { kinds, limit, leaseMs }) {
      const among = { column: "kind", values: kinds } as const;
      await leases.giveUp(tx);
      return (await leases.claim(tx, { limit, leaseMs, among })) as unknown as readonly JobRow[];
    },
    renew: (tx, id, leaseMs) => leases.renew(tx, id, leaseMs),
    done: async (tx, id) => (await leases.end(tx, id, { status: "done" })) !== undefined,
    fail: (tx, id, failure) => leases.fail(tx, id, failure),
    reclaim: (tx) => leases.reclaim(tx),
  };
}
