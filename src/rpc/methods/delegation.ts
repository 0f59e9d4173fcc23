import { parseInput } from "../../agent/run/run.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RpcGroup, RpcContext } from "../deps.ts";
import { namedSession, savedSession } from "../session/session.ts";

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
    const active = await deps.agent.runs.reads.activeSubagents({
      owner,
      ...(rootSessionId === undefined ? {} : { rootSessionId }),
    });
    const tools = await deps.agent.runs.reads.countToolCalls(active.map(({ subagentId }) => subagentId));
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
      // A server that shuts down starts no sub-agents.
      paused: deps.agent.runs.draining,
      max_spawn_depth: maxDepth,
      max_concurrent_children: maxConcurrent,
    };
  },

  "subagent.interrupt": async ({ params, ctx: { deps, peer } }) => {
    const { subagent_id: id, session_id: sessionId } = params;
    if (id === "") throw new ServiceError("missing_param", "subagent_id must name a sub-agent.");
    const row = await deps.agent.runs.reads.findOpenSubagent(id, peer.identity.owner);
    const isOther = sessionId !== undefined && row && parseInput(row).family?.root.sessionId !== sessionId;
    if (!row || isOther) return { found: false, subagent_id: id };
    const reason = "A host interrupted the sub-agent.";
    const below = await deps.agent.runs.reads.subagentsOf(id);
    // Children first: their parent then has nothing to wait for when it stops.
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

/** Trees of the caller's sessions are stored under the session id, all others under the caller's name. */
async function keyOf(ctx: RpcContext, sessionId: string): Promise<string> {
  const { owner } = ctx.peer.identity;
  const isKept = isPlain(sessionId) && (await savedSession(ctx.deps, sessionId, owner));
  return isKept ? sessionId : prefixOf(owner) + sessionId;
}

/** Key names may contain anything. Escaped, none is a prefix of another. */
const prefixOf = (owner: string): string => `${owner.replaceAll("%", "%25").replaceAll(":", "%3A")}:`;

/** Returns true for an id that cannot be confused with an owner's prefix. Clients may choose ids. */
const isPlain = (sessionId: string): boolean => !sessionId.includes(":");

/** Returns the session name of a tree as the caller gave it; undefined for trees of others. */
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

function asPathError(cause: unknown): never {
  if (!(cause instanceof ServiceError)) throw cause;
  if (cause.code === "not_found") throw noTree();
  throw new ServiceError("path_outside_root", cause.message, { param: "path", cause });
}

const noTree = () =>
  new ServiceError("not_found_or_unsupported", "No spawn tree exists at this path.", { param: "path" });
