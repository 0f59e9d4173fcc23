/** Methods that ask the agent something. */
import type { BusyMode } from "../../agent/deps.ts";
import type { Prompt, Submitted } from "../../agent/run/prompt.ts";
import { saveSession } from "../../agent/session/sessions.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { RpcCall, RpcGroup } from "../connection/contract.ts";
import { takeSentMode } from "../prompt/directive.ts";
import { attachPlaces } from "../prompt/image-attach.ts";
import { promptOf } from "../prompt/prompt-content.ts";
import { putBackImages, takeImages, type QueuedImage } from "../prompt/queued-images.ts";
import type { RpcContext, RpcDeps } from "../deps.ts";
import { liveSession, type SessionPlace } from "../session/address.ts";
import { taskIdOf, turnIdOf } from "../events/turn-id.ts";
import { findTurn, onceFor, RepeatedTurn, type MadeTurn, type TurnOnce } from "../prompt/turn-once.ts";
import { truncateBefore } from "../prompt/truncate.ts";
import { notifyChanged } from "../events/viewers.ts";

type Call = RpcCall<"prompt.submit", RpcContext>;
type Answer = Awaited<ReturnType<RpcGroup<"prompt.submit", RpcContext>["prompt.submit"]>>;

export const promptMethods: RpcGroup<"prompt.submit" | "prompt.background", RpcContext> = {
  "prompt.submit": async (call) => {
    const { params, ctx } = call;
    const place = await liveSession(ctx, params.session_id);
    const once = onceFor(place, params);
    const known = once && (await findTurn(ctx.deps.store, once));
    // Held before anything begins: the answer leaves before `message.start`.
    call.hold(place.id);
    await ctx.peer.attach(place.id);
    if (known !== undefined) return repeated(ctx.deps, known);
    const waiting = takeImages(place.live);
    try {
      return await submit(call, place, { waiting, once });
    } catch (error) {
      putBackImages(place.live, waiting);
      if (error instanceof RepeatedTurn) return repeated(ctx.deps, error.made);
      throw error;
    }
  },

  "prompt.background": async ({ params, ctx }) => {
    const { id, owner, live, row } = await liveSession(ctx, params.session_id);
    if (params.text.trim() === "") throw textRequired();
    await saveSession(ctx.deps.store, live);
    if (!row) notifyChanged(ctx.deps, owner);
    const { runId } = await ctx.deps.agent.background(id, owner, params.text);
    return { task_id: taskIdOf(runId) };
  },
};

interface Riding {
  /** Images that were attached before. */
  readonly waiting: readonly QueuedImage[];
  readonly once: TurnOnce | undefined;
}

async function submit({ params, ctx }: Call, place: SessionPlace, riding: Riding): Promise<Answer> {
  const { deps } = ctx;
  const { settings, switches } = deps.agent.deps;
  const message = await promptOf(attachPlaces(ctx, place), { ...params, waiting: riding.waiting });
  if (message.text.trim() === "" && !message.attachments?.length) throw textRequired();
  const told = takeSentMode(ctx.peer, { sessionId: place.id, text: params.text });
  const asked = params.queued === true ? "queue" : (params.when_busy ?? told);
  const whenBusy: BusyMode = asked ?? switches.whenBusy ?? settings.whenBusy;
  // The host keeps its connection open and is told when the turn begins: at the limit of all runs its prompt waits.
  const slot = whenBusy === "reject" ? {} : { slot: { group: "rpc" } };
  const submitted = await deps.agent.runs.submit({
    address: { owner: place.owner, id: place.id },
    seed: place.live.seed,
    kind: "run",
    input: { prompt: [message], settings: {}, answerable: true, isDetached: true, ...slot },
    whenBusy,
    ...recordedWith(deps.store, params, riding.once),
  });
  if (!place.row) notifyChanged(deps, place.owner);
  return answerOf(submitted);
}

/** What is written with the prompt or not at all: its name, and that it takes the place of others. */
function recordedWith(
  store: Store,
  params: Call["params"],
  once: TurnOnce | undefined,
): Pick<Prompt, "alsoRecord" | "alsoSteer"> {
  const { truncate_before_user_ordinal: ordinal, confirm_truncate: isConfirmed = false } = params;
  if (ordinal !== undefined) {
    return {
      alsoRecord: async (tx, { id: runId, session_id: sessionId }) => {
        await once?.record(tx, store, { runId, isSteer: false });
        await truncateBefore(tx, store, { sessionId, ordinal, isConfirmed });
      },
    };
  }
  if (!once) return {};
  return {
    alsoRecord: (tx, { id: runId }) => once.record(tx, store, { runId, isSteer: false }),
    alsoSteer: (tx, runId) => once.record(tx, store, { runId, isSteer: true }),
  };
}

function answerOf({ status, runId, queuePosition }: Submitted): Answer {
  const turn_id = turnIdOf(runId);
  if (status === "running") return { status: "streaming", turn_id };
  if (status === "steered") return { status, turn_id };
  return {
    status: "queued",
    turn_id,
    ...(queuePosition === undefined ? {} : { queue_position: queuePosition }),
  };
}

/** The turn that this client_turn_id made before. */
async function repeated({ store }: RpcDeps, { runId, isSteer }: MadeTurn): Promise<Answer> {
  const turn_id = turnIdOf(runId);
  if (isSteer) return { status: "steered", turn_id, duplicate: true };
  const run = await store.read.selectFrom("runs").select("status").where("id", "=", runId).executeTakeFirst();
  return { status: run?.status === "queued" ? "queued" : "streaming", turn_id, duplicate: true };
}

function textRequired(): ServiceError {
  return new ServiceError("text_required", "text must not be empty.", { param: "text" });
}
