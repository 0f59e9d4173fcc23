import { toServiceError } from "../../base/errors.ts";
import type { RateRefusal } from "../../base/rate-limiter.ts";
import { admit } from "./admit.ts";
import { duplicate, refuse, type WebhookAnswer } from "./answer.ts";
import { deliverDirect } from "../deliveries/direct.ts";
import { evaluate, unevaluated, type VerifiedRequest, type Evaluated } from "./evaluate.ts";
import type { ReceiverLog } from "../deliveries/receiver-log.ts";
import type { WebhookDeps } from "../deps.ts";
import { verifySignature } from "./signature.ts";
import type { StageResult } from "./stage.ts";

/** A request with its body read, of which nobody knows yet who sent it. */
export type UnverifiedRequest = Omit<VerifiedRequest, "once">;

/** Believed when its signature is good, judged, and admitted when it goes all the way. */
export async function receive(
  deps: WebhookDeps,
  arrived: UnverifiedRequest,
  log: ReceiverLog,
): Promise<WebhookAnswer> {
  const { route } = arrived;
  const nowMs = deps.clock.now();
  if (route.secrets.length === 0) return refuse("no_secret");
  const proof = proofOf(arrived, nowMs);
  if ("why" in proof) return { ...refuse("invalid_signature"), why: proof.why };
  log.signed(route.name, proof.stage.detail);
  const request: VerifiedRequest = { ...arrived, once: proof.once };
  const wait = deps.rate.take(route.name, nowMs);
  if (wait) return tooMany(deps, { request, proof: proof.stage, wait });
  const evaluated = await evaluate(request, deps.ports);
  const stages: readonly StageResult[] = [
    proof.stage,
    { stage: "rate", verdict: "pass" },
    ...evaluated.stages,
  ];
  if (evaluated.stop) {
    await deps.deliveries.stopped({ request, evaluated, stages });
    log.leftAside(request, { evaluated, stages });
    return evaluated.stop;
  }
  return take(deps, request, { evaluated, stages });
}

interface Proof {
  readonly stage: StageResult;
  /** The signature itself, of a scheme that binds the time. */
  readonly once?: string | undefined;
}

function proofOf(
  { route, headers, body }: UnverifiedRequest,
  nowMs: number,
): Proof | { readonly why: string } {
  const { secrets, toleranceSeconds, takesBearer } = route;
  if (secrets === "none")
    return { stage: { stage: "signature", verdict: "pass", detail: "none is asked for" } };
  const verdict = verifySignature({ headers, body }, { secrets, toleranceSeconds, takesBearer, nowMs });
  if (verdict.status === "invalid") return { why: `${verdict.scheme ?? "no signature"}: ${verdict.reason}` };
  return { stage: { stage: "signature", verdict: "pass", detail: verdict.scheme }, once: verdict.once };
}

/** Of a flood no more is recorded than of what passes. */
async function tooMany(
  deps: WebhookDeps,
  {
    request,
    proof,
    wait,
  }: { readonly request: VerifiedRequest; readonly proof: StageResult; readonly wait: RateRefusal },
): Promise<WebhookAnswer> {
  const answer = refuse("rate_limited", { retryAfterSeconds: wait.seconds });
  if (wait.count <= deps.rate.max) {
    const detail = `more than ${deps.rate.max} in a minute`;
    const stages: readonly StageResult[] = [proof, { stage: "rate", verdict: "stop", detail }];
    await deps.deliveries.stopped({ request, evaluated: unevaluated(request, answer), stages });
  }
  return answer;
}

interface StageResults {
  readonly evaluated: Evaluated;
  readonly stages: readonly StageResult[];
}

/** Hands it to the agent, or to its target. Rejects when it could not be recorded: then the sender is to try again. */
async function take(
  deps: WebhookDeps,
  request: VerifiedRequest,
  { evaluated, stages }: StageResults,
): Promise<WebhookAnswer> {
  const stopped = (stop: WebhookAnswer, detail: string): Promise<void> =>
    deps.deliveries.stopped({
      request,
      evaluated: { ...evaluated, stop },
      stages: [...stages, { stage: "admit", verdict: "stop", detail }],
    });
  const admission = {
    request,
    evaluated: { ...evaluated, text: evaluated.text ?? "" },
    stages: [...stages, { stage: "admit", verdict: "pass" } as const],
    once: request.once,
  };
  try {
    const way = request.route.deliverOnly ? deliverDirect : admit;
    const answer = await way(deps, admission);
    if (answer) return answer;
  } catch (error) {
    await stopped(refuse("store_unavailable"), toServiceError(error).code);
    throw error;
  }
  // Two at once got so far; the other one was first.
  const { deliveryId } = evaluated;
  const first = await deps.ports.knownAs({ route: request.route.name, deliveryId, once: request.once });
  const answer = duplicate(first ?? deliveryId);
  await stopped(answer, `taken meanwhile, as ${first ?? deliveryId}`);
  return answer;
}
