/** `agentd usage`: tokens and costs of the runs, by day or by what they are grouped by. */
import type { UsageBucket, UsageResult } from "../../client/http.ts";
import { DAY_MS, dayOf, formatUsd, sumUsage, USAGE_GROUPS } from "../../agent/usage/usage.ts";
import { withApi, type Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { UsageError } from "../kit/arguments.ts";
import { commaList, jsonOption, textOption } from "../kit/options.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";

const MAX_DAYS = 400;
const DEFAULT_DAYS = 30;

export const usageCommand = defineApiCommand({
  meta: { name: "usage", description: "Show the tokens and the cost of the runs of the last days (UTC)" },
  args: {
    days: textOption(
      "number",
      `Number of days, today included, at most ${MAX_DAYS}. Default: ${DEFAULT_DAYS}`,
    ),
    by: textOption("list", `Comma-separated: ${USAGE_GROUPS.join(", ")}. Default: a line for each day`),
    owner: textOption("name", "Only runs of this owner"),
    json: jsonOption,
  },
  async run({ args }) {
    const count = toDays(args.days);
    const groupBy = commaList(args.by).map(toGroup);
    const filter = args.owner === undefined ? {} : { owner: [args.owner] };
    const buckets = await withApi((api) => readBuckets(api, count, { group_by: groupBy, ...filter }));
    if (args.json) return printJson({ object: "list", data: buckets });
    const lines = groupBy.length === 0 ? byDay(buckets) : byGroup(buckets, groupBy);
    const total = sumUsage(buckets.flatMap(({ results }) => results));
    if (!total) return warn(`No run ended in the last ${count} days.`);
    const head = groupBy.length === 0 ? ["DAY"] : groupBy.map((name) => name.toUpperCase());
    printTable(
      [...head, "RUNS", "FAILED", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST"],
      lines.map(({ names, result }) => [...names, ...cellsOf(result)]),
    );
    print(`Total cost: ${costText(total)}.`);
  },
});

/** Days of one request. */
const PAGE = 100;

async function readBuckets(
  { client, anyOwner: headers }: Api,
  days: number,
  { group_by: groupBy, owner }: { readonly group_by: readonly Group[]; readonly owner?: string[] },
): Promise<readonly UsageBucket[]> {
  const from = String((Date.now() - (days - 1) * DAY_MS) / 1000);
  const wanted = {
    from,
    ...(groupBy.length === 0 ? {} : { group_by: [...groupBy] }),
    ...(owner === undefined ? {} : { owner }),
  };
  const buckets: UsageBucket[] = [];
  for (let after: string | undefined; ;) {
    const query = { ...wanted, limit: PAGE, ...(after === undefined ? {} : { after }) };
    const { data: page } = await client.getUsage({ query, headers });
    buckets.push(...page.data);
    if (!page.has_more || page.last_id === null || buckets.length >= days) return buckets.slice(0, days);
    after = page.last_id;
  }
}

type Group = (typeof USAGE_GROUPS)[number];

interface UsageLine {
  readonly names: readonly string[];
  readonly result: UsageResult;
}

function byDay(buckets: readonly UsageBucket[]): readonly UsageLine[] {
  return buckets.flatMap(({ start_at: start, results }) =>
    results.map((result) => ({ names: [dayOf(start * 1000)], result })),
  );
}

/** The sums over all days; the most expensive first. */
function byGroup(buckets: readonly UsageBucket[], groupBy: readonly Group[]): readonly UsageLine[] {
  const namesOf = (result: UsageResult) => groupBy.map((name) => result[name] ?? "-");
  const groups = Map.groupBy(
    buckets.flatMap(({ results }) => results),
    (result) => JSON.stringify(namesOf(result)),
  );
  const lines = [...groups.values()].flatMap((results) => {
    const result = sumUsage(results);
    return result ? [{ names: namesOf(result), result }] : [];
  });
  const costOf = ({ result }: UsageLine) => result.cost_usd ?? 0;
  return lines.toSorted((a, b) => costOf(b) - costOf(a));
}

function cellsOf(result: UsageResult): readonly string[] {
  const counts = [
    result.runs,
    result.failed_runs,
    result.model_calls,
    result.input_tokens,
    result.cached_input_tokens,
    result.output_tokens,
  ];
  return [...counts.map((count) => count.toLocaleString("en-US")), costText(result)];
}

function costText({ cost_usd: cost, unpriced_tokens: unpriced }: UsageResult): string {
  if (cost === null) return "unknown";
  const missing = unpriced > 0 ? ` and ${unpriced.toLocaleString("en-US")} tokens without a price` : "";
  return `${formatUsd(cost)}${missing}`;
}

function toDays(text = String(DEFAULT_DAYS)): number {
  const days = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (days >= 1 && days <= MAX_DAYS) return days;
  throw new UsageError(`--days must be a whole number from 1 to ${MAX_DAYS}, not ${JSON.stringify(text)}.`);
}

function toGroup(name: string): Group {
  const group = USAGE_GROUPS.find((each) => each === name);
  if (group) return group;
  throw new UsageError(`--by must name some of ${USAGE_GROUPS.join(", ")}, not ${JSON.stringify(name)}.`);
}
