import type { ActiveRow } from "../../../generated/gateway/types/types.gen.ts";
import type { LiveSession } from "../../agent/session/live-sessions.ts";
import { formatModel } from "../../agent/model.ts";
import { previewsOf } from "../../agent/session/list.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcDeps } from "../deps.ts";
import { modelRef } from "./session-model.ts";
import { statusOf, titleOf } from "./session-view.ts";
import { messageCounts } from "./transcript.ts";

/**
 * The sessions of an owner that are open here, in the order in which they were opened. Hosts ask every second or so:
 * it takes a few statements, however many sessions are open or saved.
 */
export async function activeSessions(
  deps: RpcDeps,
  owner: string,
  currentId: string | undefined,
): Promise<readonly ActiveRow[]> {
  const open = deps.agent.live.list(owner);
  const saved = await savedOf(deps, open);
  const ids = [...saved.keys()];
  const [previews, counts, asking] = await Promise.all([
    previewsOf(deps.store, ids),
    messageCounts(deps.store, ids),
    askingOf(deps, ids),
  ]);
  return open.map((live) => {
    const row = saved.get(live.id);
    const known = { row, seed: live.seed };
    return {
      id: live.id,
      session_key: live.id,
      title: titleOf(known),
      preview: previews.get(live.id) ?? "",
      model: formatModel(modelRef(deps, known)),
      status: statusOf(row, asking.has(live.id)),
      current: live.id === currentId,
      started_at: (row?.created_at ?? live.openedAtMs) / 1000,
      last_active: Math.max(row?.updated_at ?? 0, live.lastActiveAtMs) / 1000,
      message_count: counts.get(live.id) ?? 0,
    };
  });
}

async function savedOf(
  { store, agent }: RpcDeps,
  open: readonly LiveSession[],
): Promise<ReadonlyMap<string, SessionRow>> {
  if (open.length === 0) return new Map();
  const ids = open.map(({ id }) => id);
  await agent.settle(ids);
  const rows = await store.read.selectFrom("sessions").selectAll().where("id", "in", ids).execute();
  return new Map(rows.map((row) => [row.id, row]));
}

/** Those that wait for an answer. */
async function askingOf({ store }: RpcDeps, ids: readonly string[]): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const rows = await store.read
    .selectFrom("questions")
    .select("session_id")
    .where("session_id", "in", ids)
    .where("status", "=", "open")
    .execute();
  return new Set(rows.map(({ session_id: id }) => id));
}
