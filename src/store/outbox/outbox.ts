import { createId } from "../../base/ids.ts";
import { advance, advanceAll, FIRST_IN_LANE, heldBy, orderingKeyOf, queueOf } from "./ordering-key.ts";
import { Leases } from "../leases/lease.ts";
import type { Leaseholder, LeaseEnd, LeasePause } from "../leases/lease.ts";
import type { OutboxRow } from "../schema/tables.ts";
import { addTry } from "./attempts.ts";
import { rawTx } from "../tx/tx.ts";
import type { Tx } from "../tx/tx.ts";

export interface NewMessage {
  /** Address of the target, such as `matrix:!room:thread`. */
  readonly target: string;
  /** JSON: what to send. */
  readonly payload: unknown;
  /** What owes it: a run or a delivery id. */
  readonly ref?: string;
  /** When the first attempt is due; default now. */
  readonly availableAtMs?: number;
  /** Attempts in all. Default: as the target's waits are many, and one. */
  readonly maxAttempts?: number;
  /** Messages of one lane go one after the other. Null: it waits for nobody. Default: that of {@link orderingKeyOf}. */
  readonly lane?: string | null;
}

export type Waiting = Pick<
  OutboxRow,
  "id" | "target" | "lane" | "available_at" | "status" | "attempts" | "max_attempts" | "started_at"
>;

export interface BusyTargets {
  /** Whole addresses, of messages without a lane. */
  readonly targets: readonly string[];
  /** Every address of these. */
  readonly platforms: readonly string[];
}

/**
 * Messages owed to targets. What is owed is written with the fact that owes it, in one transaction, and sent later:
 * at least once, since a sender may die between sending and saying so. Of a lane one is sent at a time, the oldest
 * that is owed, whoever sends; those behind it are not looked at while it waits.
 */
export interface Outbox {
  /** Resolves to the message's id, by which a target may recognise a repeat. */
  enqueue(tx: Tx, message: NewMessage): Promise<string>;
  /**
   * Messages that are due, or will be, or whose lease will run out: of each queue the soonest, 16 at most; soonest first.
   * Without queues of busy targets, and without those that others of their lane go before. The cost is that of the
   * queues, however much they hold.
   */
  waiting(tx: Tx, request: { readonly except: BusyTargets }): Promise<readonly Waiting[]>;
  /**
   * Takes at most `limit` due messages, of `ids` if given, for `leaseMs`; no other sender gets them meanwhile. Gives none
   * that others of its lane go before.
   */
  claim(
    tx: Tx,
    request: { readonly limit: number; readonly leaseMs: number; readonly ids?: readonly string[] },
  ): Promise<readonly OutboxRow[]>;
  /** The request of the attempt begins once this is committed. False when the lease is lost: the sender MUST NOT send. */
  start(tx: Tx, id: string): Promise<boolean>;
  /** Moves the lease's end to `leaseMs` from now. False when the lease is lost: the sender MUST stop. */
  renew(tx: Tx, id: string, leaseMs: number): Promise<boolean>;
  /**
   * Keeps what came of an attempt, JSON as {@link OutboxRow.attempt_log} has it; `isUncertain`: the platform may have taken it.
   * Before the lease ends.
   */
  note(
    tx: Tx,
    id: string,
    how: { readonly attemptLog: string; readonly isUncertain: boolean },
  ): Promise<void>;
  /** So many parts have arrived, in all. False when the lease is lost: the sender MUST stop. */
  progress(tx: Tx, id: string, partsSent: number): Promise<boolean>;
  /** The target has it. False when the lease was lost. */
  delivered(tx: Tx, id: string): Promise<boolean>;
  /** Tries again at that instant. With `isCounted` false the attempt is as if it had not been. False: the lease was lost. */
  retryAt(
    tx: Tx,
    id: string,
    retry: Omit<LeasePause, "isCounted"> & Partial<Pick<LeasePause, "isCounted">>,
  ): Promise<boolean>;
  /** Gives up: the message stays as a dead letter. False when the lease was lost. */
  dead(tx: Tx, id: string, error: string): Promise<boolean>;
  /** It may have arrived, and is not sent again: it stays on record as unknown. False when the lease was lost. */
  unknown(tx: Tx, id: string, error: string): Promise<boolean>;
  /**
   * Settles the attempt of a sender that is gone: its lease ran out. The attempt is kept as lost. Gives the row as it is
   * then; undefined when somebody else was faster.
   */
  lost(tx: Tx, id: string, how: LostAttempt): Promise<OutboxRow | undefined>;
  /** Gives the message back as if this attempt had not been. False when the lease was lost. */
  release(tx: Tx, id: string): Promise<boolean>;
  /** Calls `run` after every commit by which this process owes something; the returned function ends that. */
  onEnqueued(run: () => void): () => void;
  /** Ends leases of processes that are known to be gone; for start-up. Resolves to their number. */
  reclaim(tx: Tx): Promise<number>;
  /**
   * Brings forward what a clock ahead of the time put off: it is due in a minute, before which living senders renew their
   * leases. Resolves to its number.
   */
  correctAhead(tx: Tx): Promise<number>;
  /** Looks after lanes whose first message nobody looks for; from time to time. Resolves to their number. */
  advance(tx: Tx): Promise<number>;
}

