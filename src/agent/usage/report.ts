/** The usage of days as the HTTP API and the command line show it. */
import type { UsageBucket, UsageResult } from "../../../generated/http/client/types.gen.ts";
import type { Store } from "../../store/store.ts";
import { costUsd, dayOf } from "./usage.ts";
import { readUsage, type UsageGroupRow, type UsageQuery } from "./queries.ts";

export const DAY_MS = 86_400_000;

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
  store: Pick<Store, "read">,
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
