/** Deletes old changes. */
import { rawTx, type Row, type Tx, type Value } from "../tx/tx.ts";
import { FLOOR_KEY } from "./feed.ts";

const OLDEST = "select tx, id, count, created_at from changes order by tx, id limit ?";
const DELETE = "delete from changes where (tx, id) <= (?, ?)";
const SET_FLOOR =
  "insert into metadata (key, value) values (?, ?) on conflict (key) do update set value = excluded.value";

/** Repeats small transactions until it is stopped. */
interface Batches {
  readonly size: number;
  readonly isStopped: boolean;
  write<T>(work: (tx: Tx) => Promise<T> | T): Promise<T>;
}

/** What a batch deleted. */
interface Swept {
  readonly rows: number;
  readonly changes: number;
}

/**
 * Deletes changes older than their retention, and those beyond the number that is kept; resolves to their number. Saves
 * the position up to which they are gone, so that no reader skips them silently. The changes of a row go together, and
 * those of the newest stay: SQLite continues its ids from them.
 */
export async function sweepChanges(
  batches: Batches,
  {
    changesMs,
    maxChanges = Number.POSITIVE_INFINITY,
  }: { readonly changesMs?: number; readonly maxChanges?: number },
): Promise<number> {
  let deleted = 0;
  for (;;) {
    const swept = await batches.write((tx) => sweepBatch(tx, batches.size, { changesMs, maxChanges }));
    deleted += swept.changes;
    if (swept.rows < batches.size || batches.isStopped) return deleted;
  }
}

async function sweepBatch(
  tx: Tx,
  size: number,
  { changesMs, maxChanges }: { readonly changesMs: number | undefined; readonly maxChanges: number },
): Promise<Swept> {
  const raw = rawTx(tx);
  const [total] = Number.isFinite(maxChanges)
    ? await raw.all("select sum(count) as count from changes", [])
    : [];
  const surplus = Number(total?.["count"] ?? 0) - maxChanges;
  const before = changesMs === undefined ? Number.NEGATIVE_INFINITY : tx.nowMs - changesMs;
  // One more row than may go: the newest stays.
  const rows = await raw.all(OLDEST, [size + 1]);
  let changes = 0;
  let last: Row | undefined;
  let count = 0;
  for (const row of rows.slice(0, -1)) {
    const next = changes + Number(row["count"]);
    if (next > surplus && Number(row["created_at"]) >= before) break;
    changes = next;
    last = row;
    count++;
  }
  if (!last) return { rows: 0, changes: 0 };
  const position: Value[] = [Number(last["tx"]), Number(last["id"])];
  await raw.run(DELETE, position);
  await raw.run(SET_FLOOR, [FLOOR_KEY, JSON.stringify({ tx: position[0], id: position[1] })]);
  return { rows: count, changes };
}
