import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import { advance, heldBy } from "./ordering-key.ts";
import type { Store } from "../store.ts";
import type { OutboxRow } from "../schema/tables.ts";
import { readAttemptLog, type Try } from "./attempts.ts";
import type { Tx } from "../tx/tx.ts";

/** How a message of the outbox stands. */
export const MESSAGE_STATUSES = ["due", "leased", "delivered", "dead", "unknown", "dropped"] as const;
export type MessageStatus = (typeof MESSAGE_STATUSES)[number];

/** A message of the outbox as people handle it. Its payload is private: only {@link findMessage} tells it. */
export interface OutboxMessage {
  readonly id: string;
  /** Whole address. */
  readonly target: string;
  readonly status: MessageStatus;
  /** What owes it: a run or a delivery id. */
  readonly ref?: string;
  readonly attempts: number;
  /** Parts of a long message that have arrived. */
  readonly partsSent: number;
  /** Why the last attempt did not deliver it, for people. */
  readonly error?: string;
  readonly createdAtMs: number;
  /** Of one that is due: when the next attempt is. */
  readonly dueAtMs?: number;
  /** True: it waits for an older one of its chat. */
  readonly isHeld: boolean;
  /** Of one that is not owed any more. */
  readonly endedAtMs?: number;
}

export interface MessagesRequest {
  readonly statuses?: readonly MessageStatus[];
  /** Of this platform only. */
  readonly platform?: string;
  /** Of what this run or delivery owes only. */
  readonly ref?: string;
  /** Id: older ones only, for the next page. */
  readonly before?: string;
  /** Default 50, at most 1,000. */
  readonly limit?: number;
}

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_000;

/** Newest first. ServiceError `state_store_unavailable`. */
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
  if (platform !== undefined) query = query.where(of(platform));
  if (ref !== undefined) query = query.where("ref", "=", ref);
  if (before !== undefined) query = query.where("id", "<", before);
  return (await query.execute()).map(toOutboxMessage);
}

export interface FullMessage extends OutboxMessage {
  /** What it says, JSON. */
  readonly payload: string;
  /** The latest attempts that ended, oldest first. */
  readonly attemptLog: readonly Try[];
}

/** Undefined when there is none of that id. */
export async function findMessage(store: Store, id: string): Promise<FullMessage | undefined> {
  const row = await store.find("outbox", { id });
  return (
    row && { ...toOutboxMessage(row), payload: row.payload, attemptLog: readAttemptLog(row.attempt_log) }
  );
}

/** `missing`: there is none of that id. `done`: it was delivered, or dropped. `leased`: a living process is sending it. */
export type MessageRefusal = "missing" | "done" | "leased";

/**
 * Makes it due now, with all its attempts before it; parts that arrived are not sent again. One that is unknown may
 * arrive twice. Older than what its chat is owed by now, it goes first. `changed` runs in the same transaction: whoever
 * owes it may have to know.
 */
export function retryLetter(
  store: Store,
  id: string,
  changed?: (tx: Tx, row: OutboxRow) => Promise<void>,
): Promise<"retried" | MessageRefusal> {
  return store.write(async (tx) => {
    const row = await tx.find("outbox", { id });
    const refusal = refusalOf(store, tx, row);
    if (refusal || !row) return refusal ?? "missing";
    const held = await heldBy(tx, row.lane, id);
    const due = { status: "due", attempts: 0, available_at: tx.nowMs, lease_owner: null, done_at: null };
    // Whoever has it sent again has looked whether it arrived.
    const again = { ...due, held, retried_at: tx.nowMs, uncertain_at: null };
    if ((await tx.update("outbox", asSeen(row), again)) === 0) return "leased" as const;
    await changed?.(tx, row);
    return "retried" as const;
  });
}

/** Owes it no more; it stays on record as dropped. `settled` runs in the same transaction: whoever owes it may have to know. */
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
    await advance(tx, row.lane);
    await settled?.(tx, row);
    return "dropped" as const;
  });
}

/** What a platform has in the outbox. */
export interface MessageCount {
  readonly platform: string;
  readonly status: Exclude<MessageStatus, "delivered">;
  readonly count: number;
  /** When the oldest of them was owed. */
  readonly oldestAtMs: number;
}

/** What is owed, and what was given up, by platform. Reads indexes that hold such messages only. */
export async function countMessages(store: Store): Promise<readonly MessageCount[]> {
  const platform = platformOf(store);
  const counts = ([owed, failed] as const).map((where) =>
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

// Written out, as the indexes have it: a bound value would keep SQLite from them.
const owed = sql.raw<boolean>("status in ('due', 'leased')");
const failed = sql.raw<boolean>("status in ('dead', 'unknown', 'dropped')");

function among(statuses: readonly MessageStatus[]): RawBuilder<boolean> {
  const only = sql<boolean>`status in (${sql.join(statuses.map((status) => sql.lit(status)))})`;
  if (statuses.length === 0) return sql<boolean>`1 = 0`;
  if (statuses.every((status) => status === "due" || status === "leased"))
    return sql<boolean>`${only} and ${owed}`;
  return statuses.includes("delivered") ? only : sql<boolean>`${only} and ${failed}`;
}

function of(platform: string): RawBuilder<boolean> {
  // `;` comes after `:`, so that these are all that begin with the name and a colon.
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

/** Changes it only if nobody took it since it was read. */
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
  "held",
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
    isHeld: row.held === 1 && row.status === "due",
    ...(row.done_at === null ? {} : { endedAtMs: row.done_at }),
  };
}
