/** Messages to targets: enqueued, leased, settled, and kept in order. */
import { isRecord } from "../../base/data.ts";
import { createId, headOf } from "../../base/text.ts";
import type { Leaseholder } from "../leases.ts";
import type { OutboxRow } from "../schema/tables.ts";
import { rawTx, type RawTx, type Tx, type Value } from "../tx/tx.ts";

export interface NewMessage {
  /** Whose message it is: the owner of its run, job or route. */
  readonly owner: string;
  /** Address of the target, such as `matrix:!room:thread`. */
  readonly target: string;
  /** JSON: what to send. */
  readonly payload: unknown;
  /** What the message is sent for: a run or a delivery id. */
  readonly ref?: string;
  /** When the first attempt is due; default now. */
  readonly availableAtMs?: number;
  /** Attempts in all. Default: one more than the target's delays. */
  readonly maxAttempts?: number;
  /** Messages with the same key are sent one after the other. Null: at any time. Default: {@link orderingKeyOf}. */
  readonly orderingKey?: string | null;
  /** Who sends it, for the feed: the name of a key. Absent: the server. */
  readonly actor?: string;
}

export type PendingMessage = Pick<
  OutboxRow,
  "id" | "target" | "ordering_key" | "available_at" | "status" | "attempts" | "max_attempts" | "started_at"
>;

export interface BusyTargets {
  /** Whole addresses, for messages without an ordering key. */
  readonly targets: readonly string[];
  /** Every address of these platforms. */
  readonly platforms: readonly string[];
}

export interface ClaimRequest {
  /** Most messages to take. */
  readonly limit: number;
  /** After this the message is due again, unless the lease is renewed. */
  readonly leaseMs: number;
  /** These messages only. */
  readonly ids?: readonly string[];
}

/** Why a message is retried, and when. */
export interface Retry {
  /** For people. */
  readonly error: string;
  readonly atMs: number;
  /** False: the attempt does not count. Default true. */
  readonly isCounted?: boolean;
}

/**
 * Messages to targets. A message is enqueued in the transaction that causes it and sent later, at least once: a sender
 * may die between sending and recording it. Of the messages with one ordering key, one is sent at a time, the oldest
 * pending one, by whichever process; senders skip the others meanwhile.
 *
 * Senders claim messages by lease. `available_at` is when a message is due and, while it is leased, when the lease ends:
 * a lease that ran out is due again, so a crash needs no cleanup. A sender that lost its lease changes nothing.
 */
