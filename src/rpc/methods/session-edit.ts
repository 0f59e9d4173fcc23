/** Methods that change the conversation of a session that is open here. */
import { saveSession } from "../../agent/session/sessions.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcGroup } from "../connection/contract.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";
import { liveSession, savedSession, type SessionPlace } from "../session/address.ts";
import { sessionUsage } from "../session/session-usage.ts";
import { describeInfo, titleOf } from "../session/session-view.ts";
import { countMessages, messageSeq, readMessages } from "../session/transcript.ts";
import { notifyChanged } from "../events/viewers.ts";

type Names = "session.compress" | "session.branch" | "session.undo" | "session.title";

export const sessionEditMethods: RpcGroup<Names, RpcContext> = {
  "session.compress": async ({ params, ctx, signal }) => {
    const { deps } = ctx;
    const place = await liveSession(ctx, params.session_id);
    const focus = params.focus_topic;
    const done = place.row
      ? await deps.agent
          .compress(place.id, place.owner, { ...(focus === undefined ? {} : { focus }), signal })
          .catch(asCompressFailure)
      : { ...NOTHING, note: "Nothing was said yet." };
    const row = await savedSession(deps, place.id, place.owner);
    const info = await describeInfo(deps, { row, seed: place.live.seed });
    const { messages } = await readMessages(deps.store, place.id);
    const status = done.status === "failed" ? "aborted" : done.status;
    return {
      status,
      removed: status === "compressed" ? Math.max(0, done.beforeMessages - done.afterMessages) : 0,
      before_messages: done.beforeMessages,
      after_messages: done.afterMessages,
      before_tokens: done.beforeTokens,
      after_tokens: done.afterTokens,
      summary: summaryOf(status, done),
      usage: await sessionUsage(deps, { row, seed: place.live.seed }),
      info,
      messages: [...messages],
    };
  },

  "session.branch": async (call) => {
    const { params, ctx } = call;
    const { deps, peer } = ctx;
    const place = await liveSession(ctx, params.session_id);
    const { name, count, message_id: messageId } = params;
    if (!place.row) throw new ServiceError("nothing_to_branch", "The session has no messages yet.");
    const row = await deps.agent.sessions.branch(place.id, place.owner, {
      ...(name === undefined || name.trim() === "" ? {} : { title: name }),
      ...(count === undefined ? {} : { count }),
      ...(messageId === undefined ? {} : { throughSeq: messageSeq(messageId, "message_id") }),
    });
    await openBranch(deps, row);
    notifyChanged(deps, place.owner);
    call.hold(row.id);
    await peer.attach(row.id);
    const { messages } = await readMessages(deps.store, row.id);
    return {
      session_id: row.id,
      stored_session_id: row.id,
      title: row.title ?? "",
      parent: place.id,
      message_count: await countMessages(deps.store, row.id),
      messages: [...messages],
      info: await describeInfo(deps, { row, seed: undefined }),
    };
  },

  "session.undo": async ({ params, ctx }) => {
    const { id, owner, row } = await liveSession(ctx, params.session_id);
    if (!row) return { removed: 0 };
    try {
      return { removed: (await ctx.deps.agent.sessions.undo(id, owner)).removed };
    } catch (error) {
      if (error instanceof ServiceError && error.code === "nothing_to_undo") return { removed: 0 };
      throw error;
    }
  },

  "session.title": async ({ params, ctx }) => {
    const place = await liveSession(ctx, params.session_id);
    const { title } = params;
    const stored = title === undefined ? titleOf({ row: place.row, seed: place.live.seed }) : undefined;
    return {
      title: stored ?? (await rename(ctx.deps, place, title ?? "")),
      session_key: place.id,
      pending: false,
    };
  },
};

/** A branch that cannot be opened is none. */
async function openBranch(deps: RpcDeps, { id, owner, source }: SessionRow): Promise<void> {
  try {
    deps.agent.live.open({ id, owner, seed: { source } });
  } catch (error) {
    await deps.agent.sessions.delete(id, owner);
    throw error;
  }
}

/** A session that nobody prompted yet is saved with its name. */
async function rename(deps: RpcDeps, place: SessionPlace, title: string): Promise<string> {
  if (title.trim() === "")
    throw new ServiceError("title_required", "title must not be empty.", { param: "title" });
  await saveSession(deps.store, place.live);
  const stored = await deps.agent.sessions.rename(place.id, place.owner, title);
  notifyChanged(deps, place.owner);
  return stored;
}

type Compressed = Awaited<ReturnType<RpcDeps["agent"]["compress"]>>;

const NOTHING = {
  status: "noop" as const,
  beforeMessages: 0,
  afterMessages: 0,
  beforeTokens: 0,
  afterTokens: 0,
};

function summaryOf(status: "compressed" | "noop" | "aborted", done: Compressed) {
  const headlines = {
    compressed: `Compressed: ${done.beforeMessages} messages are ${done.afterMessages} now.`,
    noop: "There is nothing to compress.",
    aborted: "The conversation stays as it is.",
  };
  return {
    headline: headlines[status],
    token_line: `About ${done.beforeTokens} tokens before, ${done.afterTokens} now.`,
    note: done.note ?? null,
    noop: status !== "compressed",
  };
}

function asCompressFailure(error: unknown): never {
  if (error instanceof ServiceError && error.code === "provider_error") {
    throw new ServiceError("compress_failed", error.message, { cause: error });
  }
  throw error;
}
