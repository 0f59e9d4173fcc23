/** The rows of the sign-in: sessions of browsers and codes. */
import type { ConsoleSessionRow, Tables } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";
import { lockName } from "../../store/tx/tx.ts";

export type ConsoleCodeRow = Tables["console_codes"];

/** Which sessions are over, by time. */
export interface Expiry {
  readonly nowMs: number;
  /** How long a session lives without a request. */
  readonly idleMs: number;
}

/** Sessions that are kept of one key; the oldest end first. */
const MAX_SESSIONS_PER_KEY = 50;
/** Open codes in all. */
const MAX_CODES = 1_000;

/** Stores a session, and deletes those that are over or too many. */
export async function insertSession(
  tx: Tx,
  row: ConsoleSessionRow,
  { nowMs, idleMs }: Expiry,
): Promise<void> {
  await tx.db
    .deleteFrom("console_sessions")
    .where(({ eb, or }) => or([eb("expires_at", "<=", nowMs), eb("last_used_at", "<=", nowMs - idleMs)]))
    .execute();
  const kept = await tx.db
    .selectFrom("console_sessions")
    .select("id")
    .where("key_name", "=", row.key_name)
    .orderBy("id", "desc")
    .offset(MAX_SESSIONS_PER_KEY - 1)
    .limit(1)
    .executeTakeFirst();
  if (kept) {
    await tx.db
      .deleteFrom("console_sessions")
      .where("key_name", "=", row.key_name)
      .where("id", "<=", kept.id)
      .execute();
  }
  await tx.insert("console_sessions", [row]);
}

/** Returns the sessions of a key, newest first. */
export async function listSessions(
  { read }: Store,
  { keyName, before, limit }: { readonly keyName: string; readonly before?: string; readonly limit: number },
  { nowMs, idleMs }: Expiry,
): Promise<readonly ConsoleSessionRow[]> {
  const rows = read.selectFrom("console_sessions").selectAll().where("key_name", "=", keyName);
  return (before === undefined ? rows : rows.where("id", "<", before))
    .where("expires_at", ">", nowMs)
    .where("last_used_at", ">", nowMs - idleMs)
    .orderBy("id", "desc")
    .limit(limit)
    .execute();
}

/** Deletes sessions of a key and returns their ids. */
export async function deleteSessions(
  tx: Tx,
  { keyName, id, except }: { readonly keyName: string; readonly id?: string; readonly except?: string },
): Promise<readonly string[]> {
  const rows = await tx.db
    .selectFrom("console_sessions")
    .select("id")
    .where("key_name", "=", keyName)
    .execute();
  const ids = rows
    .map((row) => row.id)
    .filter((each) => each !== except && (id === undefined || each === id));
  if (ids.length > 0) await tx.db.deleteFrom("console_sessions").where("id", "in", ids).execute();
  return ids;
}

/** Returns the sessions with these ids that have not ended. */
export async function sessionsById(
  { read }: Store,
  ids: readonly string[],
): Promise<readonly ConsoleSessionRow[]> {
  return read.selectFrom("console_sessions").selectAll().where("id", "in", ids).execute();
}

/** Stores a code. A phone code ends those of its key; at the limit, the codes that expire first end. */
export async function insertCode(tx: Tx, row: ConsoleCodeRow, nowMs: number): Promise<void> {
  // Two at once would not see each other's code.
  await lockName(tx, "console_codes");
  await tx.db.deleteFrom("console_codes").where("expires_at", "<=", nowMs).execute();
  if (row.kind === "phone") {
    await tx.db
      .deleteFrom("console_codes")
      .where("kind", "=", "phone")
      .where("key_name", "=", row.key_name)
      .execute();
  }
  const first = await tx.db
    .selectFrom("console_codes")
    .select("expires_at")
    .orderBy("expires_at", "desc")
    .offset(MAX_CODES - 1)
    .limit(1)
    .executeTakeFirst();
  if (first) await tx.db.deleteFrom("console_codes").where("expires_at", "<=", first.expires_at).execute();
  await tx.insert("console_codes", [row]);
}

/** Deletes a code and returns its row; undefined when it does not exist or has expired. */
export async function takeCode(tx: Tx, digest: string, nowMs: number): Promise<ConsoleCodeRow | undefined> {
  const row = await tx.find("console_codes", { sha256: digest });
  if (!row) return undefined;
  const deleted = await tx.db.deleteFrom("console_codes").where("sha256", "=", digest).executeTakeFirst();
  return deleted.numDeletedRows > 0n && row.expires_at > nowMs ? row : undefined;
}

/** Counts a wrong phone code against every open one: it could have been meant for any of them. */
export async function countWrongCode(tx: Tx): Promise<void> {
  await tx.db
    .updateTable("console_codes")
    .set(({ eb }) => ({ attempts_left: eb("attempts_left", "-", 1) }))
    .where("kind", "=", "phone")
    .execute();
  await tx.db.deleteFrom("console_codes").where("attempts_left", "<=", 0).execute();
}