export interface Outbox {
  /** Resolves to the message's id, by which a target may recognise a repeat. */
  enqueue(tx: Tx, message: NewMessage): Promise<string>;
  /**
   * Stores a message that its target has got, for a target that needs no sender. Resolves to its id. The message MUST
   * have no ordering key.
   */
  addDelivered(tx: Tx, message: NewMessage): Promise<string>;
  /**
   * Lists messages that are due, will be due, or whose lease will run out: at most 16 a queue, soonest first. Leaves out
   * queues of busy targets and messages behind others of their ordering key. The cost grows with the number of queues,
   * not of messages.
   */
  listPending(tx: Tx, request: { readonly except: BusyTargets }): Promise<readonly PendingMessage[]>;
  /** Leases due messages that are the first of their ordering key; no other sender gets them meanwhile. */
  claim(tx: Tx, request: ClaimRequest): Promise<readonly OutboxRow[]>;
  /** The request of the attempt begins once this is committed. False when the lease is lost: the sender MUST NOT send. */
  start(tx: Tx, id: string): Promise<boolean>;
  /** Moves the lease's end to `leaseMs` from now. False when the lease is lost: the sender MUST stop. */
  renew(tx: Tx, id: string, leaseMs: number): Promise<boolean>;
  /**
   * Saves the attempts, JSON as {@link OutboxRow.attempt_log} has it, before the lease ends. `isUncertain`: the platform
   * may have accepted the message.
   */
  recordAttempt(
    tx: Tx,
    id: string,
    how: { readonly attemptLog: string; readonly isUncertain: boolean },
  ): Promise<void>;
  /** Saves the total number of parts that arrived. False when the lease is lost: the sender MUST stop. */
  recordProgress(tx: Tx, id: string, partsSent: number): Promise<boolean>;
  /** The target has the message. False when the lease was lost. */
  delivered(tx: Tx, id: string): Promise<boolean>;
  /** Schedules another attempt. False when the lease was lost. */
  retryAt(tx: Tx, id: string, retry: Retry): Promise<boolean>;
  /** Gives up: the message stays with status dead. False when the lease was lost. */
  dead(tx: Tx, id: string, error: string): Promise<boolean>;
  /** The message may have arrived, and is not sent again: it stays with status unknown. False when the lease was lost. */
  unknown(tx: Tx, id: string, error: string): Promise<boolean>;
  /**
   * Ends a message as {@link delivered}, {@link dead} or {@link unknown} does. The sender that holds its lease holds the
   * ordering key: with `nextLeaseMs` it leases the next message of the key for that time, when that one is due. Undefined
   * when the lease was lost.
   */
  end(
    tx: Tx,
    id: string,
    how: EndedMessage & { readonly nextLeaseMs?: number | undefined },
  ): Promise<{ readonly next?: OutboxRow } | undefined>;
  /**
   * Settles the attempt of a sender that is gone, once its lease ran out, and records it as lost. Resolves to the changed
   * row; undefined when another process was faster.
   */
  settleLost(tx: Tx, id: string, how: LostAttempt): Promise<OutboxRow | undefined>;
  /** Returns the message as if this attempt had not begun. False when the lease was lost. */
  release(tx: Tx, id: string): Promise<boolean>;
  /** Calls `run` after every commit in which this process enqueues a message; call the returned function to stop. */
  onEnqueued(run: () => void): () => void;
  /** Ends leases of processes that are known to be gone; for start-up. Resolves to their number. */
  reclaim(tx: Tx): Promise<number>;
  /**
   * Corrects messages that a fast clock postponed: they are due in a minute, in which living senders renew their leases.
   * Resolves to their number.
   */
  correctAhead(tx: Tx): Promise<number>;
  /**
   * Unblocks messages that no sender would find, and reclaims as {@link reclaim} does: a process may claim after its
   * successor has started, and then end. Call it from time to time. Resolves to the number of messages.
   */
  advance(tx: Tx): Promise<number>;
}

export type EndedMessage =
  | { readonly status: "delivered" }
  | { readonly status: "dead" | "unknown"; readonly error: string };

/** The result for a message whose sender is gone; `error` is for people. */
export interface LostAttempt {
  /**
   * unsent: the request never left this machine; the message is due, and the attempt does not count. again: it may have
   * arrived, and is due. unknown: it may have arrived, and is not sent again.
   */
  readonly status: "unsent" | "again" | "unknown";
  readonly error: string;
}

/** Messages of one queue that one poll reads. */
const PER_QUEUE = 16;
const MAX_ERROR_LENGTH = 2_000;
/** A timestamp this far in the future comes from another clock. */
export const AHEAD_MS = 60_000;

