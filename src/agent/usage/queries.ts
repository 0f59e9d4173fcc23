/** What was used, as the database sums it: the spending of a day for budgets, and the usage of ended runs by day. */
import type { RunRow, UsageDayRow } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";
import { type ModelUsage, type Usage, usageByModel } from "../engine.ts";
import type { FinalStatus } from "../run/run.ts";
import { dayOf } from "./money.ts";

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

/** A run that ends, with what it used. */
interface EndedRun {
  readonly run: Pick<RunRow, "owner" | "key" | "model" | "kind">;
  /** The surface that created its session. */
  readonly source: string;
  readonly status: FinalStatus;
  /** Undefined: it used nothing. */
  readonly usage: Usage | undefined;
}

/** Adds a run that ends to the usage of its day, inside `tx`: one row for each model that answered. */
export function countUsage(tx: Tx, { run, source, status, usage }: EndedRun): void {
  const isFailed = status === "failed" || status === "interrupted";
  const about = { day: dayOf(tx.nowMs), owner: run.owner, key: run.key ?? "", source, kind: run.kind };
  for (const [model, used] of usageByModel(usage, run.model)) {
    const isOwn = model === run.model;
    tx.count("usage_days", {
      ...about,
      model,
      runs: isOwn ? 1 : 0,
      failed_runs: isOwn && isFailed ? 1 : 0,
      ...countersOf(used),
    });
  }
}

type Counters = Omit<
  UsageDayRow,
  "day" | "owner" | "key" | "model" | "source" | "kind" | "runs" | "failed_runs"
>;

function countersOf(used: ModelUsage | undefined): Counters {
  return {
    model_calls: used?.modelCalls ?? 0,
    tool_calls: used?.toolCalls ?? 0,
    input_tokens: used?.inputTokens ?? 0,
    cached_input_tokens: used?.cachedInputTokens ?? 0,
    cache_write_tokens: used?.cacheWriteTokens ?? 0,
    output_tokens: used?.outputTokens ?? 0,
    reasoning_tokens: used?.reasoningTokens ?? 0,
    unpriced_tokens: used?.unpricedTokens ?? 0,
    cost_nano: used?.costNano ?? 0,
  };
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
