import { sql } from "kysely";
import { createId } from "../base/text.ts";
import type { Store } from "./store.ts";

/** Counts by status. */
interface StoreStats {
  /** Runs that have not ended. */
  readonly runs: ReadonlyMap<string, number>;
  /** Webhook deliveries that have not ended. */
  readonly deliveries: ReadonlyMap<string, number>;
}

/**
 * Each query reads a partial index with only the rows that it counts, so the cost grows with open rows alone.
 * Conditions are literals: with a bound value SQLite would not use the indexes.
 */
export const statQueries = {
  runs: "select status, count(*) as number from runs where ended_at is null group by status",
  deliveries: "select status, count(*) as number from deliveries where ended_at is null group by status",
} as const;

/** Counts open runs and deliveries in the whole database. ServiceError `state_store_unavailable`. */
export async function readStats({ read }: Store): Promise<StoreStats> {
  const { runs, deliveries } = statQueries;
  const count = (query: string) => sql<Count>`${sql.raw(query)}`.execute(read);
  const rows = await Promise.all([count(runs), count(deliveries)]);
  const [open, received] = rows.map((result) => result.rows);
  return {
    runs: toMap(open),
    deliveries: toMap(received),
  };
}

/** Limit of counted rows: bounds the cost. */
const MAX_COUNTED = 10_000;

/**
 * Counts the webhook deliveries since then by status, among the newest 10,000. ServiceError `state_store_unavailable`.
 */
export async function readDeliveryStats({ read }: Store, sinceMs: number): Promise<Map<string, number>> {
  const newest = read
    .selectFrom("deliveries")
    .select("status")
    // Ids start with their time.
    .where("id", ">=", createId("dlv", sinceMs).slice(0, "dlv_".length + TIME_CHARACTERS))
    .orderBy("id", "desc")
    .limit(MAX_COUNTED)
    .as("newest");
  const counts = await read
    .selectFrom(newest)
    .select(({ fn }) => ["status", fn.countAll().as("number")])
    .groupBy("status")
    .execute();
  return new Map(counts.map(({ status, number }) => [status, Number(number)]));
}

const TIME_CHARACTERS = 10;

interface Count {
  readonly status: string;
  /** PostgreSQL returns counts as text. */
  readonly number: number | string;
}

function toMap(counts: readonly Count[] = []): ReadonlyMap<string, number> {
  return new Map(counts.map(({ status, number }) => [status, Number(number)]));
}

type Reader = Pick<Store, "read">;

/** Counts the runs that have not ended, by status, without sub-agents. Reads a partial index of open runs. */
export async function countOpenRuns({ read }: Reader): Promise<Readonly<Record<string, number>>> {
  const rows = await read
    .selectFrom("runs")
    .select(({ fn }) => ["status", fn.countAll().as("count")])
    .where("ended_at", "is", null)
    .where("kind", "!=", "subagent")
    .groupBy("status")
    .execute();
  return Object.fromEntries(rows.map(({ status, count }) => [status, Number(count)]));
}

/** Counts the open questions of all runs. */
export async function countOpenQuestions({ read }: Reader): Promise<number> {
  const row = await read
    .selectFrom("questions")
    .select(({ fn }) => fn.countAll().as("count"))
    .where("status", "=", "open")
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** Counts the sessions that are kept. */
export async function countSessions({ read }: Reader): Promise<number> {
  const row = await read
    .selectFrom("sessions")
    .select(({ fn }) => fn.countAll().as("count"))
    // A literal: with a bound value SQLite does not use the partial index.
    .where((is) => is("transient", "=", is.lit(0)))
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}
