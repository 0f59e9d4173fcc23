import { sql } from "kysely";
import { firstIdAt } from "../../base/text.ts";
import type { RawBuilder } from "kysely";
import { readBlocked, recordMessage, unblockNext, readAttemptLog, type AttemptRecord } from "./outbox.ts";
import type { Store } from "../store.ts";
import type { OutboxRow } from "../schema/tables.ts";
import type { Tx } from "../tx/tx.ts";

/** The statuses of a message in the outbox. */
export const MESSAGE_STATUSES = ["due", "leased", "delivered", "dead", "unknown", "dropped"] as const;
export type MessageStatus = (typeof MESSAGE_STATUSES)[number];

/** A message of the outbox as users see it. The payload is private: only {@link findMessage} returns it. */
export interface OutboxMessage {
  readonly id: string;
  readonly owner: string;
  /** Whole address. */
  readonly target: string;
  readonly status: MessageStatus;
  /** What it is sent for: a run or a delivery id. */
  readonly ref?: string;
  readonly attempts: number;
  /** Parts of a long message that have arrived. */
  readonly partsSent: number;
  /** Why the last attempt did not deliver it, for people. */
  readonly error?: string;
  readonly createdAtMs: number;
  /** When the next attempt is due; absent unless the status is due. */
  readonly dueAtMs?: number;
  /** True: an older message of its chat goes first. */
  readonly isBlocked: boolean;
  readonly orderingKey: string | null;
  /** Absent while it is pending. */
  readonly endedAtMs?: number;
}

interface MessagesRequest {
  /** Messages of this owner only. */
  readonly owner?: string;
  readonly statuses?: readonly MessageStatus[];
  /** Messages of these platforms only. */
  readonly platforms?: readonly string[];
  /** Messages of this whole address only. */
  readonly target?: string;
  /** Messages of this run, delivery or occurrence only. */
  readonly ref?: string;
  /** Enqueued at this time or later, Unix milliseconds. */
  readonly fromMs?: number;
  /** Enqueued before this time. */
  readonly toMs?: number;
  /** An id: older messages only, for the next page. */
  readonly before?: string;
  /** Default 50, at most 1,001. */
  readonly limit?: number;
  readonly isOldestFirst?: boolean;
}

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_001;

/** Lists messages, newest first. ServiceError `state_store_unavailable`. */
export async function listMessages(
  store: Store,
  request: MessagesRequest = {},
): Promise<readonly OutboxMessage[]> {
  const { limit = DEFAULT_LIMIT, isOldestFirst = false } = request;
  const count = Math.min(limit, MAX_LIMIT);
  const pages = await Promise.all(
    groupsOf(request.statuses).map((statuses) => readPage(store, request, { statuses, count })),
  );
  const [first = [], ...others] = pages;
  if (others.length === 0) return first.map(toOutboxMessage);
  const direction = isOldestFirst ? 1 : -1;
  // A message that changes between two reads may be in both.
  const found = [...new Map(pages.flat().map((row) => [row.id, row])).values()];
  const sorted = found.toSorted((a, b) => (a.id < b.id ? -direction : direction));
  return sorted.slice(0, count).map(toOutboxMessage);
}

/** Returns groups of statuses that one index has in the order of their ids each. Undefined: all statuses. */
function groupsOf(
  statuses: readonly MessageStatus[] | undefined,
): readonly (readonly MessageStatus[] | undefined)[] {
  if (!statuses || statuses.length === 0 || statuses.includes("delivered")) return [statuses];
  const isPending = (status: MessageStatus) => status === "due" || status === "leased";
  const pending = statuses.filter(isPending);
  const failed = [...new Set(statuses)].flatMap((status) => (isPending(status) ? [] : [[status]]));
  return pending.length > 0 ? [pending, ...failed] : failed;
}

function readPage(
  store: Store,
  request: MessagesRequest,
  { statuses, count }: { readonly statuses: readonly MessageStatus[] | undefined; readonly count: number },
) {
  const { owner, platforms, target, ref, fromMs, toMs, before } = request;
  // Without statistics SQLite would read all messages of the owner, or all in the order of their ids, to find a few.
  const isSqlite = store.dialect === "sqlite";
  const isFew = statuses !== undefined && !statuses.includes("delivered");
  const isPending = isFew && statuses.some((status) => status === "due" || status === "leased");
  const id = sql<string>`${sql.raw(isSqlite && isPending ? "+id" : "id")}`;
  const own = sql<string>`${sql.raw(isSqlite && (isFew || ref !== undefined) ? "+owner" : "owner")}`;
  let query = store.read
    .selectFrom("outbox")
    .select(SHOWN)
    .orderBy(id, request.isOldestFirst ? "asc" : "desc")
    .limit(count);
  if (owner !== undefined) query = query.where(own, "=", owner);
  if (statuses) query = query.where(among(statuses));
  if (platforms) query = query.where(({ or }) => or(platforms.map(isOf)));
  if (target !== undefined) query = query.where("target", "=", target);
  if (ref !== undefined) query = query.where("ref", "=", ref);
  // An id has the time of its message, or a later one.
  if (fromMs !== undefined)
    query = query.where("created_at", ">=", fromMs).where(id, ">=", firstIdAt("out", Math.max(0, fromMs)));
  if (toMs !== undefined) query = query.where("created_at", "<", toMs);
  if (before !== undefined) query = query.where(id, "<", before);
  return query.execute();
}

