/** Methods about sessions that are open here: show, stop, steer, look at, leave. */
import { ServiceError } from "../../base/errors.ts";
import type { RpcGroup } from "../contract.ts";
import { openRequest } from "../question-payload.ts";
import { readEvents, replayFrom } from "../replay.ts";
import type { RpcContext, RpcRoom } from "../room.ts";
import { liveSession, savedSession } from "../session-place.ts";
import {
  describeLive,
  describeState,
  openAsks,
  sessionInfo,
  sessionUsage,
  statusOf,
  titleOf,
} from "../session-view.ts";
import { runIdOf, turnIdOf } from "../turn-id.ts";
import { statusText } from "../status-text.ts";
import { readMessages } from "../transcript.ts";
import { tellViewers } from "../viewers.ts";

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
  "session.active_list": async ({ params, ctx: { room, peer } }) => {
    const { owner } = peer.identity;
    const { sessions: saved } = await room.agent.sessions.list({ owner, limit: 200 });
    const previews = new Map(saved.map(({ id, preview }) => [id, preview]));
    const rows = room.agent.live.list(owner).map(async (live) => {
      const row = await savedSession(room, live.id, owner);
      const known = { row, seed: live.seed };
      return {
        id: live.id,
        session_key: live.id,
        title: titleOf(known),
        preview: previews.get(live.id) ?? "",
        model: sessionUsage(room, known).model,
        status: statusOf(row, row ? await openAsks(room, live.id) : []),
        current: live.id === params.current_session_id,
        started_at: (row?.created_at ?? live.openedAtMs) / 1000,
        last_active: Math.max(row?.updated_at ?? 0, live.lastActiveAtMs) / 1000,
        message_count: row?.last_message ?? 0,
      };
    });
    return { sessions: await Promise.all(rows) };
  },

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
    const running = room.agent.turns.runningIn(id);
    const wanted = params.turn_id === undefined ? running : runIdOf(params.turn_id);
    // What waits goes first, so that none of it begins when the turn ends.
    const cleared = params.clear_queue ? await clearQueue(room, id) : undefined;
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
    const running = ctx.room.agent.turns.runningIn(id);
    const isOther = params.turn_id !== undefined && runIdOf(params.turn_id) !== running;
    if (running === undefined || isOther) return { status: "rejected", text, reason: "idle" };
    if (await ctx.room.agent.turns.steer(running, text)) return { status: "queued", text };
    const isOver = ctx.room.agent.turns.runningIn(id) !== running;
    return { status: "rejected", text, reason: isOver ? "idle" : "unsupported" };
  },

  "session.history": async ({ params, ctx }) => {
    const { id, row } = await liveSession(ctx, params.session_id);
    const { before, limit } = params;
    const { messages, hasMore } = await readMessages(ctx.room.store, id, { before, limit });
    return { count: row?.last_message ?? 0, messages: [...messages], has_more: hasMore };
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
    const page = from.truncated
      ? { events: [] }
      : await readEvents(
          {
            store: room.store,
            sessionId: id,
            after: from.after,
            info: () => sessionInfo(room, id, owner),
            isSettled: (askId) => !ids.has(askId),
          },
          { events, bytes },
        );
    return {
      events: [...page.events],
      latest_seq: from.latestSeq,
      truncated: from.truncated,
      count: page.events.length,
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
