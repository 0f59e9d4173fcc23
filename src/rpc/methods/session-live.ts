/** Methods about sessions that are open here: show, stop, steer, look at, leave. */
import { ServiceError } from "../../base/errors.ts";
import { activeSessions } from "../session/active-list.ts";
import type { RpcGroup } from "../connection/contract.ts";
import { openRequest } from "../events/question-payload.ts";
import { readEvents, replayFrom } from "../events/replay.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";
import { runningTurn } from "../../agent/run/run.ts";
import { liveSession } from "../session/address.ts";
import { describeLive, describeState, openQuestions, sessionInfo } from "../session/session-view.ts";
import { sessionUsage } from "../session/session-usage.ts";
import { runIdOf, turnIdOf } from "../events/turn-id.ts";
import { statusText } from "../session/status-text.ts";
import { countMessages, readMessages } from "../session/transcript.ts";
import { notifyViewers } from "../events/viewers.ts";

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
    const place = await liveSession(ctx, params.session_id);
    call.hold(place.id);
    const attached = await ctx.peer.attach(place.id, params.cursor ? { cursor: params.cursor } : {});
    const isReplay = params.cursor !== undefined;
    return describeLive(ctx.deps, place, { omitMessages: params.omit_messages, attached, isReplay });
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
    // What waits goes first, so that none of it begins when the turn ends.
    const cleared = params.clear_queue ? await clearQueue(deps, id) : undefined;
    const wanted =
      params.turn_id === undefined ? (await runningTurn(deps.store, id))?.runId : runIdOf(params.turn_id);
    const isOurs = wanted !== undefined && (await isOf(deps, wanted, id));
    const stopped = isOurs && (await deps.agent.runs.stop(wanted, "It was interrupted."));
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
      const what = "The session is being compressed, which cannot be steered. Submit the text as a prompt.";
      throw new ServiceError("steer_unsupported", what);
    }
    if (await ctx.deps.agent.runs.steer(running.runId, text)) return { status: "queued", text };
    const isOver = (await runningTurn(ctx.deps.store, id))?.runId !== running.runId;
    return { status: "rejected", text, reason: isOver ? "idle" : "unsupported" };
  },

  "session.history": async ({ params, ctx }) => {
    const { id } = await liveSession(ctx, params.session_id);
    const { store } = ctx.deps;
    const { before, limit } = params;
    const { messages, hasMore } = await readMessages(store, id, { before, limit });
    return { count: await countMessages(store, id), messages: [...messages], has_more: hasMore };
  },

  "session.usage": async ({ params, ctx }) => {
    const { row, live } = await liveSession(ctx, params.session_id);
    return sessionUsage(ctx.deps, { row, seed: live.seed });
  },

  "session.status": async ({ params, ctx }) => {
    const place = await liveSession(ctx, params.session_id);
    const state = await describeState(ctx.deps, place);
    return { output: statusText(state), state };
  },

  "session.events.since": async ({ params, ctx }) => {
    const { deps, peer } = ctx;
    const { id } = await liveSession(ctx, params.session_id);
    const lastSeen = params.since_seq ?? params.last_seen;
    const epoch = params.epoch ?? deps.store.epoch;
    const from = await replayFrom(deps.store, id, { epoch, last_seen: lastSeen });
    const open = await openQuestions(deps, id);
    const ids = new Set(open.map((ask) => ask.id));
    const { owner } = peer.identity;
    const { max_replay_events: events, max_replay_bytes: bytes } = deps.settings.limits;
    const told = from.truncated
      ? []
      : await readEvents(
          {
            store: deps.store,
            sessionId: id,
            after: from.after,
            info: () => sessionInfo(deps, id, owner),
            // What was asked after the look at the open ones is open too.
            isSettled: (questionId, seq) => seq <= from.latestSeq && !ids.has(questionId),
          },
          { events, bytes },
        );
    return {
      events: [...told],
      latest_seq: from.latestSeq,
      truncated: from.truncated,
      count: told.length,
      epoch: deps.store.epoch,
      open_requests: open.map(openRequest),
    };
  },
};

async function queuedRuns(deps: RpcDeps, sessionId: string): Promise<readonly string[]> {
  const rows = await deps.store.read
    .selectFrom("runs")
    .select("id")
    .where("session_id", "=", sessionId)
    .where("status", "=", "queued")
    .execute();
  return rows.map(({ id }) => id);
}

async function clearQueue(deps: RpcDeps, sessionId: string): Promise<number> {
  let cleared = 0;
  for (const runId of await queuedRuns(deps, sessionId)) {
    if (await deps.agent.runs.stop(runId, "The queue was cleared.")) cleared++;
  }
  return cleared;
}

/** Turns of other sessions are not this session's to stop. */
async function isOf(deps: RpcDeps, runId: string, sessionId: string): Promise<boolean> {
  const row = await deps.store.read
    .selectFrom("runs")
    .select("session_id")
    .where("id", "=", runId)
    .executeTakeFirst();
  return row?.session_id === sessionId;
}
