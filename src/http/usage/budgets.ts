import type { Budget } from "../../../generated/http/client/types.gen.ts";
import { dayOf, NANO, secondsToMidnight } from "../../agent/usage/usage.ts";
import { readSpending } from "../../agent/usage/queries.ts";
import { eventCursor } from "../control/feed.ts";
import { ownerFilter, pageOf } from "../control/page.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

/** A budget before its spending is read. */
type Limit = Pick<Budget, "id" | "kind" | "owner" | "key" | "unit" | "limit">;

/** GET /v1/budgets: those of owners, then those of keys. */
export async function listBudgets(
  { query, ctx }: HttpRequest<"listBudgets", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listBudgets">> {
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const limits = limitsOf(deps, ownerFilter(ctx).owner);
  const { rows, ...page } = pageOf(limits, query, ({ id }) => id);
  const data = await Promise.all(rows.map((limit) => withSpending(limit, deps)));
  return { status: 200, headers, body: { ...page, data } };
}

/** Without `owner`: of every owner that has a key. */
function limitsOf({ tooling, keys }: HttpDeps, owner: string | undefined): readonly Limit[] {
  const { dayTokens, dayCostUsd = 0 } = tooling.budget;
  const holders = (keys.holders ?? []).map((holder) => ({ ...holder, owner: holder.owner ?? holder.name }));
  const owners = owner === undefined ? [...new Set(holders.map((holder) => holder.owner))] : [owner];
  const ofOwners = owners.flatMap((name): Limit[] => {
    const about = { owner: name, key: null };
    const id = encodeURIComponent(name);
    return [
      { ...about, id: `owner_tokens:${id}`, kind: "owner_tokens", unit: "tokens", limit: dayTokens },
      { ...about, id: `owner_cost:${id}`, kind: "owner_cost", unit: "usd", limit: dayCostUsd },
    ];
  });
  const ofKeys = tooling.keyBudgets().flatMap(({ key, limit }): Limit[] => {
    const holder = holders.find(({ name }) => name === key);
    const isVisible = owner === undefined || holder?.owner === owner;
    const id = `key_cost:${encodeURIComponent(key)}`;
    return isVisible ? [{ id, kind: "key_cost", owner: holder?.owner ?? null, key, unit: "usd", limit }] : [];
  });
  return [...ofOwners.filter(({ limit }) => limit > 0), ...ofKeys];
}

async function withSpending(limit: Limit, { store, clock }: HttpDeps): Promise<Budget> {
  const nowMs = clock.now();
  const payer = limit.key === null ? { owner: limit.owner ?? "" } : { key: limit.key };
  const { tokens, costNano } = await readSpending(store, { day: dayOf(nowMs), ...payer });
  return {
    object: "agent.budget",
    ...limit,
    spent: limit.unit === "tokens" ? tokens : costNano / NANO,
    resets_at: Math.floor(nowMs / 1000) + secondsToMidnight(nowMs),
  };
}