export function createOutbox({ owner, ownerIsDead }: Leaseholder): Outbox {
  const listeners = new Set<() => void>();
  const notify = () => {
    for (const run of listeners) run();
  };
  // A clock that is set back does not put messages before older ones.
  let lastMs = 0;
  /** Runs a statement whose last two values are the id and the owner of the lease. */
  const runLeased = async (tx: Tx, sql: string, values: readonly Value[], id: string) =>
    (await rawTx(tx).run(sql, [...values, id, owner])) === 1;
  /** As {@link runLeased}, for a statement that changes the status. */
  const settle = async (tx: Tx, sql: string, values: readonly Value[], to: Settlement) => {
    const [row] = await rawTx(tx).all(sql, [...values, to.id, owner]);
    if (!row) return undefined;
    const { id, status } = to;
    recordMessage(tx, { ...(row as unknown as SettledRow), id }, { status });
    return row as unknown as SettledRow;
  };
  const end: Outbox["end"] = async (tx, id, { nextLeaseMs, ...how }) => {
    const error = "error" in how ? headOf(how.error, MAX_ERROR_LENGTH) : null;
    const row = await settle(tx, END, [how.status, error, tx.nowMs], { id, status: how.status });
    if (!row) return undefined;
    const next = await claimNext(rawTx(tx), owner, row.ordering_key, nextLeaseMs);
    if (next) return { next };
    await unblockNext(tx, row.ordering_key);
    return {};
  };
  const isEnded = async (tx: Tx, id: string, how: EndedMessage) => (await end(tx, id, how)) !== undefined;
  return {
    async enqueue(tx, message) {
      lastMs = Math.max(lastMs, tx.nowMs);
      const id = createId("out", lastMs);
      const { target, orderingKey = orderingKeyOf(target, extraOf(message.payload)) } = message;
      const blocked = await readBlocked(tx, orderingKey, id);
      const queue = queueOf(target, orderingKey);
      const row = { ...toRow(message, tx.nowMs), id, ordering_key: orderingKey, queue, blocked };
      await tx.insert("outbox", [row]);
      recordMessage(tx, row, { status: "due", isNew: true, actor: message.actor ?? null });
      tx.afterCommit(notify);
      return id;
    },
    async addDelivered(tx, message) {
      lastMs = Math.max(lastMs, tx.nowMs);
      const id = createId("out", lastMs);
      const row = { ...toDeliveredRow(message, tx.nowMs), id };
      await tx.insert("outbox", [row]);
      recordMessage(tx, row, { status: "delivered", isNew: true });
      return id;
    },
    async listPending(tx, { except }) {
      const raw = rawTx(tx);
      const queues = (await raw.all(QUEUES, [])).map(({ name }) => String(name));
      const free = queues.filter((queue) => !isBusy(queue, except));
      const rows = await Promise.all(free.map((queue) => raw.all(SOONEST, [queue, tx.nowMs, PER_QUEUE])));
      return (rows.flat() as unknown as readonly PendingMessage[]).toSorted(bySoonest);
    },
    claim: (tx, request) => claim(rawTx(tx), owner, request),
    start: (tx, id) => runLeased(tx, START, [tx.nowMs], id),
    renew: (tx, id, leaseMs) => runLeased(tx, RENEW, [tx.nowMs + leaseMs], id),
    recordProgress: (tx, id, partsSent) => runLeased(tx, PROGRESS, [partsSent, tx.nowMs], id),
    async recordAttempt(tx, id, { attemptLog, isUncertain }) {
      await runLeased(tx, isUncertain ? RECORD_UNCERTAIN : RECORD, [attemptLog], id);
    },
    delivered: (tx, id) => isEnded(tx, id, { status: "delivered" }),
    async retryAt(tx, id, { error, atMs, isCounted = true }) {
      const values = [headOf(error, MAX_ERROR_LENGTH), atMs, isCounted ? 0 : 1];
      return (await settle(tx, RETRY, values, { id, status: "due" })) !== undefined;
    },
    dead: (tx, id, error) => isEnded(tx, id, { status: "dead", error }),
    unknown: (tx, id, error) => isEnded(tx, id, { status: "unknown", error }),
    end,
    settleLost,
    release: async (tx, id) => (await settle(tx, RELEASE, [tx.nowMs], { id, status: "due" })) !== undefined,
    onEnqueued(run) {
      listeners.add(run);
      return () => void listeners.delete(run);
    },
    reclaim: (tx) => reclaim(tx, ownerIsDead),
    correctAhead: (tx) => rawTx(tx).run(CORRECT, Array<number>(4).fill(tx.nowMs + AHEAD_MS)),
    advance: async (tx) => (await reclaim(tx, ownerIsDead)) + (await unblockAll(tx)),
  };
}

async function reclaim(tx: Tx, ownerIsDead: Leaseholder["ownerIsDead"]): Promise<number> {
  const raw = rawTx(tx);
  let count = 0;
  for (const { lease_owner: other } of await raw.all(OWNERS, [])) {
    if (typeof other !== "string" || !ownerIsDead(other)) continue;
    count += await raw.run(RECLAIM, [tx.nowMs, other, tx.nowMs]);
  }
  return count;
}

