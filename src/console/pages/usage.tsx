/** What the agent used: tokens, cost, runs and failures of each day, by model, key or source, and what budgets are left. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Budget, BudgetList, UsageBucketList, UsageResult } from "../../client/http.ts";
import type { PageProps } from "../router.ts";
import { useItem } from "../state/resources.ts";
import { addressOf } from "../state/session.ts";
import { Chart, type Series } from "../ui/chart.tsx";
import { Empty, Loading, PageHeader, Problem, Snippet, Time, useNow } from "../ui/controls.tsx";
import { Tabs } from "../ui/filters.tsx";
import { compactCount, cost } from "../ui/format.ts";
import { sourceName } from "../ui/run-parts.tsx";
import { Stats } from "../ui/stats.tsx";
import { Table, type Column } from "../ui/table.tsx";
import { dailyOf, groupsOf, totalOf, type Group, type Grouping, type Total } from "./usage-totals.ts";

const GROUPINGS: readonly (readonly [Grouping, string])[] = [
  ["model", "By model"],
  ["key", "By key"],
  ["source", "By source"],
];
const WINDOWS = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
] as const;
const DAY = 86_400;

export function UsagePage({ query }: PageProps): JSX.Element {
  const by = GROUPINGS.find(([name]) => name === query.get("by"))?.[0] ?? "model";
  const days = Number(WINDOWS.find(([count]) => count === query.get("from"))?.[0] ?? 7);
  const today = Math.floor(useNow(60_000) / 1_000 / DAY);
  const from = (today - days + 1) * DAY;
  const address = addressOf("/v1/usage", {}, { group_by: by, from, limit: days });
  const { item, status, problem, reload } = useItem<UsageBucketList>(address, "run");
  return (
    <>
      <PageHeader title="Usage" />
      <div class="page-body">
        <div class="filters">
          <Tabs label="Grouping" name="by" options={GROUPINGS} />
          <Tabs label="Time" name="from" options={WINDOWS} />
        </div>
        {item ? <Usage list={item} by={by} /> : null}
        {status === "loading" ? <Loading /> : null}
        {problem ? <Problem message={problem} onRetry={reload} /> : null}
        <Budgets />
      </div>
    </>
  );
}

function Usage({ list, by }: { readonly list: UsageBucketList; readonly by: Grouping }): JSX.Element {
  const total = useMemo(() => totalOf(list.data), [list]);
  const groups = useMemo(() => groupsOf(list.data, by), [list, by]);
  if (total.runs === 0) return <NothingUsed />;
  return (
    <>
      <Stats label="Total" stats={statsOf(total)} />
      <Charts list={list} by={by} groups={groups} />
      <Table label={`Usage by ${by}`} rows={groups} columns={columnsOf(by)} {...linkOf(by)} />
      {list.data.some(({ truncated }) => truncated) ? (
        <p class="dim">Some days have more than 500 groups; the smallest are left out.</p>
      ) : null}
    </>
  );
}

function statsOf(total: Total) {
  const { runs, failed_runs: failed, input_tokens: input, output_tokens: output } = total;
  return [
    {
      name: "Runs",
      value: compactCount(runs),
      note: failed === 0 ? "none failed" : `${compactCount(failed)} failed`,
    },
    { name: "Cost", value: cost(total.cost_usd), note: unpricedNote(total) },
    { name: "Input tokens", value: compactCount(input), note: cachedNote(total) },
    { name: "Output tokens", value: compactCount(output), note: reasoningNote(total) },
    {
      name: "Model calls",
      value: compactCount(total.model_calls),
      note: `${compactCount(total.tool_calls)} tool ${total.tool_calls === 1 ? "call" : "calls"}`,
    },
  ];
}

function unpricedNote({ unpriced_tokens: tokens }: Total): string {
  return tokens === 0
    ? "at the prices of each call"
    : `without ${compactCount(tokens)} tokens of unknown price`;
}

function cachedNote({ cached_input_tokens: cached, input_tokens: input }: Total): string {
  return input === 0 || cached === 0
    ? "none from a cache"
    : `${Math.round((100 * cached) / input)} % from a cache`;
}

function reasoningNote({ reasoning_tokens: reasoning }: Total): string {
  return reasoning === 0 ? "no reasoning" : `${compactCount(reasoning)} of reasoning`;
}

interface ChartsProps {
  readonly list: UsageBucketList;
  readonly by: Grouping;
  readonly groups: readonly Group[];
}

/** A chart of more series than this cannot be read. */
const MAX_SERIES = 4;

