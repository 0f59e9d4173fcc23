/** Methods about open sessions: show, stop, steer, follow, close. */
import { ServiceError } from "../../base/errors.ts";
import type { RpcGroup, RpcContext, RpcDeps } from "../deps.ts";
import { openRequest } from "../events/questions.ts";
import { readEvents, replayFrom } from "../events/subscriptions.ts";
import { runningTurn } from "../../agent/run/run.ts";
import {
  liveSession,
  describeLive,
  describeState,
  openQuestions,
  sessionInfo,
  sessionUsage,
  modelRef,
  statusOf,
  titleOf,
} from "../session/session.ts";
import { runIdOf, turnIdOf } from "../events/payloads.ts";
import { readMessages } from "../session/transcript.ts";
import { notifyViewers } from "../events/hub.ts";
import type { ActiveRow, SessionState } from "../../../generated/gateway/types/types.gen.ts";
import { formatModel } from "../../agent/model.ts";

type Names =
  | "session.active_list"
  | "session.activate"
  | "session.close"
  | "session.detach"
  | "session.interrupt"
  | "session.steer"
  | "session.history"
  | "session.usage"
  | "session.status"
  | "session.events.since";

export const sessionLiveMethods: RpcGroup<Names, RpcContext> = {
  "session.active_list": async ({ params, ctx: { deps, peer } }) => ({
    sessions: [...(await activeSessions(deps, peer.identity.owner, params.current_session_id))],
  }),

  "session.activate": async (call) => {
    const { params, ctx } = call;
    const session = await liveSession(ctx, params.session_id);
    call.hold(session.id);
    const attached = await ctx.peer.attach(session.id, params.cursor ? { cursor: params.cursor } : {});
    const isReplay = params.cursor !== undefined;
    const view = await describeLive(ctx.deps, session, {
      omitMessages: params.omit_messages,
      attached,
      isReplay,
    });
    await ctx.peer.showOpen(session.id, { missingOnly: isReplay });
    return view;
  },

  "session.close": ({ params: { session_id: id }, ctx: { deps, peer } }) => {
    const closed = deps.agent.live.close(id, peer.identity.owner);
    if (closed) {
      const payload = { reason: "closed" };
      notifyViewers(deps, id, { type: "session.closed", session_id: id, ts: deps.clock.now(), payload });
      for (const viewer of deps.peers) viewer.detach(id);
    }
    return { closed };
  },

  "session.detach": ({ params, ctx: { peer } }) => ({ detached: peer.detach(params.session_id) }),

  "session.interrupt": async ({ params, ctx }) => {
    const { deps } = ctx;
    const { id } = await liveSession(ctx, params.session_id);
    // Queued runs first, so that none of them starts when the turn ends.
    const cleared = params.clear_queue ? await clearQueue(deps, id) : undefined;
    const wanted =
      params.turn_id === undefined ? (await runningTurn(deps.store, id))?.runId : runIdOf(params.turn_id);
    const isOurs = wanted !== undefined && (await isOf(deps, wanted, id));
    const stopped = isOurs && (await deps.agent.runs.stop(wanted, "The turn was interrupted."));
    return {
      status: stopped ? "interrupted" : "not_interrupted",
      ...(stopped ? { turn_id: turnIdOf(wanted) } : {}),
      ...(cleared === undefined ? {} : { cleared }),
    };
  },

  "session.steer": async ({ params, ctx }) => {
    const { text } = params;
    const { id } = await liveSession(ctx, params.session_id);
    if (text.trim() === "") throw new ServiceError("bad_value", "text must not be empty.", { param: "text" });
    const running = await runningTurn(ctx.deps.store, id);
    const isOther = params.turn_id !== undefined && runIdOf(params.turn_id) !== running?.runId;
    if (!running || isOther) return { status: "rejected", text, reason: "idle" };
    if (!running.isTurn) {
      const what = "The session is being compressed and cannot be steered. Submit the text as a prompt.";
      throw new ServiceError("steer_unsupported", what);
    }
    if (await ctx.deps.agent.runs.steer(running.runId, text)) return { status: "queued", text };
    const isOver = (await runningTurn(ctx.deps.store, id))?.runId !== running.runId;
    return { status: "rejected", text, reason: isOver ? "idle" : "unsupported" };
  },

  "session.history": async ({ params, ctx }) => {
    const { id } = await liveSession(ctx, params.session_id);
    const { before, limit } = params;
    const { messages, hasMore } = await readMessages(ctx.deps, id, { before, limit });
    return {
      count: await ctx.deps.agent.sessions.reads.countMessages(id),
      messages: [...messages],
      has_more: hasMore,
    };
  },

  "session.usage": async ({ params, ctx }) => {
    const { row, live } = await liveSession(ctx, params.session_id);
    return sessionUsage(ctx.deps, { row, seed: live.seed });
  },

  "session.status": async ({ params, ctx }) => {
    const session = await liveSession(ctx, params.session_id);
    const state = await describeState(ctx.deps, session);
    return { output: statusText(state), state };
  },

  "session.events.since": async ({ params, ctx }) => {
    const { deps, peer } = ctx;
    const { id } = await liveSession(ctx, params.session_id);
    const lastSeen = params.since_seq ?? params.last_seen;
    const epoch = params.epoch ?? deps.store.epoch;
    const from = await replayFrom(deps, id, { epoch, last_seen: lastSeen });
    const open = await openQuestions(deps, id);
    const ids = new Set(open.map((question) => question.id));
    const { owner } = peer.identity;
    const { max_replay_events: events, max_replay_bytes: bytes } = deps.settings.limits;
    const replayed = from.truncated
      ? []
      : await readEvents(
          {
            deps,
            sessionId: id,
            after: from.after,
            info: () => sessionInfo(deps, id, owner),
            // Questions asked after this check are open, too.
            isSettled: (questionId, seq) => seq <= from.latestSeq && !ids.has(questionId),
          },
          { events, bytes },
        );
    return {
      events: [...replayed],
      latest_seq: from.latestSeq,
      truncated: from.truncated,
      count: replayed.length,
      epoch: deps.store.epoch,
      open_requests: open.map(openRequest),
    };
  },
};

