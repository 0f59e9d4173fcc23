import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import { readBlocked, unblockNext } from "./ordering-key.ts";
import type { Store } from "../store.ts";
import type { OutboxRow } from "../schema/tables.ts";
import { readAttemptLog, type AttemptRecord } from "./outbox.ts";
import type { Tx } from "../tx/tx.ts";

/** The statuses of a message in the outbox. */
export const MESSAGE_STATUSES = ["due", "leased", "delivered", "dead", "unknown", "dropped"] as const;
export type MessageStatus = (typeof MESSAGE_STATUSES)[number];

/** A message of the outbox as users see it. The payload is private: only {@link findMessage} returns it. */
export interface OutboxMessage {
  readonly id: string;
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
  /** Absent while it is pending. */
  readonly endedAtMs?: number;
}

export interface MessagesRequest {
  readonly statuses?: readonly MessageStatus[];
  /** Messages of this platform only. */
  readonly platform?: string;
  /** Messages of this run or delivery only. */
  readonly ref?: string;
  /** An id: older messages only, for the next page. */
  readonly before?: string;
  /** Default 50, at most 1,000. */
  readonly limit?: number;
}

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_000;

/** Lists messages, newest first. ServiceError `state_store_unavailable`. */
export async function listMessages(
  store: Store,
  request: MessagesRequest = {},
): Promise<readonly OutboxMessage[]> {
  const { statuses, platform, ref, before, limit = DEFAULT_LIMIT } = request;
  let query = store.read
    .selectFrom("outbox")
    .select(SHOWN)
    .orderBy("id", "desc")
    .limit(Math.min(limit, MAX_LIMIT));
  if (statuses) query = query.where(among(statuses));
  if (platform !== undefined) query = query.where(isOf(platform));
  if (ref !== undefined) query = query.where("ref", "=", ref);
  if (before !== undefined) query = query.where("id", "<", before);
  return (await query.execute()).map(toOutboxMessage);
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
  return (
    row && { ...toOutboxMessage(row), payload: row.payload, attemptLog: readAttemptLog(row.attempt_log) }
  );
}

/** `missing`: no such id. `done`: it was delivered or dropped. `leased`: a living process is sending it. */
export type MessageRefusal = "missing" | "done" | "leased";

/**
 * Makes the message due now and resets its attempts; parts that arrived are not sent again. A message with status unknown
 * may arrive twice. It goes before newer messages of its chat. `changed` runs in the same transaction.
 */
export function retryMessage(
  store: Store,
  id: string,
  changed?: (tx: Tx, row: OutboxRow) => Promise<void>,
): Promise<"retried" | MessageRefusal> {
  return store.write(async (tx) => {
    const row = await tx.find("outbox", { id });
    const refusal = refusalOf(store, tx, row);
    if (refusal || !row) return refusal ?? "missing";
    const blocked = await readBlocked(tx, row.ordering_key, id);
    const due = { status: "due", attempts: 0, available_at: tx.nowMs, lease_owner: null, done_at: null };
    // The user has checked whether it arrived.
    const again = { ...due, blocked, retried_at: tx.nowMs, uncertain_at: null };
    if ((await tx.update("outbox", asSeen(row), again)) === 0) return "leased" as const;
    await changed?.(tx, row);
    return "retried" as const;
  });
}

/** Drops the message: it stays in the outbox with status dropped. `settled` runs in the same transaction. */
export function dropMessage(
  store: Store,
  id: string,
  settled?: (tx: Tx, row: OutboxRow) => Promise<void>,
): Promise<"dropped" | MessageRefusal> {
  return store.write(async (tx) => {
    const row = await tx.find("outbox", { id });
    const refusal = refusalOf(store, tx, row);
    if (refusal || !row) return refusal ?? "missing";
    const dropped = { status: "dropped", lease_owner: null, done_at: tx.nowMs };
    if ((await tx.update("outbox", asSeen(row), dropped)) === 0) return "leased" as const;
    await unblockNext(tx, row.ordering_key);
    await settled?.(tx, row);
    return "dropped" as const;
  });
}

/** A platform's messages of one status. */
export interface MessageCount {
  readonly platform: string;
  readonly status: Exclude<MessageStatus, "delivered">;
  readonly count: number;
  /** When the oldest of them was enqueued. */
  readonly oldestAtMs: number;
}

/** Counts pending and failed messages by platform. Reads indexes that hold such messages only. */
export async function countMessages(store: Store): Promise<readonly MessageCount[]> {
  const platform = platformOf(store);
  const counts = ([pending, failed] as const).map((where) =>
    sql<{ platform: string; status: string; count: number | string; oldest: number | string }>`
      select ${platform} as platform, status, count(*) as count, min(created_at) as oldest
      from outbox where ${where} group by 1, 2 order by 1, 2`.execute(store.read),
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

function refusalOf(store: Store, { nowMs }: Tx, row: OutboxRow | undefined): MessageRefusal | undefined {
  if (!row) return "missing";
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
  "target",
  "status",
  "ref",
  "attempts",
  "parts_sent",
  "last_error",
  "created_at",
  "available_at",
  "blocked",
  "done_at",
] as const;

function toOutboxMessage(row: Pick<OutboxRow, (typeof SHOWN)[number]>): OutboxMessage {
  return {
    id: row.id,
    target: row.target,
    status: row.status as MessageStatus,
    ...(row.ref === null ? {} : { ref: row.ref }),
    attempts: row.attempts,
    partsSent: row.parts_sent,
    ...(row.last_error === null ? {} : { error: row.last_error }),
    createdAtMs: row.created_at,
    ...(row.status === "due" ? { dueAtMs: row.available_at } : {}),
    isBlocked: row.blocked === 1 && row.status === "due",
    ...(row.done_at === null ? {} : { endedAtMs: row.done_at }),
  };
}