export interface FullMessage extends OutboxMessage {
  /** JSON. */
  readonly payload: string;
  /** The latest finished attempts, oldest first. */
  readonly attemptLog: readonly AttemptRecord[];
}

/** Returns the message with that id, undefined when none exists. */
export async function findMessage(store: Store, id: string): Promise<FullMessage | undefined> {
  const row = await store.find("outbox", { id });
  return row && fullMessage(row);
}

/** Returns the message of a row. */
export function fullMessage(row: OutboxRow): FullMessage {
  return { ...toOutboxMessage(row), payload: row.payload, attemptLog: readAttemptLog(row.attempt_log) };
}

/**
 * `missing`: no such id. `done`: it was delivered or dropped. `leased`: a living process is sending it. `uncertain`: it may
 * have arrived. `changed`: it has another status now.
 */
export type MessageRefusal = "missing" | "done" | "leased" | "uncertain" | "changed";

export interface MessageChange {
  /** Messages of this owner only: another owner's is `missing`. */
  readonly owner?: string;
  /** Messages of these statuses only: another one is `changed`. */
  readonly statuses?: readonly MessageStatus[];
  /** False: one that may have arrived is not sent again. Default true. */
  readonly acceptsDuplicate?: boolean;
  /** Who changes it, such as the name of a key. */
  readonly actor?: string;
  /** True: returns what would happen, and changes nothing. */
  readonly dryRun?: boolean;
  /** Runs in the transaction of the change. */
  readonly changed?: (tx: Tx, row: OutboxRow) => Promise<void>;
}

/**
 * Makes the message due now and resets its attempts; parts that arrived are not sent again. A message with status unknown
 * may arrive twice. It goes before newer messages of its chat.
 */
export function retryMessage(
  store: Store,
  id: string,
  change: MessageChange = {},
): Promise<"retried" | MessageRefusal> {
  return store.write(async (tx) => {
    const row = await tx.find("outbox", { id });
    const refusal = refusalOf(store, tx, { row, change });
    if (refusal || !row) return refusal ?? "missing";
    if (row.status === "unknown" && change.acceptsDuplicate === false) return "uncertain" as const;
    if (change.dryRun) return "retried" as const;
    const blocked = await readBlocked(tx, row.ordering_key, id);
    const due = { status: "due", attempts: 0, available_at: tx.nowMs, lease_owner: null, done_at: null };
    // The user has checked whether it arrived.
    const again = { ...due, blocked, retried_at: tx.nowMs, uncertain_at: null };
    if ((await tx.update("outbox", asSeen(row), again)) === 0) return "leased" as const;
    recordMessage(tx, row, { status: "due", actor: change.actor ?? null });
    await change.changed?.(tx, row);
    return "retried" as const;
  });
}

/** Drops the message: it stays in the outbox with status dropped. */
export function dropMessage(
  store: Store,
  id: string,
  change: MessageChange = {},
): Promise<"dropped" | MessageRefusal> {
  return store.write(async (tx) => {
    const row = await tx.find("outbox", { id });
    const refusal = refusalOf(store, tx, { row, change });
    if (refusal || !row) return refusal ?? "missing";
    if (change.dryRun) return "dropped" as const;
    const dropped = { status: "dropped", lease_owner: null, done_at: tx.nowMs };
    if ((await tx.update("outbox", asSeen(row), dropped)) === 0) return "leased" as const;
    recordMessage(tx, row, { status: "dropped", actor: change.actor ?? null });
    await unblockNext(tx, row.ordering_key);
    await change.changed?.(tx, row);
    return "dropped" as const;
  });
}

/** Returns the payloads of messages, JSON, by id. */
export async function readPayloads(
  store: Store,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await store.read
    .selectFrom("outbox")
    .select(["id", "payload"])
    .where("id", "in", ids)
    .execute();
  return new Map(rows.map(({ id, payload }) => [id, payload]));
}

/** Returns, by ordering key, the id of the oldest pending message: the others of the key wait for it. */
export async function firstPending(
  store: Store,
  orderingKeys: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (orderingKeys.length === 0) return new Map();
  const rows = await store.read
    .selectFrom("outbox")
    .select(({ fn }) => ["ordering_key", fn.min("id").as("id")])
    .where("ordering_key", "in", orderingKeys)
    .where(pending)
    .groupBy("ordering_key")
    .execute();
  return new Map(rows.map(({ ordering_key: key, id }) => [String(key), id]));
}

