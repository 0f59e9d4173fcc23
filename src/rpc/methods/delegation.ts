/** Methods about sub-agents, and the trees of them that hosts keep. */
import { activeSubagents, subagentsOf } from "../../agent/subagent/family.ts";
import { parseInput } from "../../agent/run/run.ts";
import type { SpawnTree } from "../../agent/subagent/spawn-tree.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RpcGroup } from "../connection/contract.ts";
import { namedSession } from "../session/known-session.ts";
import type { RpcContext } from "../deps.ts";
import { savedSession } from "../session/address.ts";

type Names =
  | "delegation.status"
  | "subagent.interrupt"
  | "spawn_tree.save"
  | "spawn_tree.list"
  | "spawn_tree.load";

export const delegationMethods: RpcGroup<Names, RpcContext> = {
  "delegation.status": async ({ params, ctx }) => {
    const { deps, peer } = ctx;
    const { session_id: rootSessionId } = params;
    await namedSession(ctx, rootSessionId);
    const { owner } = peer.identity;
    const active = await activeSubagents(deps.store, {
      owner,
      ...(rootSessionId === undefined ? {} : { rootSessionId }),
    });
    const tools = await toolCounts(
      ctx,
      active.map(({ subagentId }) => subagentId),
    );
    const { maxDepth, maxConcurrent } = deps.agent.deps.settings.delegation;
    return {
      active: active.map((each) => ({
        subagent_id: each.subagentId,
        parent_id: each.parentId === "" ? null : each.parentId,
        session_id: each.sessionId,
        depth: each.depth,
        goal: each.goal,
        model: each.model,
        started_at: (each.startedAtMs ?? each.createdAtMs) / 1000,
        status: each.status,
        tool_count: tools.get(each.subagentId) ?? 0,
      })),
      // Who shuts down starts none.
      paused: deps.agent.runs.draining,
      max_spawn_depth: maxDepth,
      max_concurrent_children: maxConcurrent,
    };
  },

  "subagent.interrupt": async ({ params, ctx: { deps, peer } }) => {
    const { subagent_id: id, session_id: sessionId } = params;
    if (id === "") throw new ServiceError("missing_param", "subagent_id must name a sub-agent.");
    const row = await deps.store.read
      .selectFrom("runs")
      .selectAll()
      .where("id", "=", id)
      .where("owner", "=", peer.identity.owner)
      .where("parent_id", "is not", null)
      .where("ended_at", "is", null)
      .executeTakeFirst();
    const isOther = sessionId !== undefined && row && parseInput(row).family?.root.sessionId !== sessionId;
    if (!row || isOther) return { found: false, subagent_id: id };
    const reason = "A host interrupted the sub-agent.";
    const below = await subagentsOf(deps.store, id);
    // The children first: their parent, when it stops, has no more to wait for.
    for (const child of below.toReversed()) {
      if (child.endedAtMs === null) await deps.agent.runs.stop(child.subagentId, reason);
    }
    return { found: await deps.agent.runs.stop(id, reason), subagent_id: id };
  },

  "spawn_tree.save": async ({ params, ctx }) => {
    const { deps } = ctx;
    const { session_id: sessionId, started_at: startedAt, finished_at: finishedAt, label } = params;
    if (params.subagents.length === 0)
      throw new ServiceError("missing_param", "subagents must not be empty.");
    const path = await deps.spawnTrees
      .save({
        session_id: await keyOf(ctx, sessionId),
        started_at: startedAt ?? null,
        finished_at: finishedAt ?? deps.clock.now() / 1000,
        label: label ?? "",
        subagents: params.subagents,
      })
      .catch(asStorageFailure);
    return { path, session_id: sessionId };
  },

  "spawn_tree.list": async ({ params, ctx }) => {
    const { session_id: sessionId, cross_session: isAll, limit } = params;
    const found = await ctx.deps.spawnTrees.list(
      isAll ? { limit: MAX_LISTED } : { sessionId: await keyOf(ctx, sessionId), limit },
    );
    const entries = [];
    for (const entry of found) {
      const shown = await nameFor(ctx, entry.session_id);
      if (shown !== undefined && entries.length < limit) entries.push({ ...entry, session_id: shown });
    }
    return { entries };
  },

  "spawn_tree.load": async ({ params, ctx }) => {
    if (params.path.trim() === "") throw new ServiceError("missing_param", "path must name a spawn tree.");
    const tree = await ctx.deps.spawnTrees.load(params.path).catch(asPathError);
    const shown = await nameFor(ctx, tree.session_id);
    if (shown === undefined) throw noTree();
    return { ...tree, session_id: shown, subagents: tree.subagents.map((each) => ({ ...each })) };
  },
};

const MAX_LISTED = 200;

/** How many tools each of the runs began. */
async function toolCounts(
  { deps }: RpcContext,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (runIds.length === 0) return new Map();
  const rows = await deps.store.read
    .selectFrom("events")
    .select((db) => ["run_id", db.fn.countAll<number>().as("count")])
    .where("run_id", "in", runIds)
    .where("type", "=", "tool.started")
    .groupBy("run_id")
    .execute();
  return new Map(rows.map(({ run_id: id, count }) => [id ?? "", Number(count)]));
}

/** Trees of the caller's sessions go by their ids; any other name is the caller's own. */
async function keyOf(ctx: RpcContext, sessionId: string): Promise<string> {
  const { owner } = ctx.peer.identity;
  const isKept = isPlain(sessionId) && (await savedSession(ctx.deps, sessionId, owner));
  return isKept ? sessionId : prefixOf(owner) + sessionId;
}

/** Names of keys may hold anything: escaped, none of them is the beginning of another. */
const prefixOf = (owner: string): string => `${owner.replaceAll("%", "%25").replaceAll(":", "%3A")}:`;

/** An id that nobody could take for an owner's name with a name behind it: clients choose ids, too. */
const isPlain = (sessionId: string): boolean => !sessionId.includes(":");

/** The name of a tree's session as the caller gave it; undefined for trees of others. */
async function nameFor(ctx: RpcContext, key: string): Promise<string | undefined> {
  const { owner } = ctx.peer.identity;
  const prefix = prefixOf(owner);
  if (key.startsWith(prefix)) return key.slice(prefix.length);
  if (!isPlain(key)) return undefined;
  return (await savedSession(ctx.deps, key, owner)) ? key : undefined;
}

function asStorageFailure(cause: unknown): never {
  if (cause instanceof ServiceError) {
    const issues = [{ path: cause.param ?? "", message: cause.message }];
    throw new ServiceError("invalid_params", cause.message, { cause, details: { issues } });
  }
  throw new ServiceError(
    "storage_failed",
    "The spawn tree could not be saved. The server log has the details.",
    {
      cause,
    },
  );
}

function asPathError(cause: unknown): SpawnTree {
  if (!(cause instanceof ServiceError)) throw cause;
  if (cause.code === "not_found") throw noTree();
  throw new ServiceError("path_outside_root", cause.message, { param: "path", cause });
}

const noTree = () =>
  new ServiceError("not_found_or_unsupported", "There is no spawn tree at this path.", { param: "path" });
