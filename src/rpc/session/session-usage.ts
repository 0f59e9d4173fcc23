/** What a session has spent, and how full its context is. */
import type { GatewayUsage } from "../../../generated/gateway/types/types.gen.ts";
import { contextUse } from "../../agent/usage/context-use.ts";
import { activeSubagents } from "../../agent/subagent/delegation.ts";
import { formatModel } from "../../agent/model.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcDeps } from "../deps.ts";
import { modelRef, type Known } from "./session-model.ts";
import { usageOf } from "../events/turn-payload.ts";

/** Figures over all turns so far; zero before the first. */
export async function sessionUsage(deps: RpcDeps, known: Known): Promise<GatewayUsage> {
  const ref = modelRef(deps, known);
  const contextMax = deps.agent.deps.models.contextTokensOf(ref);
  const { row } = known;
  const spent = usageOf(row && deps.agent.sessions.usage(row), formatModel(ref));
  if (!row) return { ...spent, context_max: contextMax, compressions: 0, active_subagents: 0 };
  const [{ used, compressions }, subagents] = await Promise.all([
    contextUse(deps.agent.deps, row),
    subagentsOf(deps, row),
  ]);
  const percent = contextMax > 0 ? Math.min(100, Math.round((used / contextMax) * 1_000) / 10) : 100;
  return {
    ...spent,
    ...(used > 0 ? { context_used: used, context_percent: percent } : {}),
    context_max: contextMax,
    compressions,
    active_subagents: subagents,
  };
}

/** Sub-agents work for a turn: without one there are none. */
async function subagentsOf({ store }: RpcDeps, { id, owner, lease_owner }: SessionRow): Promise<number> {
  if (lease_owner === null) return 0;
  return (await activeSubagents(store, { owner, rootSessionId: id })).length;
}
