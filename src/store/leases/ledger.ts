import type { LedgerRow } from "../schema/tables.ts";
import { rawTx } from "../tx/tx.ts";
import type { Tx } from "../tx/tx.ts";

export interface ClaimRequest {
  /** What kind of work: `idempotency:<owner>`, `delivery:<route>`, `cron:<job>`. */
  readonly scope: string;
  readonly key: string;
  /** Hash of the work's input: a different one in `row` is a conflict. */
  readonly fingerprint: string;
  /** How long no other caller can claim the work, unless it is finished or released before. */
  readonly leaseMs: number;
}

/** Either the caller owns the work, or `row` has its owner, input and result. */
export type Claim = { readonly claimed: true } | { readonly claimed: false; readonly row: LedgerRow };

/**
 * Once-only work. Of all callers that claim a (scope, key), in any process, one wins; the others get its row. An
 * expired claim can be claimed again, and so can an expired finished row.
 */
export interface Ledger {
  /** Claims the key for this store's owner. Never waits for another claim's work, only for its transaction. */
  claim(tx: Tx, request: ClaimRequest): Promise<Claim>;

  /** Claims and finishes in one step: for work that is completely in the transaction that claims it. */
  record(
    tx: Tx,
    work: Omit<ClaimRequest, "leaseMs"> & { readonly result: unknown; readonly keepMs: number },
  ): Promise<Claim>;

  /**
   * Records the result of the claimed work (JSON) and keeps it for `keepMs`. False when this store lost the claim:
   * another process reclaimed the work, and the caller MUST undo its own by failing the transaction.
   */
  finish(
    tx: Tx,
    name: LedgerName,
    done: { readonly result: unknown; readonly keepMs: number },
  ): Promise<boolean>;

  /** Releases a claim, so the next caller can claim it at once. False when this store had lost it. */
  release(tx: Tx, name: LedgerName): Promise<boolean>;

  /** Returns the row, unless it expired. */
  find(tx: Tx, name: LedgerName): Promise<LedgerRow | undefined>;
}

export interface LedgerName {
  readonly scope: string;
  readonly key: string;
}

const CLAIM =
  "insert into ledger (scope, key, fingerprint, status, owner, result, created_at, expires_at) " +
  "values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (scope, key) do update set fingerprint = excluded.fingerprint, " +
  "status = excluded.status, owner = excluded.owner, result = excluded.result, " +
  "created_at = excluded.created_at, expires_at = excluded.expires_at " +
  "where ledger.expires_at <= excluded.created_at";
const MINE = "where scope = ? and key = ? and owner = ? and status = 'claimed'";
const FINISH = `update ledger set status = 'done', result = ?, expires_at = ? ${MINE}`;
const RELEASE = `delete from ledger ${MINE}`;

export function createLedger(owner: string): Ledger {
  const take = async (tx: Tx, row: Omit<LedgerRow, "owner" | "created_at">): Promise<Claim> => {
    const { scope, key, fingerprint, status, result, expires_at: expiresAt } = row;
    const values = [scope, key, fingerprint, status, owner, result, tx.nowMs, expiresAt];
    if ((await rawTx(tx).run(CLAIM, values)) === 1) return { claimed: true };
    const taken = await tx.find("ledger", { scope, key });
    // The statement above locked the conflicting row, so it still exists.
    if (!taken) throw new TypeError(`The ledger lost its row for ${scope}.`);
    return { claimed: false, row: taken };
  };
  return {
    claim: (tx, { leaseMs, ...work }) =>
      take(tx, { ...work, status: "claimed", result: null, expires_at: tx.nowMs + leaseMs }),

    record: (tx, { result, keepMs, ...work }) =>
      take(tx, { ...work, status: "done", result: JSON.stringify(result), expires_at: tx.nowMs + keepMs }),

    async finish(tx, { scope, key }, { result, keepMs }) {
      const values = [JSON.stringify(result), tx.nowMs + keepMs, scope, key, owner];
      return (await rawTx(tx).run(FINISH, values)) === 1;
    },

    async release(tx, { scope, key }) {
      return (await rawTx(tx).run(RELEASE, [scope, key, owner])) === 1;
    },

    async find(tx, { scope, key }) {
      const row = await tx.find("ledger", { scope, key });
      return row && row.expires_at > tx.nowMs ? row : undefined;
    },
  };
}
