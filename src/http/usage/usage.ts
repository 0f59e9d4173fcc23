import type { UsageBucket, UsageResult } from "../../../generated/http/client/types.gen.ts";
import { costUsd, dayOf } from "../../agent/usage/money.ts";
import { readUsage, USAGE_GROUPS, type UsageGroupRow } from "../../agent/usage/queries.ts";
import { ServiceError } from "../../base/errors.ts";
import { eventCursor } from "../control/feed.ts";
import { listBody, ownerFilter, timeWindow } from "../control/page.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 30;
/** Most results of a day. */
const MAX_GROUPS = 500;
/** The times of the window that mean a day: 0001-01-01 to 9999-12-31. */
const [MIN_MS, MAX_MS] = [-62_135_596_800_000, 253_402_300_799_999];

/** GET /v1/usage: one entry for each day of the window, newest first. A position in it is its day. */
export async function getUsage(
  { query, ctx }: HttpRequest<"getUsage", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getUsage">> {
  const days = daysOf(query, deps.clock.now());
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const [newest = "", oldest = newest] = [days.at(0), days.slice(0, query.limit).at(-1)];
  const { owner: own } = ownerFilter(ctx);
  const all = query.owner ?? (own === undefined ? undefined : [own]);
  const owner = own === undefined ? all : all?.filter((name) => name === own);
  const { model, key, source, kind } = query;
  const found = await readUsage(deps.store, {
    days: { first: oldest, last: newest },
    groupBy: USAGE_GROUPS.filter((name) => query.group_by?.includes(name)),
    filter: { model, owner, key, source, kind },
    maxGroups: MAX_GROUPS + 1,
  });
  const byDay = Map.groupBy(found, ({ day }) => day);
  const show = (day: string) => toBucket(day, byDay.get(day) ?? []);
  return { status: 200, headers, body: listBody(days, query.limit, { positionOf: (day) => day, show }) };
}

/** Returns the days of a page, newest first, and one more when another page follows. */
function daysOf(
  { from, to, after, limit }: HttpRequest<"getUsage", HttpContext>["query"],
  nowMs: number,
): readonly string[] {
  if (after !== undefined && !isDay(after)) {
    const what = "after is not a position of this list. Use last_id of the previous page.";
    throw new ServiceError("invalid_cursor", what, { param: "after" });
  }
  const { fromMs = nowMs - (DEFAULT_DAYS - 1) * DAY_MS, toMs = nowMs + 1 } = timeWindow({
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  });
  const endMs = Math.min(toMs, MAX_MS, after === undefined ? MAX_MS : Date.parse(after));
  const days: string[] = [];
  const firstMs = Math.max(MIN_MS, Math.floor(fromMs / DAY_MS) * DAY_MS);
  let startMs = Math.floor((endMs - 1) / DAY_MS) * DAY_MS;
  for (; startMs >= firstMs && days.length <= limit; startMs -= DAY_MS) days.push(dayOf(startMs));
  return days;
}

function isDay(text: string): boolean {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN;
  return !Number.isNaN(ms) && dayOf(ms) === text;
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