async function clearQueue(deps: RpcDeps, sessionId: string): Promise<number> {
  let cleared = 0;
  for (const runId of await deps.agent.runs.reads.queuedIn(sessionId)) {
    if (await deps.agent.runs.stop(runId, "The queue was cleared.")) cleared++;
  }
  return cleared;
}

/** Returns true when the run belongs to the session. */
async function isOf(deps: RpcDeps, runId: string, sessionId: string): Promise<boolean> {
  const row = await deps.store.find("runs", { id: runId });
  return row?.session_id === sessionId;
}

/**
 * Returns the open sessions of an owner, in the order in which they were opened. Hosts poll this about every
 * second, so it takes a constant number of statements.
 */
async function activeSessions(
  deps: RpcDeps,
  owner: string,
  currentId: string | undefined,
): Promise<readonly ActiveRow[]> {
  const open = deps.agent.live.list(owner);
  await deps.agent.settle(open.map(({ id }) => id));
  const saved = await deps.agent.sessions.reads.byId(open.map(({ id }) => id));
  const ids = [...saved.keys()];
  const [previews, counts, asking] = await Promise.all([
    deps.agent.sessions.reads.previewsOf(ids),
    deps.agent.sessions.reads.messageCounts(ids),
    deps.agent.sessions.reads.asking(ids),
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

/** Returns the state of a session as lines for users. */
function statusText(state: SessionState): string {
  return [
    `Session   ${state.session_id}`,
    `Title     ${state.title === "" ? "(none)" : state.title}`,
    `Model     ${state.model} (${state.provider})`,
    `Directory ${state.cwd}`,
    `State     ${state.running ? "running" : "idle"}, ${state.queue_length} queued, ${state.pending_requests} open questions`,
    `Created   ${new Date(state.created_at * 1000).toISOString()}`,
    `Active    ${new Date(state.last_active * 1000).toISOString()}`,
    `Tokens    ${state.usage.total}`,
  ].join("\n");
}
