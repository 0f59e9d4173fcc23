import { DAY_MS, dayOf, daysBetween, readUsageBuckets, USAGE_GROUPS } from "../../agent/usage/usage.ts";
import { ServiceError } from "../../base/errors.ts";
import { eventCursor } from "../control/feed.ts";
import { ownerFilter, timeWindow } from "../control/page.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

const DEFAULT_DAYS = 30;

/** GET /v1/usage: one entry for each day of the window, newest first. A position in it is its day. */
export async function getUsage(
  { query, ctx }: HttpRequest<"getUsage", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getUsage">> {
  const { limit, model, key, source, kind } = query;
  const days = daysOf(query, deps.clock.now());
  const page = days.slice(0, limit);
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const { owner: own } = ownerFilter(ctx);
  const all = query.owner ?? (own === undefined ? undefined : [own]);
  const owner = own === undefined ? all : all?.filter((name) => name === own);
  const data = await readUsageBuckets(deps.store, page, {
    groupBy: USAGE_GROUPS.filter((name) => query.group_by?.includes(name)),
    filter: { model, owner, key, source, kind },
  });
  const position = { first_id: page.at(0) ?? null, last_id: page.at(-1) ?? null };
  const body = { object: "list" as const, data: [...data], ...position, has_more: days.length > limit };
  return { status: 200, headers, body };
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
  const endMs = after === undefined ? toMs : Math.min(toMs, Date.parse(after));
  return daysBetween({ fromMs, toMs: endMs }, limit + 1);
}

function isDay(text: string): boolean {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN;
  return !Number.isNaN(ms) && dayOf(ms) === text;
}
