/** Claims on once-only work, and the processes that own claims and leases. Touches the machine: host name and process table. */
import { hostname } from "node:os";
import process from "node:process";
import type { LedgerRow } from "./schema/tables.ts";
import { rawTx, type Tx } from "./tx/tx.ts";

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
type Claim = { readonly claimed: true } | { readonly claimed: false; readonly row: LedgerRow };

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

  /** Deletes finished work that has this result, so that it can be claimed again. */
  forget(tx: Tx, name: LedgerName, result: unknown): Promise<void>;

  /** Returns the row, unless it expired. */
  find(tx: Tx, name: LedgerName): Promise<LedgerRow | undefined>;
}

interface LedgerName {
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
const FORGET = "delete from ledger where scope = ? and key = ? and result = ?";

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

    async forget(tx, { scope, key }, result) {
      await rawTx(tx).run(FORGET, [scope, key, JSON.stringify(result)]);
    },

    async find(tx, { scope, key }) {
      const row = await tx.find("ledger", { scope, key });
      return row && row.expires_at > tx.nowMs ? row : undefined;
    },
  };
}

// Owners

/** The owner of this store's leases, and how to ask about others. */
export interface Leaseholder {
  readonly owner: string;
  ownerIsDead(owner: string): boolean;
}

// Stores of one process differ only in the nonce, as do two processes that had the same pid. This set has the open
// ones.
const living = new Set<string>();

/** Creates a store's name on leases: `host:pid:nonce`. It counts as alive until {@link retireOwner}. */
export function createOwner(host: string = hostname()): string {
  const owner = `${host}:${process.pid}:${nonce()}`;
  living.add(owner);
  return owner;
}

/** Marks the store of that name as closed: its leases are free. */
export function retireOwner(owner: string): void {
  living.delete(owner);
}

/**
 * Returns whether the process of `owner` is known to be gone, as seen by `self`. Only processes of the same host can be
 * known: the pid is free, or is now ours with another nonce (a container that restarted as pid 1). A pid that another
 * program reuses looks alive; its lease has to expire.
 */
export function isOwnerDead(owner: string, self: string): boolean {
  const [other, me] = [parseOwner(owner), parseOwner(self)];
  if (!other || !me || other.host !== me.host) return false;
  if (other.pid === me.pid) return !living.has(owner);
  return !processExists(other.pid);
}

/** Host and process of an owner. */
export interface OwnerProcess {
  readonly host: string;
  readonly pid: number;
}

function nonce(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

// Parsed from the right: a host name may contain colons.
const OWNER = /^(?<host>.+):(?<pid>[1-9]\d{0,9}):[0-9a-f]+$/;

/** Parses an owner's name; undefined when it is not one. */
export function parseOwner(owner: string): OwnerProcess | undefined {
  const { host, pid } = OWNER.exec(owner)?.groups ?? {};
  return host && pid ? { host, pid: Number(pid) } : undefined;
}

function processExists(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Any other error, such as for a process of another user, means that it is alive.
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
