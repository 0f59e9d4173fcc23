/**
 * What model calls use: tokens, calls and their cost, as counted, stored and sent; and what the database sums of it: the
 * spending of a day, and the usage of days.
 */
import type { RunUsage, UsageBucket, UsageResult } from "../../../generated/http/client/types.gen.ts";
import type { RunRow, UsageDayRow } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";

/** What model calls used. Input includes what was read from a cache, and what was written to it. */
export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedInputTokens: number;
  readonly cacheWriteTokens: number;
  readonly reasoningTokens: number;
  readonly modelCalls: number;
  readonly toolCalls: number;
  /** In billionths of a US dollar. */
  readonly costNano: number;
  /** Input and output of calls whose price is unknown. */
  readonly unpricedTokens: number;
}

/** What the model calls of a run used. */
export interface Usage extends ModelUsage {
  /** The part that other models than the run's own used, by `provider:model`. */
  readonly others?: Readonly<Record<string, ModelUsage>>;
}

export const zeroUsage: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  modelCalls: 0,
  toolCalls: 0,
  costNano: 0,
  unpricedTokens: 0,
};

export function addUsage(a: Usage, b: Usage): Usage {
  const sum = addCounts(a, b);
  if (!a.others || !b.others) {
    const others = a.others ?? b.others;
    return others ? { ...sum, others } : sum;
  }
  const others: Record<string, ModelUsage> = { ...a.others };
  for (const [model, used] of Object.entries(b.others)) {
    others[model] = addCounts(others[model] ?? zeroUsage, used);
  }
  return { ...sum, others };
}

/** Returns the usage by model, that of the run's own model first. */
export function usageByModel(
  usage: Usage | undefined,
  own: string,
): readonly (readonly [model: string, usage: ModelUsage | undefined])[] {
  if (!usage?.others) return [[own, usage]];
  const others = Object.entries(usage.others);
  const rest = others.reduce<ModelUsage>((left, [, used]) => addCounts(left, used, -1), usage);
  return [[own, rest], ...others];
}

function addCounts(a: ModelUsage, b: ModelUsage, times = 1): ModelUsage {
  return {
    inputTokens: a.inputTokens + times * b.inputTokens,
    outputTokens: a.outputTokens + times * b.outputTokens,
    cachedInputTokens: a.cachedInputTokens + times * b.cachedInputTokens,
    cacheWriteTokens: a.cacheWriteTokens + times * b.cacheWriteTokens,
    reasoningTokens: a.reasoningTokens + times * b.reasoningTokens,
    modelCalls: a.modelCalls + times * b.modelCalls,
    toolCalls: a.toolCalls + times * b.toolCalls,
    costNano: a.costNano + times * b.costNano,
    unpricedTokens: a.unpricedTokens + times * b.unpricedTokens,
  };
}

// Usage of runs, as it is stored and sent

/** Returns the usage of a run of `model` with the wire's names, by model if others answered too. */
export function toRunUsage(usage: Usage, model: string): RunUsage {
  const { others } = usage;
  if (!others) return toModelUsage(usage);
  const byModel = usageByModel(usage, model).flatMap(([name, used]) =>
    used && used.modelCalls > 0 ? [{ model: name, ...toModelUsage(used) }] : [],
  );
  return { ...toModelUsage(usage), by_model: byModel };
}

function toModelUsage(usage: ModelUsage): Omit<RunUsage, "by_model"> {
  const tokens = usage.inputTokens + usage.outputTokens;
  return {
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    total_tokens: tokens,
    cached_input_tokens: usage.cachedInputTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    cost_usd: costUsd({ ...usage, tokens }),
    unpriced_tokens: usage.unpricedTokens,
    model_calls: usage.modelCalls,
    tool_calls: usage.toolCalls,
  };
}

/** Returns what {@link toRunUsage} wrote. */
export function readRunUsage(usage: RunUsage, model: string): Usage {
  const others = usage.by_model?.filter((used) => used.model !== model);
  const own = fromModelUsage(usage);
  if (!others || others.length === 0) return own;
  return { ...own, others: Object.fromEntries(others.map((used) => [used.model, fromModelUsage(used)])) };
}

