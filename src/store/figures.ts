import { sql } from "kysely";
import type { Store } from "./store.ts";

/** How much of what there is, by status. */
export interface StoreFigures {
  /** Runs that have not ended. */
  readonly runs: ReadonlyMap<string, number>;
  /** Messages that are owed, and those that were given up. */
  readonly outbox: ReadonlyMap<string, number>;
}

/**
 * Counts what is open. Each count reads a partial index that holds only what it counts, so the cost is that of what is
 * open now, however much is kept. The statuses are written out: a bound value would keep SQLite from those indexes.
 */
export async function readFigures({ read }: Store): Promise<StoreFigures> {
  const runs = sql<Count>`select status, count(*) as number from runs where ended_at is null group by status`;
  const owed = sql<Count>`select status, count(*) as number from outbox where status in ('due', 'leased') group by status`;
  const dead = sql<Count>`select 'dead' as status, count(*) as number from outbox where status = 'dead'`;
  const rows = await Promise.all([runs.execute(read), owed.execute(read), dead.execute(read)]);
  const [open, waiting, given] = rows.map((result) => result.rows);
  return { runs: toMap(open), outbox: toMap([...(waiting ?? []), ...(given ?? [])]) };
}

interface Count {
  readonly status: string;
  /** PostgreSQL's counts are texts. */
  readonly number: number | string;
}

function toMap(counts: readonly Count[] = []): ReadonlyMap<string, number> {
  return new Map(counts.map(({ status, number }) => [status, Number(number)]));
}
