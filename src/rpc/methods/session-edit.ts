import { saveSession } from "../../agent/session/sessions.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcGroup, RpcContext, RpcDeps } from "../deps.ts";
import {
  liveSession,
  savedSession,
  type OpenSession,
  sessionUsage,
  describeInfo,
  titleOf,
} from "../session/session.ts";
import { messageSeq, readMessages } from "../session/transcript.ts";
import { saveConversation } from "../session/saved-files.ts";
import { notifyChanged } from "../events/hub.ts";

type Names = "session.save" | "session.compress" | "session.branch" | "session.undo" | "session.title";

export const sessionEditMethods: RpcGroup<Names, RpcContext> = {
  "session.save": async ({ params, ctx }) => ({
    file: await saveConversation(ctx.deps, await liveSession(ctx, params.session_id)),
  }),

  "session.compress": async ({ params, ctx, signal }) => {
    const { deps } = ctx;
    const session = await liveSession(ctx, params.session_id);
    const focus = params.focus_topic;
    const done = session.row
      ? await deps.agent
          .compress(session.id, session.owner, { ...(focus === undefined ? {} : { focus }), signal })
          .catch(asCompressFailure)
      : { ...NOTHING, note: "The session has no messages yet." };
    const row = await savedSession(deps, session.id, session.owner);
    const info = await describeInfo(deps, { row, seed: session.live.seed });
    const { messages } = await readMessages(deps, session.id);
    const status = done.status === "failed" ? "aborted" : done.status;
    return {
      status,
      removed: status === "compressed" ? Math.max(0, done.beforeMessages - done.afterMessages) : 0,
      before_messages: done.beforeMessages,
      after_messages: done.afterMessages,
      before_tokens: done.beforeTokens,
      after_tokens: done.afterTokens,
      summary: summaryOf(status, done),
      usage: await sessionUsage(deps, { row, seed: session.live.seed }),
      info,
      messages: [...messages],
    };
  },

  "session.branch": async (call) => {
    const { params, ctx } = call;
    const { deps, peer } = ctx;
    const session = await liveSession(ctx, params.session_id);
    const { name, count, message_id: messageId } = params;
    if (!session.row) throw new ServiceError("nothing_to_branch", "The session has no messages yet.");
    const row = await deps.agent.sessions.branch(session.id, session.owner, {
      ...(name === undefined || name.trim() === "" ? {} : { title: name }),
      ...(count === undefined ? {} : { count }),
      ...(messageId === undefined ? {} : { throughSeq: messageSeq(messageId, "message_id") }),
    });
    await openBranch(deps, row);
    notifyChanged(deps, session.owner);
    call.hold(row.id);
    await peer.attach(row.id);
    const { messages } = await readMessages(deps, row.id);
    return {
      session_id: row.id,
      stored_session_id: row.id,
      title: row.title ?? "",
      parent: session.id,
      message_count: await deps.agent.sessions.reads.countMessages(row.id),
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
    const session = await liveSession(ctx, params.session_id);
    const { title } = params;
    const stored = title === undefined ? titleOf({ row: session.row, seed: session.live.seed }) : undefined;
    return {
      title: stored ?? (await rename(ctx.deps, session, title ?? "")),
      session_key: session.id,
      pending: false,
    };
  },
};

/** Deletes a branch that cannot be opened. */
async function openBranch(deps: RpcDeps, { id, owner, source }: SessionRow): Promise<void> {
  try {
    deps.agent.live.open({ id, owner, seed: { source } });
  } catch (error) {
    await deps.agent.sessions.delete(id, owner);
    throw error;
  }
}

/** Renames a session. One that was never prompted is saved first. */
async function rename(deps: RpcDeps, session: OpenSession, title: string): Promise<string> {
  if (title.trim() === "")
    throw new ServiceError("title_required", "title must not be empty.", { param: "title" });
  await saveSession(deps.store, session.live);
  const stored = await deps.agent.sessions.rename(session.id, session.owner, title);
  notifyChanged(deps, session.owner);
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
    compressed: `Compressed ${done.beforeMessages} messages to ${done.afterMessages}.`,
    noop: "Nothing to compress.",
    aborted: "The conversation is unchanged.",
  };
  return {
    headline: headlines[status],
    token_line: `About ${done.beforeTokens} tokens before, ${done.afterTokens} now.`,
    note: done.note ?? null,
    noop: status !== "compressed",
    aborted: status === "aborted",
    fallback_used: false,
  };
}

function asCompressFailure(error: unknown): never {
  if (error instanceof ServiceError && error.code === "provider_error") {
    throw new ServiceError("compress_failed", error.message, { cause: error });
  }
  throw error;
}
