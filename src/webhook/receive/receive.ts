import type { Clock } from "../../base/clock.ts";
import { toServiceError } from "../../base/errors.ts";
import type { Log, LogFields } from "../../base/observe/log.ts";
import type { RateRefusal } from "../../base/rate-limiter.ts";
import { admit } from "./admit.ts";
import { duplicate, refuse, type WebhookAnswer } from "./answer.ts";
import type { EvaluatedRequest } from "../deliveries/deliveries.ts";
import { deliverDirect } from "../deliveries/direct.ts";
import { evaluate, unevaluated, type Evaluated, type StageResult, type VerifiedRequest } from "./evaluate.ts";
import type { WebhookDeps } from "../deps.ts";
import { verifySignature } from "./signature.ts";

/** A request whose body is read and whose signature is not checked yet. */
export type UnverifiedRequest = Omit<VerifiedRequest, "nonce">;

/** Verifies, evaluates and admits a request. Rejects when it cannot be recorded: then the sender must try again. */
export async function receive(
  deps: WebhookDeps,
  unverified: UnverifiedRequest,
  log: ReceiverLog,
): Promise<WebhookAnswer> {
  const { route } = unverified;
  const nowMs = deps.clock.now();
  if (route.secrets.length === 0) return refuse("no_secret");
  const proof = proofOf(unverified, nowMs);
  if ("why" in proof) return { ...refuse("invalid_signature"), why: proof.why };
  log.verified(route.name, proof.stage.detail);
  const request: VerifiedRequest = { ...unverified, nonce: proof.nonce };
  const wait = deps.rate.take(route.name, nowMs);
  if (wait) return overRate(deps, { request, proof: proof.stage, wait });
  const evaluated = await evaluate(request, deps.ports);
  const stages: readonly StageResult[] = [
    proof.stage,
    { stage: "rate", result: "pass" },
    ...evaluated.stages,
  ];
  if (evaluated.stop) {
    await deps.deliveries.recordStopped({ request, evaluated, stages });
    log.stopped(request, { evaluated, stages });
    return evaluated.stop;
  }
  return take(deps, { request, evaluated, stages });
}

interface Proof {
  readonly stage: StageResult;
  readonly nonce?: string | undefined;
}

function proofOf(
  { route, headers, body }: UnverifiedRequest,
  nowMs: number,
): Proof | { readonly why: string } {
  const { secrets, toleranceSeconds, takesBearer } = route;
  const pass = { stage: "signature", result: "pass" } as const;
  if (secrets === "none") return { stage: { ...pass, detail: "not required" } };
  const checked = verifySignature({ headers, body }, { secrets, toleranceSeconds, takesBearer, nowMs });
  if (checked.status === "invalid") return { why: `${checked.scheme ?? "no signature"}: ${checked.reason}` };
  return { stage: { ...pass, detail: checked.scheme }, nonce: checked.nonce };
}

/** Refuses a request over the rate. Of a flood it records no more requests than the rate lets pass. */
async function overRate(
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
    const stages: readonly StageResult[] = [proof, { stage: "rate", result: "stop", detail }];
    await deps.deliveries.recordStopped({ request, evaluated: unevaluated(request, answer), stages });
  }
  return answer;
}

/** Hands the request to the agent, or to its target. */
async function take(
  deps: WebhookDeps,
  { request, evaluated, stages }: EvaluatedRequest,
): Promise<WebhookAnswer> {
  const recordStopped = (stop: WebhookAnswer, detail: string): Promise<void> =>
    deps.deliveries.recordStopped({
      request,
      evaluated: { ...evaluated, stop },
      stages: [...stages, { stage: "admit", result: "stop", detail }],
    });
  const admission = {
    request,
    evaluated: { ...evaluated, text: evaluated.text ?? "" },
    stages: [...stages, { stage: "admit", result: "pass" } as const],
  };
  try {
    const answer = await (request.route.deliverOnly ? deliverDirect : admit)(deps, admission);
    if (answer) return answer;
  } catch (error) {
    await recordStopped(refuse("store_unavailable"), toServiceError(error).code);
    throw error;
  }
  // Another request with the same key passed the dedupe stage at the same time, and was recorded first.
  const { deliveryId } = evaluated;
  const { route, nonce } = request;
  const first = (await deps.ports.findDuplicate({ route: route.name, deliveryId, nonce })) ?? deliveryId;
  const answer = duplicate(first);
  await recordStopped(answer, `duplicate of ${first}, which was recorded meanwhile`);
  return answer;
}

const WINDOW_MS = 60_000;
/** Strangers must not be able to fill the disk with log lines. */
const MAX_LINES = 60;
const MAX_ROUTES = 1_000;

/** Logs what the receiver does with requests, without secrets and payloads. */
export class ReceiverLog {
  readonly #log: Log;
  readonly #clock: Pick<Clock, "now">;
  readonly #deprecatedRoutes = new Set<string>();
  #startMs = Number.NEGATIVE_INFINITY;
  #lines = 0;

  constructor({ log, clock }: { readonly log: Log; readonly clock: Pick<Clock, "now"> }) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Logs the first refusals of each minute, and later how many more followed. */
  refused(fields: () => LogFields): void {
    const nowMs = this.#clock.now();
    if (nowMs < this.#startMs || nowMs >= this.#startMs + WINDOW_MS) {
      const count = this.#lines - MAX_LINES;
      if (count > 0) this.#log.info("more webhooks were refused", { count });
      this.#startMs = nowMs;
      this.#lines = 0;
    }
    if (++this.#lines <= MAX_LINES) this.#log.info("a webhook was refused", fields());
  }

  /** Logs a request that a stage ignored or found to be a duplicate. Pings come with every new hook: debug only. */
  stopped(
    { route, requestId }: VerifiedRequest,
    { evaluated, stages }: { readonly evaluated: Evaluated; readonly stages: readonly StageResult[] },
  ): void {
    const { stop, subject, deliveryId } = evaluated;
    if (stop?.status !== 200) return;
    const { event } = subject;
    const reason = stages.at(-1)?.detail;
    const fields = { request: requestId, route: route.name, event, delivery: deliveryId, reason };
    if (event === "ping") this.#log.debug("a webhook was ignored", fields);
    else if (stop.body.status === "ignored") this.#log.info("a webhook was ignored", fields);
    else this.#log.info("a webhook was a duplicate", fields);
  }

  /** Warns once per route about the signature that anyone who sees it can replay. */
  verified(route: string, scheme: string | undefined): void {
    const routes = this.#deprecatedRoutes;
    if (scheme !== "v1" || routes.has(route) || routes.size >= MAX_ROUTES) return;
    routes.add(route);
    const hint = "X-Webhook-Signature does not sign the time. Send X-Webhook-Signature-V2.";
    this.#log.warn("a webhook route uses a deprecated signature", { route, scheme, hint });
  }
}
