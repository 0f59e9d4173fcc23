import type { Budget } from "../../../generated/http/client/types.gen.ts";
import { dayOf, NANO, readSpending, secondsToMidnight } from "../../agent/usage/usage.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
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
  const { owner } = ownerFilter(ctx);
  const whose = owner === undefined ? {} : { owner };
  const created = await (
    await deps.apiKeys()
  ).list({ statuses: ["active"], limit: MAX_KEYS, ...whose }, deps.clock.now());
  const limits = limitsOf(deps, owner, created);
  const { rows, ...page } = pageOf(limits, query, ({ id }) => id);
  const data = await Promise.all(rows.map((limit) => withSpending(limit, deps)));
  return { status: 200, headers, body: { ...page, data } };
}

/** As many as can be stored. */
const MAX_KEYS = 1_000;

/** Without `owner`: of every owner that has a key. */
function limitsOf(
  { tooling, keys }: HttpDeps,
  owner: string | undefined,
  created: readonly ApiKeyRow[],
): readonly Limit[] {
  const { dayTokens, dayCostUsd = 0 } = tooling.budget;
  const holders = (keys.holders ?? []).map((holder) => ({ ...holder, owner: holder.owner ?? holder.name }));
  const all = [...holders, ...created].map((holder) => holder.owner);
  const owners = owner === undefined ? [...new Set(all)] : [owner];
  const ofOwners = owners.flatMap((name): Limit[] => {
    const about = { owner: name, key: null };
    const id = encodeURIComponent(name);
    return [
      { ...about, id: `owner_tokens:${id}`, kind: "owner_tokens", unit: "tokens", limit: dayTokens },
      { ...about, id: `owner_cost:${id}`, kind: "owner_cost", unit: "usd", limit: dayCostUsd },
    ];
  });
  const ofKey = (key: string, whose: string, limit: number): Limit => {
    const id = `key_cost:${encodeURIComponent(key)}`;
    return { id, kind: "key_cost", owner: whose, key, unit: "usd", limit };
  };
  const configured = tooling.keyBudgets().flatMap(({ key, limit }) => {
    const holder = holders.find(({ name }) => name === key);
    const isVisible = holder !== undefined && (owner === undefined || holder.owner === owner);
    return isVisible ? [ofKey(key, holder.owner, limit)] : [];
  });
  const ofCreated = created.flatMap(({ name, owner: whose, day_budget_nano: nano }) =>
    nano === null ? [] : [ofKey(name, whose, nano / NANO)],
  );
  return [...ofOwners.filter(({ limit }) => limit > 0), ...configured, ...ofCreated];
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
