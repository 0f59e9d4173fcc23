import { rawTx } from "../tx/tx.ts";
import type { Row, Tx, Value } from "../tx/tx.ts";

/** Who leases, and how the process table is asked about others. */
export interface Leaseholder {
  readonly owner: string;
  ownerIsDead(owner: string): boolean;
}

/** A table of leased work: its name, and what its rows are called while they wait and once they are done. */
export interface LeaseTable {
  readonly table: "jobs" | "outbox";
  readonly ready: "queued" | "due";
  /** Sets further columns of rows that are taken, from what they were; SQL, whose one value is the time. */
  readonly taking?: string;
}

export interface LeaseRequest {
  /** Most rows to take. */
  readonly limit: number;
  /** After this the row is due again, unless it is renewed. */
  readonly leaseMs: number;
  /** Rows whose `column` is one of `values` only. */
  readonly among?: { readonly column: "id" | "kind"; readonly values: readonly string[] };
  /** Rows for which this SQL holds only. */
  readonly where?: { readonly sql: string; readonly values: readonly Value[] };
}

export interface LeaseEnd {
  readonly status: "done" | "delivered" | "dead" | "unknown";
  readonly error?: string;
}

/** Why a row goes back, and until when. */
export interface LeasePause {
  readonly error: string;
  readonly atMs: number;
  /** False: the attempt does not count. */
  readonly isCounted: boolean;
}

/** Why a row goes back: with an instant it is tried again then, without one it is given up. */
export interface LeaseFailure {
  readonly error: string;
  readonly retryAtMs: number | null;
}

const MAX_ERROR_LENGTH = 2_000;

/**
 * Work in rows, taken by lease. `available_at` is when a row is due and, while it is leased, when the lease ends: a
 * lease that ran out is simply due again, so a crash needs no clearing up. Whoever ends a lease names itself: a
 * worker that lost its lease changes nothing.
 */
export class Leases {
  readonly #holder: Leaseholder;
  readonly #names: LeaseTable;
  readonly #mine: string;

  constructor(holder: Leaseholder, names: LeaseTable) {
    this.#holder = holder;
    this.#names = names;
    this.#mine = "where id = ? and lease_owner = ? and status = 'leased'";
  }

  /** Gives up rows that used up their attempts without an answer. */
  async giveUp(tx: Tx): Promise<void> {
    const { table, ready } = this.#names;
    await rawTx(tx).run(
      `update ${table} set status = 'dead', lease_owner = null, done_at = ?, ` +
        `last_error = coalesce(last_error, 'The worker was lost during the last attempt.') ` +
        `where status = 'leased' and status in ('${ready}', 'leased') and available_at <= ? ` +
        "and attempts >= max_attempts",
      [tx.nowMs, tx.nowMs],
    );
  }