/** What becomes of a message whose sender is gone; `error` is for people. */
export interface LostAttempt {
  /**
   * unsent: nothing left this machine, and it is due as if the attempt had not been. again: it may have arrived, and is due.
   * unknown: it may have arrived, and is not sent again.
   */
  readonly status: "unsent" | "again" | "unknown";
  readonly error: string;
}

/** Of a queue, looked at in one round. */
const PER_QUEUE = 16;

const READY = "status in ('due', 'leased') and held = 0";

/** Names of the queues, each by one step into the index, whatever they hold. */
const QUEUES =
  `with recursive queues (name) as (select min(queue) from outbox where ${READY} union all ` +
  `select (select min(queue) from outbox where ${READY} and queue > queues.name) from queues ` +
  "where queues.name is not null) select name from queues where name is not null";

const SOONEST =
  "select id, target, lane, available_at, status, attempts, max_attempts, started_at from outbox " +
  `where ${READY} and queue = ? and ${FIRST_IN_LANE} order by available_at, id limit ?`;

export function createOutbox(holder: Leaseholder): Outbox {
  const leases = new Leases(holder, { table: "outbox", ready: "due", taking: TAKING });
  const listeners = new Set<() => void>();
  const tell = () => {
    for (const run of listeners) run();
  };
  // A clock that is put back does not put messages before older ones.
  let lastMs = 0;
  const end = async (tx: Tx, id: string, how: LeaseEnd) => {
    const row = (await leases.end(tx, id, how)) as OutboxRow | undefined;
    if (row) await advance(tx, row.lane);
    return row !== undefined;
  };
  return {
    async enqueue(tx, message) {
      lastMs = Math.max(lastMs, tx.nowMs);
      const id = createId("out", lastMs);
      const { lane = orderingKeyOf(message.target, extraOf(message.payload)) } = message;
      const held = await heldBy(tx, lane, id);
      const queue = queueOf(message.target, lane);
      await tx.insert("outbox", [{ ...toRow(message, tx.nowMs), id, lane, queue, held }]);
      tx.afterCommit(tell);
      return id;
    },
    async waiting(tx, { except }) {
      const raw = rawTx(tx);
      const queues = (await raw.all(QUEUES, [])).map(({ name }) => String(name));
      const free = queues.filter((queue) => !isBusy(queue, except));
      const rows = await Promise.all(free.map((queue) => raw.all(SOONEST, [queue, tx.nowMs, PER_QUEUE])));
      return (rows.flat() as unknown as readonly Waiting[]).toSorted(bySoonest);
    },
    async claim(tx, { limit, leaseMs, ids }) {
      const among = ids && ({ column: "id", values: ids } as const);
      const where = { sql: `held = 0 and ${FIRST_IN_LANE}`, values: [tx.nowMs] };
      const rows = await leases.claim(tx, { limit, leaseMs, where, ...(among ? { among } : {}) });
      return rows as unknown as readonly OutboxRow[];
    },
    async start(tx, id) {
      const mine = { id, lease_owner: holder.owner, status: "leased" };
      return (await tx.update("outbox", mine, { started_at: tx.nowMs })) === 1;
    },
    renew: (tx, id, leaseMs) => leases.renew(tx, id, leaseMs),
    async progress(tx, id, partsSent) {
      const mine = { id, lease_owner: holder.owner, status: "leased" };
      // What may have arrived was the part that has; the next one begins.
      const set = { parts_sent: partsSent, uncertain_at: null, tried_at: tx.nowMs };
      return (await tx.update("outbox", mine, set)) === 1;
    },
    async note(tx, id, { attemptLog, isUncertain }) {
      await rawTx(tx).run(isUncertain ? DOUBT : NOTE, [attemptLog, id, holder.owner]);
    },
    delivered: (tx, id) => end(tx, id, { status: "delivered" }),
    retryAt: (tx, id, { isCounted = true, ...pause }) => leases.putBack(tx, id, { ...pause, isCounted }),
    dead: (tx, id, error) => end(tx, id, { status: "dead", error }),
    unknown: (tx, id, error) => end(tx, id, { status: "unknown", error }),
    async lost(tx, id, how) {
      const row = await tx.find("outbox", { id });
      if (row?.status !== "leased" || row.available_at > tx.nowMs) return undefined;
      const seen = { id, status: "leased", lease_owner: row.lease_owner, available_at: row.available_at };
      const set = lostColumns(row, how, tx.nowMs);
      if ((await tx.update("outbox", seen, set)) === 0) return undefined;
      if (how.status === "unknown") await advance(tx, row.lane);
      return { ...row, ...set };
    },
    release: (tx, id) => leases.release(tx, id),
    onEnqueued(run) {
      listeners.add(run);
      return () => void listeners.delete(run);
    },
    reclaim: (tx) => leases.reclaim(tx),
    async correctAhead(tx) {
      const soonMs = tx.nowMs + AHEAD_MS;
      return rawTx(tx).run(CORRECT, [soonMs, soonMs, soonMs, soonMs]);
    },
    advance: advanceAll,
  };
}

