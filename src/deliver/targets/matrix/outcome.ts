/** What a homeserver's answers mean: "Standard error response" of the Client-Server API. Pure. */
import type { MatrixAnswer } from "../../../../generated/delivery/client/types.gen.ts";
import type { NoAnswer, PlatformAnswer, SendFailure } from "../../platform/call.ts";
import { outcomeOfAnswer, throttled } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

type Answer = PlatformAnswer<MatrixAnswer>;

export const matrixWords = { title: "Matrix", name: "matrix" };

const join = "Invite the user there, and let it join: agentd does not join by itself.";
/** What to do about errors, by `errcode`. */
const remedies: ReadonlyMap<string, string> = new Map([
  ["M_UNKNOWN_TOKEN", "Sign in anew, and set platforms.matrix.access_token (MATRIX_ACCESS_TOKEN)."],
  ["M_MISSING_TOKEN", "Set platforms.matrix.access_token (MATRIX_ACCESS_TOKEN)."],
  ["M_USER_DEACTIVATED", "Send as another user: platforms.matrix.access_token (MATRIX_ACCESS_TOKEN)."],
  ["M_USER_LOCKED", "Ask those who run the homeserver to unlock the user."],
  ["M_FORBIDDEN", join],
  ["M_GUEST_ACCESS_FORBIDDEN", join],
  ["M_NOT_FOUND", "Is the room right, and still there?"],
  ["M_TOO_LARGE", "Set platforms.matrix.text_limit lower."],
  ["M_CONSENT_NOT_GIVEN", "Sign in as that user once, and agree to the terms of the homeserver."],
  ["M_RESOURCE_LIMIT_EXCEEDED", "Ask those who run the homeserver: it has reached its limit."],
  ["M_UNRECOGNIZED", "Is platforms.matrix.homeserver the address of a homeserver?"],
]);

/** Of a request that brings `field` when all is well. */
export function outcomeOf(answer: Answer, field: "event_id"): SendOutcome {
  const { status, body } = answer;
  if (status < 300 && body?.[field] !== undefined) return { status: "delivered" };
  return failureOf(answer);
}

/** Of a request that sends nothing: whether it arrived does not matter. */
export function lookupFailure(answer: Answer | NoAnswer): SendFailure {
  const failure = answer.kind === "none" ? answer.outcome : failureOf(answer);
  if (failure.status !== "unknown") return failure;
  return { status: "retry", error: `${failure.said ?? failure.error} Nothing was sent yet.` };
}

export function isTooLarge({ status, body }: Answer): boolean {
  return status === 413 || body?.errcode === "M_TOO_LARGE";
}

function failureOf(answer: Answer): SendFailure {
  const { status, body, retryAfterMs } = answer;
  const errcode = body?.errcode;
  const reason = errcode === undefined ? undefined : `${errcode} ${body?.error ?? ""}`;
  const failure = outcomeOfAnswer(answer, { ...matrixWords, reason });
  if (status === 429 || errcode === "M_LIMIT_EXCEEDED") {
    return throttled(failure.error, retryAfterMs ?? body?.retry_after_ms);
  }
  const hint = remedies.get(errcode ?? (status === 413 ? "M_TOO_LARGE" : ""));
  return hint === undefined || failure.status !== "permanent"
    ? failure
    : { ...failure, error: `${failure.error} ${hint}` };
}
