/** What a session has used, as clients show it. */
import type { Cost, SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import type { RunUsage } from "../../../generated/http/client/types.gen.ts";
import { contextUse } from "../../agent/usage/context-use.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "../session/session.ts";

/** Tells how full the context of a session is; nothing of one that has none yet. */
export async function sendUsage(connection: AcpConnection, session: AcpSession): Promise<void> {
  const update = await sessionUsage(await connection.deps(), session.id);
  if (update) await connection.client.notify("session/update", { sessionId: session.id, update });
}

/** Undefined before the first turn. */
export async function sessionUsage(deps: AcpDeps, sessionId: string): Promise<SessionUpdate | undefined> {
  const row = await deps.store.find("sessions", { id: sessionId });
  if (!row) return undefined;
  const { deps: agentDeps, sessions } = deps.agent;
  const { models } = agentDeps;
  const { used } = await contextUse(agentDeps, row);
  const own = row.model === null ? undefined : models.resolve(row.model);
  const size = models.contextTokensOf(own ?? models.default);
  if (used === 0) return undefined;
  return { sessionUpdate: "usage_update", used, size, ...costOf(sessions.usage(row)?.cost_usd) };
}

/** In the middle of a turn: what the newest model call took and gave is what the next one begins with. */
export function turnUsage(
  usage: RunUsage,
  before: RunUsage | undefined,
  size: number,
): SessionUpdate | undefined {
  const calls = usage.model_calls - (before?.model_calls ?? 0);
  const used = usage.total_tokens - (before?.total_tokens ?? 0);
  // Figures of several calls say nothing about one.
  return calls === 1 && used > 0 ? { sessionUpdate: "usage_update", used, size } : undefined;
}

/** Of all turns so far; unknown where a model has no price. */
function costOf(amount: number | null | undefined): { readonly cost?: Cost } {
  return typeof amount === "number" ? { cost: { amount, currency: "USD" } } : {};
}