function fromModelUsage(usage: Omit<RunUsage, "by_model">): ModelUsage {
  return {
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
    cachedInputTokens: usage.cached_input_tokens,
    cacheWriteTokens: usage.cache_write_tokens,
    reasoningTokens: usage.reasoning_tokens,
    modelCalls: usage.model_calls,
    toolCalls: usage.tool_calls,
    costNano: Math.round((usage.cost_usd ?? 0) * NANO),
    unpricedTokens: usage.unpriced_tokens,
  };
}

/** Returns the sum of two usages, without its split by model. */
export function addRunUsage(a: RunUsage, b: RunUsage): RunUsage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
    cache_write_tokens: a.cache_write_tokens + b.cache_write_tokens,
    reasoning_tokens: a.reasoning_tokens + b.reasoning_tokens,
    cost_usd: addUsd(a.cost_usd, b.cost_usd),
    unpriced_tokens: a.unpriced_tokens + b.unpriced_tokens,
    model_calls: a.model_calls + b.model_calls,
    tool_calls: a.tool_calls + b.tool_calls,
  };
}

/** Unknown costs are missing from the sum; their tokens are in `unpriced_tokens`. */
function addUsd(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.round((a + b) * NANO) / NANO;
}

// Usage of days

/** A run that ends, with what it used. */
interface EndedRun {
  readonly run: Pick<RunRow, "owner" | "key" | "model" | "kind">;
  /** The surface that created its session. */
  readonly source: string;
  readonly status: RunRow["status"];
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

// Money and days. Costs are stored in billionths of a US dollar, which are integers; prices are in US dollars.

/** Billionths in a US dollar. */
export const NANO = 1e9;

const DAY_SECONDS = 86_400;
export const DAY_MS = 86_400_000;

let latest = { index: Number.NaN, day: "" };

/** Returns the day of a time as `2026-01-31`, in UTC. */
export function dayOf(ms: number): string {
  const index = Math.floor(ms / DAY_MS);
  // Each run asks, and nearly all ask for the same day.
  if (index !== latest.index) latest = { index, day: new Date(ms).toISOString().slice(0, 10) };
  return latest.day;
}

/** Returns the seconds until the next midnight (UTC), at least 1. */
export function secondsToMidnight(ms: number): number {
  return DAY_SECONDS - (Math.floor(ms / 1000) % DAY_SECONDS);
}

/**
 * Returns a cost as surfaces show it, in US dollars. Null: nothing of what was used has a known price. What is unpriced
 * beside something priced is missing from the cost.
 */
export function costUsd(used: {
  readonly costNano: number;
  readonly unpricedTokens: number;
  readonly tokens: number;
}): number | null {
  return used.unpricedTokens > 0 && used.unpricedTokens >= used.tokens ? null : used.costNano / NANO;
}

/** Returns an amount of US dollars for people, with two significant digits. */
export function formatUsd(usd: number): string {
  const digits = usd === 0 || usd >= 0.1 ? 2 : Math.min(9, 1 - Math.floor(Math.log10(usd)));
  return `$${usd.toFixed(digits)}`;
}

// What the database sums.

type Reader = Pick<Store, "read">;

/** What an owner or a key spent. */
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

/** Most results of a day. */
const MAX_GROUPS = 500;
/** The times that have a day: 0001-01-01 to 9999-12-31. */
const [MIN_MS, MAX_MS] = [-62_135_596_800_000, 253_402_300_799_999];

/** Returns the days (UTC) that overlap a window, newest first, at most `limit`. */
export function daysBetween(
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  limit: number,
): readonly string[] {
  const firstMs = Math.max(MIN_MS, Math.floor(fromMs / DAY_MS) * DAY_MS);
  const lastMs = Math.floor((Math.min(toMs, MAX_MS) - 1) / DAY_MS) * DAY_MS;
  const days: string[] = [];
  for (let startMs = lastMs; startMs >= firstMs && days.length < limit; startMs -= DAY_MS) {
    days.push(dayOf(startMs));
  }
  return days;
}

/** Reads the usage of `days`, newest first, in one query. */
export async function readUsageBuckets(
  store: Reader,
  days: readonly string[],
  query: Pick<UsageQuery, "groupBy" | "filter">,
): Promise<readonly UsageBucket[]> {
  const [last, first = last] = [days.at(0), days.at(-1)];
  if (last === undefined || first === undefined) return [];
  const rows = await readUsage(store, { days: { first, last }, ...query, maxGroups: MAX_GROUPS + 1 });
  const byDay = Map.groupBy(rows, ({ day }) => day);
  return days.map((day) => toBucket(day, byDay.get(day) ?? []));
}

function toBucket(day: string, rows: readonly UsageGroupRow[]): UsageBucket {
  const startMs = Date.parse(day);
  return {
    object: "agent.usage.bucket",
    start_at: startMs / 1000,
    end_at: (startMs + DAY_MS) / 1000,
    results: rows.slice(0, MAX_GROUPS).map(toResult),
    truncated: rows.length > MAX_GROUPS,
  };
}

function toResult({ day: _, cost_nano: costNano, ...row }: UsageGroupRow): UsageResult {
  const tokens = row.input_tokens + row.output_tokens;
  return {
    model: row.model,
    owner: row.owner,
    key: row.key === "" ? null : row.key,
    source: row.source,
    kind: row.kind,
    runs: row.runs,
    failed_runs: row.failed_runs,
    model_calls: row.model_calls,
    tool_calls: row.tool_calls,
    input_tokens: row.input_tokens,
    cached_input_tokens: row.cached_input_tokens,
    cache_write_tokens: row.cache_write_tokens,
    output_tokens: row.output_tokens,
    reasoning_tokens: row.reasoning_tokens,
    cost_usd: costUsd({ costNano, unpricedTokens: row.unpriced_tokens, tokens }),
    unpriced_tokens: row.unpriced_tokens,
  };
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
] as const;

const COLUMNS = [...COUNTERS, "cost_nano"] as const;

/** Returns the sum of results; the names of the first. */
export function sumUsage(results: readonly UsageResult[]): UsageResult | undefined {
  const [first, ...others] = results;
  if (!first) return undefined;
  const sum: UsageResult = { ...first };
  for (const each of others) {
    for (const name of COUNTERS) sum[name] += each[name];
    if (each.cost_usd !== null) sum.cost_usd = (sum.cost_usd ?? 0) + each.cost_usd;
  }
  return sum;
}

/** What usage can be grouped by, and filtered by. */
export const USAGE_GROUPS = ["model", "owner", "key", "source", "kind"] as const;

type UsageGroup = (typeof USAGE_GROUPS)[number];

interface UsageQuery {
  /** First and last day, as `2026-01-31` in UTC. */
  readonly days: { readonly first: string; readonly last: string };
  readonly groupBy: readonly UsageGroup[];
  /** Any of these values; undefined: all. */
  readonly filter: Readonly<Partial<Record<UsageGroup, readonly string[] | undefined>>>;
  /** Most groups of a day, those with the most tokens. */
  readonly maxGroups: number;
}

/** The usage of one group on a day. Columns that it is not grouped by are null. */
type UsageGroupRow = Omit<UsageDayRow, UsageGroup> & Readonly<Record<UsageGroup, string | null>>;

/** Returns the usage of each group and day, newest days first. */
async function readUsage({ read }: Reader, query: UsageQuery): Promise<readonly UsageGroupRow[]> {
  const { days, groupBy, filter, maxGroups } = query;
  if (Object.values(filter).some((values) => values?.length === 0)) return [];
  let rows = read.selectFrom("usage_days").where("day", ">=", days.first).where("day", "<=", days.last);
  for (const column of USAGE_GROUPS) {
    const values = filter[column];
    if (values) rows = rows.where(column, "in", values);
  }
  const groups = rows
    .select(["day", ...groupBy])
    .select(({ fn }) => COLUMNS.map((name) => fn.sum<number>(name).as(name)))
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

/** PostgreSQL returns sums of large integers as text. */
function numbersOf(row: Readonly<Record<(typeof COLUMNS)[number], unknown>>) {
  return Object.fromEntries(COLUMNS.map((name) => [name, Number(row[name])])) as Record<
    (typeof COLUMNS)[number],
    number
  >;
}
