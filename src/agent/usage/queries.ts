/** What was used, as the database sums it: the spending of a day for budgets, and the usage of ended runs by day. */
import type { UsageDayRow } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";

type Reader = Pick<Store, "read">;

/** What model calls used. */
export interface Spent {
  readonly tokens: number;
  readonly costNano: number;
}

/** Returns what the runs of an owner, or of a key, spent on a day (`2026-01-31` in UTC), over all processes. */
export async function readSpending(
  { read }: Reader,
  { day, ...payer }: { readonly day: string } & ({ readonly owner: string } | { readonly key: string }),
): Promise<Spent> {
  const [column, value] =
    "owner" in payer ? (["owner", payer.owner] as const) : (["key", payer.key] as const);
  const row = await read
    .selectFrom("spending")
    .select(({ fn }) => [fn.sum("tokens").as("tokens"), fn.sum("cost_nano").as("cost")])
    .where("day", "=", day)
    .where(column, "=", value)
    .executeTakeFirst();
  return { tokens: Number(row?.tokens ?? 0), costNano: Number(row?.cost ?? 0) };
}

/** What usage can be grouped by, and filtered by. */
export const USAGE_GROUPS = ["model", "owner", "key", "source", "kind"] as const;

type UsageGroup = (typeof USAGE_GROUPS)[number];

export interface UsageQuery {
  /** First and last day, as `2026-01-31` in UTC. */
  readonly days: { readonly first: string; readonly last: string };
  readonly groupBy: readonly UsageGroup[];
  /** Any of these values; undefined: all. */
  readonly filter: Readonly<Partial<Record<UsageGroup, readonly string[] | undefined>>>;
  /** Most groups of a day, those with the most tokens. */
  readonly maxGroups: number;
}

/** The usage of one group on a day. Columns that it is not grouped by are null. */
export type UsageGroupRow = Omit<UsageDayRow, UsageGroup> & Readonly<Record<UsageGroup, string | null>>;

/** Returns the usage of each group and day, newest days first. */
export async function readUsage({ read }: Reader, query: UsageQuery): Promise<readonly UsageGroupRow[]> {
  const { days, groupBy, filter, maxGroups } = query;
  if (Object.values(filter).some((values) => values?.length === 0)) return [];
  let rows = read.selectFrom("usage_days").where("day", ">=", days.first).where("day", "<=", days.last);
  for (const column of USAGE_GROUPS) {
    const values = filter[column];
    if (values) rows = rows.where(column, "in", values);
  }
  const groups = rows
    .select(["day", ...groupBy])
    .select(({ fn }) => COUNTERS.map((name) => fn.sum<number>(name).as(name)))
    .select(({ fn, ref }) =>
      fn
        .agg<number>("row_number")
        .over((over) =>
          over
            .partitionBy("day")
            .orderBy((by) => by(fn.sum(ref("input_tokens")), "+", fn.sum(ref("output_tokens"))), "desc"),
        )
        .as("position"),
    )
    .groupBy(["day", ...groupBy])
    .as("groups");
  const found = await read
    .selectFrom(groups)
    .selectAll()
    .where("position", "<=", maxGroups)
    .orderBy("day", "desc")
    .orderBy("position")
    .execute();
  const none = { model: null, owner: null, key: null, source: null, kind: null };
  return found.map((row) => ({ ...none, ...row, ...numbersOf(row) }));
}

const COUNTERS = [
  "runs",
  "failed_runs",
  "model_calls",
  "tool_calls",
  "input_tokens",
  "cached_input_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
  "unpriced_tokens",
  "cost_nano",
] as const;

/** PostgreSQL returns sums of large integers as text. */
function numbersOf(row: Readonly<Record<(typeof COUNTERS)[number], unknown>>) {
  return Object.fromEntries(COUNTERS.map((name) => [name, Number(row[name])])) as Record<
    (typeof COUNTERS)[number],
    number
  >;
}
