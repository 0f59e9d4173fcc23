import { rawTx } from "../tx/tx.ts";
import type { Tx } from "../tx/tx.ts";

/** Platforms whose messages have nothing to do with each other. */
const unordered: ReadonlySet<string> = new Set(["webhook", "log", "local", "cron_output"]);

/** What says where a message goes when the address is a platform alone. */
const PLACE_KEYS = ["chat_id", "repo", "pr_number"] as const;

/** An index over it takes no longer ones. */
const MAX_CHARACTERS = 400;

/**
 * The lane of a message: those of one lane go out one after the other, in the order in which they were owed. Null: it
 * waits for nobody. `extra` is what the target is told besides. Two spellings of one chat are two lanes.
 */
export function orderingKeyOf(target: string, extra: unknown): string | null {
  const [platform = ""] = target.split(":", 1);
  if (unordered.has(platform)) return null;
  if (target !== platform || typeof extra !== "object" || extra === null) return cut(target);
  const told = extra as Readonly<Record<string, unknown>>;
  const place = PLACE_KEYS.map((key) => told[key]).filter((value) => /^(string|number)$/.test(typeof value));
  return cut([target, ...place].join(":"));
}

/** Where those who look for work find it: with its platform, or with its address alone when no lane holds it. */
export function queueOf(target: string, lane: string | null): string {
  return lane === null ? cut(target) : (target.split(":", 1)[0] ?? "");
}

function cut(text: string): string {
  return Array.from(text).slice(0, MAX_CHARACTERS).join("");
}

const OWED = "status in ('due', 'leased')";

/**
 * SQL that holds for rows of the outbox that are first in their lane while no attempt at another of that lane is under
 * way; its one value is the time. Two firsts may be marked, as when two processes owe at once: this decides.
 */
export const FIRST_IN_LANE =
  "not exists (select 1 from outbox as older where older.lane = outbox.lane " +
  "and older.status in ('due', 'leased') and older.id < outbox.id) " +
  "and not exists (select 1 from outbox as other where other.lane = outbox.lane and other.status = 'leased' " +
  "and other.available_at > ? and other.id <> outbox.id)";

/** 1 when a message of the lane is owed that is older than `id`, 0 else: the column `held`. */
export async function heldBy(tx: Tx, lane: string | null, id: string): Promise<0 | 1> {
  if (lane === null) return 0;
  const older = `select id from outbox where lane = ? and ${OWED} and id < ? limit 1`;
  return (await rawTx(tx).all(older, [lane, id])).length > 0 ? 1 : 0;
}

/** Whoever is first in the lane now is looked for from now on. */
export async function advance(tx: Tx, lane: string | null): Promise<void> {
  if (lane === null) return;
  const first = `(select id from outbox where lane = ? and ${OWED} order by id limit 1)`;
  await rawTx(tx).run(`${LET_GO} where held = 1 and id = ${first}`, [tx.nowMs, tx.nowMs, lane]);
}

/**
 * Lets go of first ones that nobody let go of. On PostgreSQL one that is owed while the last of its lane ends may be
 * missed by both; SQLite has one writer at a time.
 */
export async function advanceAll(tx: Tx): Promise<number> {
  const raw = rawTx(tx);
  if (raw.dialect === "sqlite") return 0;
  const firsts = `(select min(id) from outbox where ${OWED} and lane is not null group by lane)`;
  return raw.run(`${LET_GO} where held = 1 and ${OWED} and id in ${firsts}`, [tx.nowMs, tx.nowMs]);
}

// What was due long ago appears now: those who look have passed its instant already.
const LET_GO =
  "update outbox set held = 0, available_at = case when available_at < ? then ? else available_at end";