/** Returns the run of each delivery or occurrence that has one, by the id in `ref`. */
export async function runsBehind(
  store: Store,
  refs: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (refs.length === 0) return new Map();
  const of = (table: "deliveries" | "occurrences") =>
    store.read
      .selectFrom(table)
      .select(["id", "run_id"])
      .where("id", "in", refs)
      .where("run_id", "is not", null)
      .execute();
  const rows = [...(await of("deliveries")), ...(await of("occurrences"))];
  return new Map(rows.map(({ id, run_id: run }) => [id, String(run)]));
}

/** A platform's messages of one status. */
interface MessageCount {
  readonly platform: string;
  readonly status: Exclude<MessageStatus, "delivered">;
  readonly count: number;
  /** When the oldest of them was enqueued. */
  readonly oldestAtMs: number;
}

/**
 * Counts pending and failed messages by platform, of one owner or of all. Reads indexes that hold such messages only.
 */
export async function countMessages(store: Store, owner?: string): Promise<readonly MessageCount[]> {
  const platform = platformOf(store);
  // SQLite would read all messages of the owner by the index of owners, the sent ones too.
  const column = sql.raw(store.dialect === "sqlite" ? "+owner" : "owner");
  const isOwn = owner === undefined ? sql`` : sql`and ${column} = ${owner}`;
  const counts = ([pending, failed] as const).map((where) =>
    sql<{ platform: string; status: string; count: number | string; oldest: number | string }>`
      select ${platform} as platform, status, count(*) as count, min(created_at) as oldest
      from outbox where ${where} ${isOwn} group by 1, 2 order by 1, 2`.execute(store.read),
  );
  const rows = (await Promise.all(counts)).flatMap((result) => result.rows);
  return rows.map((row) => ({
    platform: row.platform,
    status: row.status as MessageCount["status"],
    count: Number(row.count),
    oldestAtMs: Number(row.oldest),
  }));
}

// Literals, as in the indexes' conditions: with a bound value SQLite would not use the indexes.
const pending = sql.raw<boolean>("status in ('due', 'leased')");
const failed = sql.raw<boolean>("status in ('dead', 'unknown', 'dropped')");

function among(statuses: readonly MessageStatus[]): RawBuilder<boolean> {
  const only = sql<boolean>`status in (${sql.join(statuses.map((status) => sql.lit(status)))})`;
  if (statuses.length === 0) return sql<boolean>`1 = 0`;
  if (statuses.every((status) => status === "due" || status === "leased"))
    return sql<boolean>`${only} and ${pending}`;
  return statuses.includes("delivered") ? only : sql<boolean>`${only} and ${failed}`;
}

function isOf(platform: string): RawBuilder<boolean> {
  // `;` follows `:`, so the range holds every target that begins with the name and a colon.
  return sql<boolean>`(target = ${platform} or (target > ${`${platform}:`} and target < ${`${platform};`}))`;
}

function platformOf({ dialect }: Store): RawBuilder<string> {
  return dialect === "postgres"
    ? sql`split_part(target, ':', 1)`
    : sql`case instr(target, ':') when 0 then target else substr(target, 1, instr(target, ':') - 1) end`;
}

function refusalOf(
  store: Store,
  { nowMs }: Tx,
  {
    row,
    change: { owner, statuses },
  }: { readonly row: OutboxRow | undefined; readonly change: MessageChange },
): MessageRefusal | undefined {
  if (!row || (owner !== undefined && row.owner !== owner)) return "missing";
  if (statuses && !statuses.includes(row.status as MessageStatus)) return "changed";
  if (row.status === "delivered" || row.status === "dropped") return "done";
  if (row.status !== "leased" || row.available_at <= nowMs) return undefined;
  return row.lease_owner !== null && store.ownerIsDead(row.lease_owner) ? undefined : "leased";
}

/** Selects the row only if no process changed it since it was read. */
function asSeen({ id, status, lease_owner, attempts }: OutboxRow): Partial<OutboxRow> {
  return { id, status, lease_owner, attempts };
}

const SHOWN = [
  "id",
  "owner",
  "target",
  "status",
  "ref",
  "attempts",
  "parts_sent",
  "last_error",
  "created_at",
  "available_at",
  "blocked",
  "ordering_key",
  "done_at",
] as const;

function toOutboxMessage(row: Pick<OutboxRow, (typeof SHOWN)[number]>): OutboxMessage {
  return {
    id: row.id,
    owner: row.owner,
    target: row.target,
    status: row.status as MessageStatus,
    ...(row.ref === null ? {} : { ref: row.ref }),
    attempts: row.attempts,
    partsSent: row.parts_sent,
    ...(row.last_error === null ? {} : { error: row.last_error }),
    createdAtMs: row.created_at,
    ...(row.status === "due" ? { dueAtMs: row.available_at } : {}),
    isBlocked: row.blocked === 1 && row.status === "due",
    orderingKey: row.ordering_key,
    ...(row.done_at === null ? {} : { endedAtMs: row.done_at }),
  };
}
