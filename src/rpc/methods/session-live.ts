/** Methods about sessions that are open here: show, stop, steer, look at, leave. */
import { ServiceError } from "../../base/errors.ts";
import { activeSessions } from "../session/active-list.ts";
import type { RpcGroup } from "../connection/contract.ts";
import { openRequest } from "../events/question-payload.ts";
import { readEvents, replayFrom } from "../events/replay.ts";
import type { RpcContext, RpcRoom } from "../deps.ts";
import { runningTurn } from "../../agent/run/running.ts";
import { liveSession } from "../session/address.ts";
import { describeLive, describeState, openAsks, sessionInfo } from "../session/session-view.ts";
import { sessionUsage } from "../session/session-usage.ts";
import { runIdOf, turnIdOf } from "../events/turn-id.ts";
import { statusText } from "../session/status-text.ts";
import { countMessages, readMessages } from "../session/transcript.ts";
import { tellViewers } from "../events/viewers.ts";

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
  "session.active_list": async ({ params, ctx: { room, peer } }) => ({
    sessions: [...(await activeSessions(room, peer.identity.owner, params.current_session_id))],
  }),

  "session.activate": async (call) => {
    const { params, ctx } = call;
    const place = await liveSession(ctx, params.session_id);
    call.hold(place.id);
    const attached = await ctx.peer.attach(place.id, params.cursor ? { cursor: params.cursor } : {});
    const isReplay = params.cursor !== undefined;
    return describeLive(ctx.room, place, { omitMessages: params.omit_messages, attached, isReplay });
  },

  "session.close": ({ params: { session_id: id }, ctx: { room, peer } }) => {
    const closed = room.agent.live.close(id, peer.identity.owner);
    if (closed) {
      const payload = { reason: "closed" };
      tellViewers(room, id, { type: "session.closed", session_id: id, ts: room.clock.now(), payload });
      for (const viewer of room.peers) viewer.detach(id);
    }
    return { closed };
  },

  "session.detach": ({ params, ctx: { peer } }) => ({ detached: peer.detach(params.session_id) }),

  "session.interrupt": async ({ params, ctx }) => {
    const { room } = ctx;
    const { id } = await liveSession(ctx, params.session_id);
    // What waits goes first, so that none of it begins when the turn ends.
    const cleared = params.clear_queue ? await clearQueue(room, id) : undefined;
    const wanted =
      params.turn_id === undefined ? (await runningTurn(room.store, id))?.runId : runIdOf(params.turn_id);
    const isOurs = wanted !== undefined && (await isOf(room, wanted, id));
    const stopped = isOurs && (await room.agent.turns.stop(wanted, "It was interrupted."));
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
    const running = await runningTurn(ctx.room.store, id);
    const isOther = params.turn_id !== undefined && runIdOf(params.turn_id) !== running?.runId;
    if (!running || isOther) return { status: "rejected", text, reason: "idle" };
    if (!running.isTurn) {
      const what = "The session is being compressed, which cannot be steered. Submit the text as a prompt.";
      throw new ServiceError("steer_unsupported", what);
    }
    if (await ctx.room.agent.turns.steer(running.runId, text)) return { status: "queued", text };
    const isOver = (await runningTurn(ctx.room.store, id))?.runId !== running.runId;
    return { status: "rejected", text, reason: isOver ? "idle" : "unsupported" };
  },

  "session.history": async ({ params, ctx }) => {
    const { id } = await liveSession(ctx, params.session_id);
    const { store } = ctx.room;
    const { before, limit } = params;
    const { messages, hasMore } = await readMessages(store, id, { before, limit });
    return { count: await countMessages(store, id), messages: [...messages], has_more: hasMore };
  },

  "session.usage": async ({ params, ctx }) => {
    const { row, live } = await liveSession(ctx, params.session_id);
    return sessionUsage(ctx.room, { row, seed: live.seed });
  },

  "session.status": async ({ params, ctx }) => {
    const place = await liveSession(ctx, params.session_id);
    const state = await describeState(ctx.room, place);
    return { output: statusText(state), state };
  },

  "session.events.since": async ({ params, ctx }) => {
    const { room, peer } = ctx;
    const { id } = await liveSession(ctx, params.session_id);
    const lastSeen = params.since_seq ?? params.last_seen;
    const epoch = params.epoch ?? room.store.epoch;
    const from = await replayFrom(room.store, id, { epoch, last_seen: lastSeen });
    const open = await openAsks(room, id);
    const ids = new Set(open.map((ask) => ask.id));
    const { owner } = peer.identity;
    const { max_replay_events: events, max_replay_bytes: bytes } = room.settings.limits;
    const told = from.truncated
      ? []
      : await readEvents(
          {
            store: room.store,
            sessionId: id,
            after: from.after,
            info: () => sessionInfo(room, id, owner),
            // What was asked after the look at the open ones is open too.
            isSettled: (askId, seq) => seq <= from.latestSeq && !ids.has(askId),
          },
          { events, bytes },
        );
    return {
      events: [...told],
      latest_seq: from.latestSeq,
      truncated: from.truncated,
      count: told.length,
      epoch: room.store.epoch,
      open_requests: open.map(openRequest),
    };
  },
};

async function queuedRuns(room: RpcRoom, sessionId: string): Promise<readonly string[]> {
  const rows = await room.store.read
    .selectFrom("runs")
    .select("id")
    .where("session_id", "=", sessionId)
    .where("status", "=", "queued")
    .execute();
  return rows.map(({ id }) => id);
}

async function clearQueue(room: RpcRoom, sessionId: string): Promise<number> {
  let cleared = 0;
  for (const runId of await queuedRuns(room, sessionId)) {
    if (await room.agent.turns.stop(runId, "The queue was cleared.")) cleared++;
  }
  return cleared;
}

/** Turns of other sessions are not this session's to stop. */
async function isOf(room: RpcRoom, runId: string, sessionId: string): Promise<boolean> {
  const row = await room.store.read
    .selectFrom("runs")
    .select("session_id")
    .where("id", "=", runId)
    .executeTakeFirst();
  return row?.session_id === sessionId;
}
