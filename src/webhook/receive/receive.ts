import { toServiceError } from "../../base/errors.ts";
import type { RateRefusal } from "../../base/rate-limiter.ts";
import { admit } from "./admit.ts";
import { duplicate, refuse, type WebhookAnswer } from "./answer.ts";
import { deliverDirect } from "../deliveries/direct.ts";
import { judge, unjudged, type BelievedRequest, type Judged } from "./evaluate.ts";
import type { ReceiverLog } from "../deliveries/receiver-log.ts";
import type { WebhookRoom } from "../deps.ts";
import { verifySignature } from "./signature.ts";
import type { StageVerdict } from "./stage.ts";

/** A request with its body read, of which nobody knows yet who sent it. */
export type ArrivedRequest = Omit<BelievedRequest, "once">;

/** Believed when its signature is good, judged, and admitted when it goes all the way. */
export async function receive(
  room: WebhookRoom,
  arrived: ArrivedRequest,
  log: ReceiverLog,
): Promise<WebhookAnswer> {
  const { route } = arrived;
  const nowMs = room.clock.now();
  if (route.secrets.length === 0) return refuse("no_secret");
  const proof = proofOf(arrived, nowMs);
  if ("why" in proof) return { ...refuse("invalid_signature"), why: proof.why };
  log.signed(route.name, proof.stage.detail);
  const request: BelievedRequest = { ...arrived, once: proof.once };
  const wait = room.rate.take(route.name, nowMs);
  if (wait) return tooMany(room, { request, proof: proof.stage, wait });
  const judged = await judge(request, room.ports);
  const stages: readonly StageVerdict[] = [proof.stage, { stage: "rate", verdict: "pass" }, ...judged.stages];
  if (judged.stop) {
    await room.deliveries.stopped({ request, judged, stages });
    log.leftAside(request, { judged, stages });
    return judged.stop;
  }
  return take(room, request, { judged, stages });
}

interface Proof {
  readonly stage: StageVerdict;
  /** The signature itself, of a scheme that binds the time. */
  readonly once?: string | undefined;
}

function proofOf({ route, headers, body }: ArrivedRequest, nowMs: number): Proof | { readonly why: string } {
  const { secrets, toleranceSeconds, takesBearer } = route;
  if (secrets === "none")
    return { stage: { stage: "signature", verdict: "pass", detail: "none is asked for" } };
  const verdict = verifySignature({ headers, body }, { secrets, toleranceSeconds, takesBearer, nowMs });
  if (verdict.status === "invalid") return { why: `${verdict.scheme ?? "no signature"}: ${verdict.reason}` };
  return { stage: { stage: "signature", verdict: "pass", detail: verdict.scheme }, once: verdict.once };
}

/** Of a flood no more is recorded than of what passes. */
async function tooMany(
  room: WebhookRoom,
  {
    request,
    proof,
    wait,
  }: { readonly request: BelievedRequest; readonly proof: StageVerdict; readonly wait: RateRefusal },
): Promise<WebhookAnswer> {
  const answer = refuse("rate_limited", { retryAfterSeconds: wait.seconds });
  if (wait.count <= room.rate.max) {
    const detail = `more than ${room.rate.max} in a minute`;
    const stages: readonly StageVerdict[] = [proof, { stage: "rate", verdict: "stop", detail }];
    await room.deliveries.stopped({ request, judged: unjudged(request, answer), stages });
  }
  return answer;
}

interface Verdicts {
  readonly judged: Judged;
  readonly stages: readonly StageVerdict[];
}

/** Hands it to the agent, or to its target. Rejects when it could not be recorded: then the sender is to try again. */
async function take(
  room: WebhookRoom,
  request: BelievedRequest,
  { judged, stages }: Verdicts,
): Promise<WebhookAnswer> {
  const stopped = (stop: WebhookAnswer, detail: string): Promise<void> =>
    room.deliveries.stopped({
      request,
      judged: { ...judged, stop },
      stages: [...stages, { stage: "admit", verdict: "stop", detail }],
    });
  const admission = {
    request,
    judged: { ...judged, text: judged.text ?? "" },
    stages: [...stages, { stage: "admit", verdict: "pass" } as const],
    once: request.once,
  };
  try {
    const way = request.route.deliverOnly ? deliverDirect : admit;
    const answer = await way(room, admission);
    if (answer) return answer;
  } catch (error) {
    await stopped(refuse("store_unavailable"), toServiceError(error).code);
    throw error;
  }
  // Two at once got so far; the other one was first.
  const { deliveryId } = judged;
  const first = await room.ports.knownAs({ route: request.route.name, deliveryId, once: request.once });
  const answer = duplicate(first ?? deliveryId);
  await stopped(answer, `taken meanwhile, as ${first ?? deliveryId}`);
  return answer;
}