function Charts({ list, by, groups }: ChartsProps): JSX.Element {
  const days = useMemo(() => list.data.toReversed(), [list]);
  const times = useMemo(() => days.map(({ start_at: start }) => start), [days]);
  const seriesOf = (valueOf: (result: UsageResult) => number | null, format: Series["format"]): Series[] =>
    dailyOf(days, { by, valueOf, names: groups.slice(0, MAX_SERIES).map(({ name }) => name) }).map(
      (each) => ({
        ...each,
        format,
      }),
    );
  const tokens = useMemo(
    () => seriesOf((result) => result.input_tokens + result.output_tokens, compactCount),
    [days, by, groups],
  );
  const costs = useMemo(() => seriesOf((result) => result.cost_usd, cost), [days, by, groups]);
  const runs = useMemo(() => outcomesOf(days.map(({ results }) => results)), [days]);
  return (
    <div class="usage-charts">
      <Chart label="Tokens a day" times={times} series={tokens} look="days" />
      <Chart label="Cost a day" times={times} series={costs} look="days" />
      <Chart label="Runs a day" times={times} series={runs} look="days" />
    </div>
  );
}

function outcomesOf(days: readonly (readonly UsageResult[])[]): readonly Series[] {
  const sum = (results: readonly UsageResult[], valueOf: (result: UsageResult) => number) =>
    results.reduce((all, result) => all + valueOf(result), 0);
  const format = (value: number) => compactCount(Math.round(value));
  return [
    {
      name: "Completed",
      format,
      values: days.map((day) => sum(day, (each) => each.runs - each.failed_runs)),
    },
    {
      name: "Failed",
      format,
      colour: "--bad",
      values: days.map((day) => sum(day, (each) => each.failed_runs)),
    },
  ];
}

function columnsOf(by: Grouping): readonly Column<Group>[] {
  return [
    {
      name: { model: "Model", key: "Key", source: "Source" }[by],
      isWide: true,
      cell: ({ name }) => (by === "source" ? sourceName(name) : name),
    },
    { name: "Runs", align: "end", cell: ({ total }) => compactCount(total.runs) },
    { name: "Failed", align: "end", cell: ({ total }) => compactCount(total.failed_runs) },
    { name: "Input", align: "end", cell: ({ total }) => compactCount(total.input_tokens) },
    { name: "Cached", align: "end", cell: ({ total }) => compactCount(total.cached_input_tokens) },
    { name: "Output", align: "end", cell: ({ total }) => compactCount(total.output_tokens) },
    { name: "Cost", align: "end", cell: ({ total }) => cost(total.cost_usd) },
  ];
}

/** The runs behind a row. */
function linkOf(by: Grouping) {
  const name = by === "source" ? "trigger" : by;
  return { href: ({ value }: Group) => addressOf("/runs", {}, { [name]: value ?? "" }) };
}

function Budgets(): JSX.Element | null {
  const { item } = useItem<BudgetList>("/v1/budgets?limit=100", ["run", "key", "config"]);
  if (!item) return null;
  return (
    <section class="usage-budgets">
      <h2>Budgets of today</h2>
      {item.data.length === 0 ? (
        <p class="dim">
          No budget is set. <a href="/settings/agent?q=budget">Limit what runs may use on a day</a>
        </p>
      ) : (
        <Table label="Budgets" rows={item.data} columns={BUDGETS} />
      )}
    </section>
  );
}

const BUDGETS: readonly Column<Budget>[] = [
  { name: "Budget", isWide: true, cell: (budget) => budgetName(budget) },
  { name: "Spent", align: "end", cell: ({ spent, unit }) => amountOf(spent, unit) },
  { name: "Limit", align: "end", cell: ({ limit, unit }) => amountOf(limit, unit) },
  { name: "Used", cell: (budget) => <Used budget={budget} /> },
  { name: "Starts again", align: "end", cell: ({ resets_at: at }) => <Time at={at} /> },
];

function budgetName({ kind, owner, key }: Budget): string {
  if (kind === "key_cost") return `Cost of the key ${key ?? ""}`;
  return `${kind === "owner_cost" ? "Cost" : "Tokens"} of ${owner ?? "everyone"}`;
}

function amountOf(value: number, unit: Budget["unit"]): string {
  return unit === "usd" ? cost(value) : compactCount(value);
}

function Used({ budget }: { readonly budget: Budget }): JSX.Element {
  const { spent, limit } = budget;
  const share = limit === 0 ? 1 : spent / limit;
  return (
    <span class="usage-meter">
      <meter
        aria-label={budgetName(budget)}
        min={0}
        max={1}
        high={0.8}
        optimum={0}
        value={Math.min(1, share)}
      />
      {Math.round(share * 100)} %
    </span>
  );
}

function NothingUsed(): JSX.Element {
  return (
    <Empty icon="usage" title="Nothing was used in this time">
      <p>Tokens and costs appear here after the first answer. Ask for one in the chat, or over HTTP:</p>
      <Snippet
        label="Command"
        text={`curl ${location.origin}/v1/runs -H "authorization: Bearer $API_SERVER_KEY" \\\n  -H "content-type: application/json" -d '{"input": "Hello"}'`}
      />
    </Empty>
  );
}