/** Leases the messages that have been due for the longest time. */
async function claim(raw: RawTx, owner: string, request: ClaimRequest): Promise<readonly OutboxRow[]> {
  const { limit, leaseMs, ids } = request;
  if (ids?.length === 0 || limit < 1) return [];
  const among = ids ? ` and id in (${ids.map(() => "?").join(", ")})` : "";
  // Ids are looked up one by one, so a long queue of other due messages costs nothing.
  const order = ids ? "" : "order by available_at, id ";
  // A common table expression, since PostgreSQL may run a subquery with a limit more than once and take too many.
  const skip = raw.dialect === "postgres" ? " for update skip locked" : "";
  const rows = await raw.all(
    `with picked as (select id from outbox where ${READY} and available_at <= ?${among} and ${FIRST_OF_KEY} ` +
      `${order}limit ?${skip}) ${TAKE} where id in (select id from picked) returning *`,
    [raw.nowMs, ...(ids ?? []), raw.nowMs, limit, owner, raw.nowMs + leaseMs, raw.nowMs],
  );
  // RETURNING promises no order; ids are time-ordered.
  const claimed = rows.map((row) => ({ ...row }) as unknown as OutboxRow);
  for (const row of claimed) recordMessage(raw, row, { status: "leased" });
  return claimed.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Leases the oldest pending message of an ordering key that no sender holds. Undefined when it is not due. */
async function claimNext(
  raw: RawTx,
  owner: string,
  orderingKey: string | null,
  leaseMs: number | undefined,
): Promise<OutboxRow | undefined> {
  if (orderingKey === null || leaseMs === undefined) return undefined;
  const values = [owner, raw.nowMs + leaseMs, raw.nowMs, orderingKey, raw.nowMs];
  const [row] = await raw.all(TAKE_NEXT, values);
  if (!row) return undefined;
  const claimed = { ...row } as unknown as OutboxRow;
  recordMessage(raw, claimed, { status: "leased" });
  return claimed;
}

async function settleLost(tx: Tx, id: string, how: LostAttempt): Promise<OutboxRow | undefined> {
  const row = await tx.find("outbox", { id });
  if (row?.status !== "leased" || row.available_at > tx.nowMs) return undefined;
  const seen = { id, status: "leased", lease_owner: row.lease_owner, available_at: row.available_at };
  const set = lostColumns(row, how, tx.nowMs);
  if ((await tx.update("outbox", seen, set)) === 0) return undefined;
  const changed = { ...row, ...set };
  recordMessage(tx, changed, { status: changed.status });
  if (how.status === "unknown") await unblockNext(tx, row.ordering_key);
  return changed;
}

function lostColumns(row: OutboxRow, { status, error }: LostAttempt, nowMs: number): Partial<OutboxRow> {
  const begunMs = row.attempted_at ?? row.available_at;
  const all = {
    lease_owner: null,
    attempt_log: addAttempt(row.attempt_log, { atMs: begunMs, outcome: "lost", error }),
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

interface Settlement {
  readonly id: string;
  readonly status: string;
}

type SettledRow = Pick<OutboxRow, "owner" | "target" | "ref" | "ordering_key">;

/**
 * Records a new message, or a new status of one, for the change feed. `actor`: who changed it; default: the server.
 */
export function recordMessage(
  tx: Tx,
  { id, owner, target, ref }: Pick<OutboxRow, "id" | "owner" | "target" | "ref">,
  change: { readonly status: string; readonly isNew?: true; readonly actor?: string | null },
): void {
  const [platform] = target.split(":", 1);
  const status = change.status === "leased" ? "sending" : change.status;
  const type = change.isNew ? "message.created" : "message.updated";
  tx.record({ type, ref: id, owner, data: { platform, status, ref }, actor: change.actor ?? null });
}

/** How an attempt ended. lost: its process was gone. stopped: the service ended. */
export type AttemptOutcome = "delivered" | "retry" | "permanent" | "unknown" | "stopped" | "lost";

export interface AttemptRecord {
  /** When the attempt began, or its last part; Unix milliseconds. */
  readonly atMs: number;
  /** Absent when the duration is unknown. */
  readonly tookMs?: number;
  readonly outcome: AttemptOutcome;
  /** Why it did not deliver the message, for people. */
  readonly error?: string;
}

/** Bounds the log of a message that is retried by hand again and again. */
const MAX_ATTEMPTS = 20;

/** Returns the column `attempt_log` with one more attempt. */
export function addAttempt(attemptLog: string | null, attempt: AttemptRecord): string {
  return JSON.stringify([...readAttemptLog(attemptLog), attempt].slice(-MAX_ATTEMPTS));
}

/** Returns the attempts of the column `attempt_log`, oldest first. */
export function readAttemptLog(attemptLog: string | null): readonly AttemptRecord[] {
  return attemptLog === null ? [] : (JSON.parse(attemptLog) as readonly AttemptRecord[]);
}

function toRow(
  message: NewMessage,
  nowMs: number,
): Omit<OutboxRow, "id" | "ordering_key" | "queue" | "blocked"> {
  return {
    owner: message.owner,
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
    attempted_at: null,
    uncertain_at: null,
    started_at: null,
    attempt_log: null,
  };
}

function toDeliveredRow(message: NewMessage, nowMs: number): Omit<OutboxRow, "id"> {
  return {
    ...toRow(message, nowMs),
    status: "delivered",
    attempts: 1,
    attempted_at: nowMs,
    done_at: nowMs,
    attempt_log: addAttempt(null, { atMs: nowMs, tookMs: 0, outcome: "delivered" }),
    ordering_key: null,
    queue: queueOf(message.target, null),
    blocked: 0,
  };
}

const PENDING = "status in ('due', 'leased')";

/**
 * SQL that holds for the oldest pending message of an ordering key while no other message of that key is being sent; its
 * one value is the time. Two messages may be unblocked when two processes enqueue at once; this condition decides.
 */
const FIRST_OF_KEY =
  "not exists (select 1 from outbox as older where older.ordering_key = outbox.ordering_key " +
  "and older.status in ('due', 'leased') and older.id < outbox.id) " +
  "and not exists (select 1 from outbox as other where other.ordering_key = outbox.ordering_key " +
  "and other.status = 'leased' and other.available_at > ? and other.id <> outbox.id)";

const READY = `${PENDING} and blocked = 0`;
const LEASED = "where id = ? and lease_owner = ? and status = 'leased'";
const SETTLED = "owner, target, ref, ordering_key";

/** Selects the names of the queues with one index lookup each, however many messages they have. */
const QUEUES =
  `with recursive queues (name) as (select min(queue) from outbox where ${READY} union all ` +
  `select (select min(queue) from outbox where ${READY} and queue > queues.name) from queues ` +
  "where queues.name is not null) select name from queues where name is not null";
const SOONEST =
  "select id, target, ordering_key, available_at, status, attempts, max_attempts, started_at from outbox " +
  `where ${READY} and queue = ? and ${FIRST_OF_KEY} order by available_at, id limit ?`;

// A lease that ran out belonged to an attempt with an unknown outcome.
const TAKE =
  "update outbox set status = 'leased', lease_owner = ?, available_at = ?, attempts = attempts + 1, started_at = null, " +
  "uncertain_at = case when status = 'leased' then coalesce(uncertain_at, attempted_at) else uncertain_at end, " +
  "attempted_at = ?";
const FIRST_PENDING = `(select id from outbox where ordering_key = ? and ${PENDING} order by id limit 1)`;
const TAKE_NEXT = `${TAKE}, blocked = 0 where id = ${FIRST_PENDING} and status = 'due' and available_at <= ? returning *`;
const START = `update outbox set started_at = ? ${LEASED}`;
const RENEW = `update outbox set available_at = ? ${LEASED}`;
// The part with an unknown outcome has arrived; the next one begins.
const PROGRESS = `update outbox set parts_sent = ?, uncertain_at = null, attempted_at = ? ${LEASED}`;
const RECORD = `update outbox set attempt_log = ? ${LEASED}`;
const RECORD_UNCERTAIN = `update outbox set attempt_log = ?, uncertain_at = coalesce(uncertain_at, attempted_at) ${LEASED}`;
const END =
  "update outbox set status = ?, lease_owner = null, last_error = coalesce(?, last_error), done_at = ? " +
  `${LEASED} returning ${SETTLED}`;
const RETRY =
  "update outbox set status = 'due', lease_owner = null, last_error = ?, available_at = ?, " +
  `attempts = attempts - ? ${LEASED} returning ${SETTLED}`;
const RELEASE =
  "update outbox set status = 'due', lease_owner = null, available_at = ?, " +
  `attempts = attempts - 1 ${LEASED} returning ${SETTLED}`;
// The first condition is that of the partial index.
const HELD_LEASES = `status = 'leased' and ${PENDING}`;
const OWNERS = `select distinct lease_owner from outbox where ${HELD_LEASES}`;
const RECLAIM = `update outbox set available_at = ? where ${HELD_LEASES} and lease_owner = ? and available_at > ?`;
const CORRECT =
  `update outbox set available_at = ? where ${PENDING} and available_at > ? ` +
  "and (created_at > ? or attempted_at > ?)";

function extraOf(payload: unknown): unknown {
  return isRecord(payload) ? payload["extra"] : undefined;
}

function isBusy(queue: string, { targets, platforms }: BusyTargets): boolean {
  return targets.includes(queue) || platforms.includes(queue.split(":", 1)[0] ?? "");
}

function bySoonest(a: PendingMessage, b: PendingMessage): number {
  return a.available_at - b.available_at || (a.id < b.id ? -1 : 1);
}

// Ordering keys

/** Platforms whose messages are independent of each other. */
const unordered: ReadonlySet<string> = new Set(["webhook", "log", "local", "cron_output"]);

/** Fields of `extra` that name the chat when the address is a platform alone. */
const CHAT_FIELDS = ["chat_id", "repo", "pr_number"] as const;

/** Limit of an indexed value in PostgreSQL. */
const MAX_CHARACTERS = 400;

/**
 * Returns the ordering key of a message: messages with the same key are sent one after the other, in the order in which
 * they were enqueued. Null: sent at any time. `extra` holds the target's further fields. Two spellings of one chat are
 * two keys.
 */
export function orderingKeyOf(target: string, extra: unknown): string | null {
  const [platform = ""] = target.split(":", 1);
  if (unordered.has(platform)) return null;
  if (target !== platform || typeof extra !== "object" || extra === null) return toIndexable(target);
  const fields = extra as Readonly<Record<string, unknown>>;
  const chat = CHAT_FIELDS.map((key) => fields[key]).filter((value) =>
    /^(string|number)$/.test(typeof value),
  );
  return toIndexable([target, ...chat].join(":"));
}

/** Returns the queue that senders find a message in: its platform, or its address when it has no ordering key. */
export function queueOf(target: string, orderingKey: string | null): string {
  return orderingKey === null ? toIndexable(target) : (target.split(":", 1)[0] ?? "");
}

function toIndexable(text: string): string {
  return Array.from(text).slice(0, MAX_CHARACTERS).join("");
}

/** Returns the column `blocked`: 1 when a message of the ordering key that is older than `id` is pending, else 0. */
export async function readBlocked(tx: Tx, orderingKey: string | null, id: string): Promise<0 | 1> {
  if (orderingKey === null) return 0;
  const older = `select id from outbox where ordering_key = ? and ${PENDING} and id < ? limit 1`;
  return (await rawTx(tx).all(older, [orderingKey, id])).length > 0 ? 1 : 0;
}

/** Unblocks the oldest pending message of the ordering key. */
export async function unblockNext(tx: Tx, orderingKey: string | null): Promise<void> {
  if (orderingKey === null) return;
  const where = `where blocked = 1 and id = ${FIRST_PENDING}`;
  await rawTx(tx).run(`${UNBLOCK} ${where}`, [tx.nowMs, tx.nowMs, orderingKey]);
}

/**
 * Unblocks the oldest messages that are still blocked. On PostgreSQL a message that is enqueued while the last one of its
 * key ends may stay blocked, since neither transaction sees the other; SQLite has one writer at a time.
 */
async function unblockAll(tx: Tx): Promise<number> {
  const raw = rawTx(tx);
  if (raw.dialect === "sqlite") return 0;
  const firsts = `(select min(id) from outbox where ${PENDING} and ordering_key is not null group by ordering_key)`;
  return raw.run(`${UNBLOCK} where blocked = 1 and ${PENDING} and id in ${firsts}`, [tx.nowMs, tx.nowMs]);
}

// An overdue message becomes available now: senders have passed its own instant already.
const UNBLOCK =
  "update outbox set blocked = 0, available_at = case when available_at < ? then ? else available_at end";
