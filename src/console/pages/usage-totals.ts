/** Sums of the days of usage. Pure. */
import type { UsageBucket, UsageResult } from "../../client/http.ts";

export type Grouping = "model" | "key" | "source";

const COUNTERS = [
  "runs",
  "failed_runs",
  "model_calls",
  "tool_calls",
  "input_tokens",
  "cached_input_tokens",
  "output_tokens",
  "reasoning_tokens",
  "unpriced_tokens",
] as const;

export type Total = Record<(typeof COUNTERS)[number], number> & {
  /** Null: no call has a known price. */
  cost_usd: number | null;
};

/** One row of the table. */
export interface Group {
  readonly id: string;
  readonly name: string;
  /** As the API has it; null for runs without a key or source. */
  readonly value: string | null;
  readonly total: Total;
}

export function totalOf(days: readonly UsageBucket[]): Total {
  return days.flatMap(({ results }) => results).reduce(add, nothing());
}

/** Returns the groups of all days, those with the most tokens first. */
export function groupsOf(days: readonly UsageBucket[], by: Grouping): readonly Group[] {
  const totals = new Map<string | null, Total>();
  for (const result of days.flatMap(({ results }) => results)) {
    totals.set(result[by], add(totals.get(result[by]) ?? nothing(), result));
  }
  const groups = [...totals].map(([value, total]) => ({
    id: value ?? "",
    name: nameOf(value, by),
    value,
    total,
  }));
  const size = ({ total }: Group) => total.input_tokens + total.output_tokens;
  return groups.toSorted((a, b) => size(b) - size(a));
}

export interface DailyOptions {
  readonly by: Grouping;
  readonly valueOf: (result: UsageResult) => number | null;
  /** Groups with a series of their own; the others share one. */
  readonly names: readonly string[];
}

/** Returns one series for each name, and one for all other groups, with a value for each day. */
export function dailyOf(
  days: readonly UsageBucket[],
  { by, valueOf, names }: DailyOptions,
): readonly { readonly name: string; readonly values: readonly number[] }[] {
  const sum = (isMeant: (name: string) => boolean) =>
    days.map(({ results }) =>
      results
        .filter((result) => isMeant(nameOf(result[by], by)))
        .reduce((all, result) => all + (valueOf(result) ?? 0), 0),
    );
  const own = names.map((name) => ({ name, values: sum((each) => each === name) }));
  const others = sum((name) => !names.includes(name));
  return others.some((value) => value > 0) ? [...own, { name: "Others", values: others }] : own;
}

function nameOf(value: string | null, by: Grouping): string {
  return value ?? (by === "key" ? "without a key" : "unknown");
}

function nothing(): Total {
  const zeros = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Record<
    (typeof COUNTERS)[number],
    number
  >;
  return { ...zeros, cost_usd: null };
}

function add(total: Total, result: Pick<UsageResult, keyof Total>): Total {
  const sums = Object.fromEntries(COUNTERS.map((name) => [name, total[name] + result[name]])) as Omit<
    Total,
    "cost_usd"
  >;
  const costs = [total.cost_usd, result.cost_usd].filter((value) => value !== null);
  return { ...sums, cost_usd: costs.length === 0 ? null : costs.reduce((all, value) => all + value, 0) };
}
