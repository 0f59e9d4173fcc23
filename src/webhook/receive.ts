import { admit } from "./admit.ts";
import { duplicate, refuse, type WebhookAnswer } from "./answer.ts";
import { deliverDirect } from "./direct.ts";
import { judge, type BelievedRequest } from "./judge.ts";
import type { WebhookRoom } from "./room.ts";
import { verifySignature } from "./signature.ts";
import type { StageVerdict } from "./stage.ts";

/** A request with its body read: believed when its signature is good, judged, and admitted when it goes all the way. */
export async function receive(room: WebhookRoom, request: BelievedRequest): Promise<WebhookAnswer> {
  const { route } = request;
  const nowMs = room.clock.now();
  const proof = proofOf(request, nowMs);
  if (!proof) return refuse("invalid_signature");
  const waitSeconds = room.rate.take(route.name, nowMs);
  if (waitSeconds !== undefined) return refuse("rate_limited", { retryAfterSeconds: waitSeconds });
  const judged = await judge(request, room.ports);
  const stages: readonly StageVerdict[] = [proof.stage, { stage: "rate", verdict: "pass" }, ...judged.stages];
  if (judged.stop || judged.text === undefined) {
    await room.deliveries.stopped({ request, judged, stages });
    return judged.stop ?? refuse("internal");
  }
  const { text } = judged;
  const admission = { request, judged: { ...judged, text }, stages, once: proof.once };
  const answer = route.deliverOnly ? await deliverDirect(room, admission) : await admit(room, admission);
  return answer ?? duplicate(judged.deliveryId);
}

/** Undefined for a request that is not from who it should be. */
function proofOf(
  { route, headers, body }: BelievedRequest,
  nowMs: number,
): { readonly stage: StageVerdict; readonly once: string | undefined } | undefined {
  if (route.secrets === "none") {
    return { stage: { stage: "signature", verdict: "pass", detail: "none is asked for" }, once: undefined };
  }
  const { secrets, toleranceSeconds, takesBearer } = route;
  const verdict = verifySignature({ headers, body }, { secrets, toleranceSeconds, takesBearer, nowMs });
  if (verdict.status === "invalid") return undefined;
  return { stage: { stage: "signature", verdict: "pass", detail: verdict.scheme }, once: verdict.once };
}
