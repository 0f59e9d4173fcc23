import { rawTx } from "../tx/tx.ts";
import type { Tx } from "../tx/tx.ts";

/** Platforms whose messages are independent of each other. */
const unordered: ReadonlySet<string> = new Set(["webhook", "log", "local", "cron_output"]);

/** Fields of `extra` that name the chat when the address is a platform alone. */
const CHAT_FIELDS = ["chat_id", "repo", "pr_number"] as const;

/** PostgreSQL indexes no longer values. */
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

const PENDING = "status in ('due', 'leased')";

/**
 * SQL that holds for the oldest pending message of an ordering key while no other message of that key is being sent; its
 * one value is the time. Two messages may be unblocked when two processes enqueue at once; this condition decides.
 */
export const FIRST_OF_KEY =
  "not exists (select 1 from outbox as older where older.ordering_key = outbox.ordering_key " +
  "and older.status in ('due', 'leased') and older.id < outbox.id) " +
  "and not exists (select 1 from outbox as other where other.ordering_key = outbox.ordering_key " +
  "and other.status = 'leased' and other.available_at > ? and other.id <> outbox.id)";

/** Returns the column `blocked`: 1 when a message of the ordering key that is older than `id` is pending, else 0. */
export async function readBlocked(tx: Tx, orderingKey: string | null, id: string): Promise<0 | 1> {
  if (orderingKey === null) return 0;
  const older = `select id from outbox where ordering_key = ? and ${PENDING} and id < ? limit 1`;
  return (await rawTx(tx).all(older, [orderingKey, id])).length > 0 ? 1 : 0;
}

/** Unblocks the oldest pending message of the ordering key. */
export async function unblockNext(tx: Tx, orderingKey: string | null): Promise<void> {
  if (orderingKey === null) return;
  const first = `(select id from outbox where ordering_key = ? and ${PENDING} order by id limit 1)`;
  await rawTx(tx).run(`${UNBLOCK} where blocked = 1 and id = ${first}`, [tx.nowMs, tx.nowMs, orderingKey]);
}

/**
 * Unblocks the oldest messages that are still blocked. On PostgreSQL a message that is enqueued while the last one of its
 * key ends may stay blocked, since neither transaction sees the other; SQLite has one writer at a time.
 */
export async function unblockAll(tx: Tx): Promise<number> {
  const raw = rawTx(tx);
  if (raw.dialect === "sqlite") return 0;
  const firsts = `(select min(id) from outbox where ${PENDING} and ordering_key is not null group by ordering_key)`;
  return raw.run(`${UNBLOCK} where blocked = 1 and ${PENDING} and id in ${firsts}`, [tx.nowMs, tx.nowMs]);
}

// An overdue message becomes available now: senders have passed its own instant already.
const UNBLOCK =
  "update outbox set blocked = 0, available_at = case when available_at < ? then ? else available_at end";