function toRow(message: NewMessage, nowMs: number): Omit<OutboxRow, "id" | "lane" | "queue" | "held"> {
  return {
    target: message.target,
    payload: JSON.stringify(message.payload),
    ref: message.ref ?? null,
    status: "due",
    attempts: 0,
    max_attempts: message.maxAttempts ?? 0,
    available_at: message.availableAtMs ?? nowMs,
    lease_owner: null,
    last_error: null,
    created_at: nowMs,
    done_at: null,
    parts_sent: 0,
    retried_at: null,
    tried_at: null,
    uncertain_at: null,
    started_at: null,
    attempt_log: null,
  };
}

function lostColumns(row: OutboxRow, { status, error }: LostAttempt, nowMs: number): Partial<OutboxRow> {
  const begunMs = row.tried_at ?? row.available_at;
  const all = {
    lease_owner: null,
    attempt_log: addTry(row.attempt_log, { atMs: begunMs, outcome: "lost", error }),
  };
  switch (status) {
    case "unsent":
      return { ...all, status: "due", attempts: row.attempts - 1 };
    case "again":
      return { ...all, status: "due", uncertain_at: row.uncertain_at ?? begunMs };
    case "unknown":
      return { ...all, status: "unknown", last_error: error, done_at: nowMs };
  }
}

/** A lease that ran out belonged to an attempt that nobody knows the end of. */
const TAKING =
  "started_at = null, " +
  "uncertain_at = case when status = 'leased' then coalesce(uncertain_at, tried_at) else uncertain_at end, tried_at = ?";
const OURS = "where id = ? and lease_owner = ? and status = 'leased'";
/** What was written so much later than now was written by another clock. */
export const AHEAD_MS = 60_000;
const CORRECT =
  "update outbox set available_at = ? where status in ('due', 'leased') and available_at > ? " +
  "and (created_at > ? or tried_at > ?)";
const NOTE = `update outbox set attempt_log = ? ${OURS}`;
const DOUBT = `update outbox set attempt_log = ?, uncertain_at = coalesce(uncertain_at, tried_at) ${OURS}`;

function extraOf(payload: unknown): unknown {
  return typeof payload === "object" && payload !== null
    ? (payload as { readonly extra?: unknown }).extra
    : undefined;
}

function isBusy(queue: string, { targets, platforms }: BusyTargets): boolean {
  return targets.includes(queue) || platforms.includes(queue.split(":", 1)[0] ?? "");
}

function bySoonest(a: Waiting, b: Waiting): number {
  return a.available_at - b.available_at || (a.id < b.id ? -1 : 1);
}