  /** Takes due rows, longest due first, whatever their attempts. */
  async claim(tx: Tx, { limit, leaseMs, among, where }: LeaseRequest): Promise<readonly Row[]> {
    const raw = rawTx(tx);
    const { table, ready } = this.#names;
    const { nowMs } = tx;
    const only = among ? ` and ${among.column} in (${among.values.map(() => "?").join(", ")})` : "";
    const also = where ? ` and ${where.sql}` : "";
    if (among?.values.length === 0 || limit < 1) return [];
    // Ids are looked up one by one: a long line of others that are due costs nothing then.
    const isById = among?.column === "id";
    // A common table expression, since PostgreSQL may run a subquery with a limit more than once and take too many.
    const skip = raw.dialect === "postgres" ? " for update skip locked" : "";
    const chosen: Value[] = [nowMs, ...(among?.values ?? []), ...(where?.values ?? [])];
    const { taking } = this.#names;
    const more = taking === undefined ? [] : [nowMs];
    const values = [...chosen, limit, this.#holder.owner, nowMs + leaseMs, ...more];
    const rows = await raw.all(
      `with picked as (select id from ${table} where status in ('${ready}', 'leased') and available_at <= ?${only}${also} ` +
        `${isById ? "" : "order by available_at, id "}limit ?${skip}) ` +
        `update ${table} set status = 'leased', lease_owner = ?, available_at = ?, attempts = attempts + 1` +
        `${taking === undefined ? "" : `, ${taking}`} where id in (select id from picked) returning *`,
      values,
    );
    // RETURNING promises no order; ids are time-ordered.
    return rows.map((row) => ({ ...row })).sort((a, b) => (String(a["id"]) < String(b["id"]) ? -1 : 1));
  }

  /** Moves the lease's end to `leaseMs` from now. False when the lease is lost: the worker MUST stop. */
  async renew(tx: Tx, id: string, leaseMs: number): Promise<boolean> {
    const sql = `update ${this.#names.table} set available_at = ? ${this.#mine}`;
    return (await rawTx(tx).run(sql, [tx.nowMs + leaseMs, id, this.#holder.owner])) === 1;
  }

  /**
   * The work is done, for good or ill; `error` says what went wrong. Gives the row as it is then, undefined when the lease
   * was lost.
   */
  async end(tx: Tx, id: string, { status, error }: LeaseEnd): Promise<Row | undefined> {
    const { table } = this.#names;
    const told = error === undefined ? "" : "last_error = ?, ";
    const values = error === undefined ? [] : [error.slice(0, MAX_ERROR_LENGTH)];
    const [row] = await rawTx(tx).all(
      `update ${table} set status = '${status}', lease_owner = null, ${told}done_at = ? ${this.#mine} returning *`,
      [...values, tx.nowMs, id, this.#holder.owner],
    );
    return row;
  }

  /** The row waits again, until that instant. False when the lease was lost. */
  async putBack(tx: Tx, id: string, { error, atMs, isCounted }: LeasePause): Promise<boolean> {
    const { table, ready } = this.#names;
    const sql =
      `update ${table} set status = '${ready}', lease_owner = null, last_error = ?, available_at = ?, ` +
      `attempts = attempts - ? ${this.#mine}`;
    const values = [error.slice(0, MAX_ERROR_LENGTH), atMs, isCounted ? 0 : 1, id, this.#holder.owner];
    return (await rawTx(tx).run(sql, values)) === 1;
  }

  /** The attempt failed. A retry that the row has no attempts left for gives it up. False when the lease was lost. */
  async fail(tx: Tx, id: string, { error, retryAtMs }: LeaseFailure): Promise<boolean> {
    const { table, ready } = this.#names;
    const text = error.slice(0, MAX_ERROR_LENGTH);
    if (retryAtMs !== null) {
      const again = `update ${table} set status = '${ready}', lease_owner = null, last_error = ?, available_at = ? `;
      const values = [text, retryAtMs, id, this.#holder.owner];
      if ((await rawTx(tx).run(`${again}${this.#mine} and attempts < max_attempts`, values)) === 1)
        return true;
    }
    return (await this.end(tx, id, { status: "dead", error })) !== undefined;
  }

  /** Gives the row back as if it had not been taken. False when the lease was lost. */
  async release(tx: Tx, id: string): Promise<boolean> {
    const { table, ready } = this.#names;
    const sql =
      `update ${table} set status = '${ready}', lease_owner = null, available_at = ?, ` +
      `attempts = attempts - 1 ${this.#mine}`;
    return (await rawTx(tx).run(sql, [tx.nowMs, id, this.#holder.owner])) === 1;
  }

  /** Ends the leases of processes that are known to be gone, without waiting for them. Resolves to their number. */
  async reclaim(tx: Tx): Promise<number> {
    const raw = rawTx(tx);
    const { table, ready } = this.#names;
    const leased = `status = 'leased' and status in ('${ready}', 'leased')`;
    const owners = await raw.all(`select distinct lease_owner from ${table} where ${leased}`, []);
    let freed = 0;
    for (const { lease_owner: owner } of owners) {
      if (typeof owner !== "string" || !this.#holder.ownerIsDead(owner)) continue;
      const sql = `update ${table} set available_at = ? where ${leased} and lease_owner = ? and available_at > ?`;
      freed += await raw.run(sql, [tx.nowMs, owner, tx.nowMs]);
    }
    return freed;
  }
}
