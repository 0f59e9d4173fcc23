/** Methods that ask the agent something. */
import type { BusyMode } from "../../agent/parts.ts";
import type { Prompt, Submitted } from "../../agent/prompt.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RpcCall, RpcGroup } from "../contract.ts";
import { promptOf } from "../prompt-content.ts";
import { forgetImages } from "../queued-images.ts";
import type { RpcContext, RpcRoom } from "../room.ts";
import { liveSession, saveSession, type SessionPlace } from "../session-place.ts";
import { taskIdOf, turnIdOf } from "../turn-id.ts";
import { findTurn, onceFor, RepeatedTurn } from "../turn-once.ts";
import { truncateBefore } from "../truncate.ts";
import { tellChanged } from "../viewers.ts";

type Call = RpcCall<"prompt.submit", RpcContext>;
type Answer = Awaited<ReturnType<RpcGroup<"prompt.submit", RpcContext>["prompt.submit"]>>;

export const promptMethods: RpcGroup<"prompt.submit" | "prompt.background", RpcContext> = {
  "prompt.submit": async (call) => {
    const { params, ctx } = call;
    const place = await liveSession(ctx, params.session_id);
    const once = onceFor(place, params);
    const known = once && (await findTurn(ctx.room.store, once));
    // Held before anything begins: the answer leaves before `message.start`.
    call.hold(place.id);
    await ctx.peer.attach(place.id);
    if (known !== undefined) return repeated(ctx.room, known);
    try {
      return await submit(call, place);
    } catch (error) {
      if (error instanceof RepeatedTurn) return repeated(ctx.room, error.runId);
      throw error;
    }
  },

  "prompt.background": async ({ params, ctx }) => {
    const { id, owner, live } = await liveSession(ctx, params.session_id);
    if (params.text.trim() === "") throw textRequired();
    await saveSession(ctx.room, live);
    const { runId } = await ctx.room.agent.background(id, owner, params.text);
    return { task_id: taskIdOf(runId) };
  },
};

async function submit({ params, ctx }: Call, place: SessionPlace): Promise<Answer> {
  const { room } = ctx;
  const message = await promptOf(room, place, params);
  if (message.text.trim() === "" && !message.attachments?.length) throw textRequired();
  if (params.truncate_before_user_ordinal !== undefined) {
    await truncateBefore(room, place, {
      ordinal: params.truncate_before_user_ordinal,
      isConfirmed: params.confirm_truncate === true,
    });
  }
  const asked = params.queued === true ? "queue" : params.when_busy;
  const whenBusy: BusyMode = asked ?? room.agent.parts.settings.whenBusy;
  const once = onceFor(place, params);
  const prompt: Prompt = {
    address: { owner: place.owner, id: place.id },
    seed: place.live.seed,
    kind: "run",
    input: { prompt: [message], settings: {}, answerable: true, isDetached: true },
    whenBusy,
    ...(once && whenBusy !== "steer" ? { alsoRecord: (tx, run) => once.record(tx, room.store, run.id) } : {}),
  };
  const submitted = await room.agent.turns.submit(prompt);
  // With a prompt that steers nothing may be recorded, as there need not be a run.
  if (whenBusy === "steer") await once?.keep(room.store, submitted.runId);
  forgetImages(place.live);
  if (!place.row) tellChanged(room, place.owner);
  return answerOf(submitted);
}

function answerOf({ status, runId, queuePosition }: Submitted): Answer {
  const turn_id = turnIdOf(runId);
  if (status === "steered") return { status: "steered", turn_id };
  if (status === "running") return { status: "streaming", turn_id };
  return {
    status: "queued",
    turn_id,
    ...(queuePosition === undefined ? {} : { queue_position: queuePosition }),
  };
}

/** The turn that this client_turn_id made before. */
async function repeated({ store }: RpcRoom, runId: string): Promise<Answer> {
  const run = await store.read.selectFrom("runs").select("status").where("id", "=", runId).executeTakeFirst();
  const status = run?.status === "queued" ? "queued" : "streaming";
  return { status, turn_id: turnIdOf(runId), duplicate: true };
}

function textRequired(): ServiceError {
  return new ServiceError("text_required", "text must not be empty.", { param: "text" });
}
