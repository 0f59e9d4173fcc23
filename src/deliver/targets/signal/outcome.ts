/** What the answers of signal-cli, and of the REST service around it, mean. Pure. */
import type {
  SignalRestAnswer,
  SignalRpcAnswer,
  SignalSent,
} from "../../../../generated/delivery/client/types.gen.ts";
import { isRecord } from "../../../base/json/schema.ts";
import type { PlatformAnswer, SendFailure } from "../../platform/call.ts";
import { outcomeOfAnswer, saidIn, throttled } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

type RpcError = NonNullable<SignalRpcAnswer["error"]>;
type Result = NonNullable<SignalSent["results"]>[number];

const words = { title: "Signal", name: "signal" };

const UNTRUSTED =
  "Signal does not trust the recipient's key any more: the safety number has changed. Compare it, tell signal-cli to `trust` it, and retry the delivery.";
const UNREGISTERED = "Signal does not know the recipient (any more). Check the chat.";
const CAPTCHA =
  "Should Signal want a captcha: signal-cli's submitRateLimitChallenge takes its solution (rest: POST /v1/accounts/{number}/rate-limit-challenge).";

/** signal-cli, SignalJsonRpcCommandHandler. */
const USER_ERROR = -1;
const UNTRUSTED_KEY = -4;
const RATE_LIMIT = -5;
/** JSON-RPC 2.0. */
const INVALID_REQUEST = -32_600;
const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;

/** An error comes with HTTP 200 or 201 too; where a message has several recipients, one who got it is enough. */
export function rpcOutcome(answer: PlatformAnswer<SignalRpcAnswer>): SendOutcome {
  const { body } = answer;
  if (body?.error) return errorOutcome(answer, body.error);
  if (!body?.result) return outcomeOfAnswer(answer, words);
  const { results = [] } = body.result;
  return resultsOutcome(results) ?? { status: "delivered" };
}

function errorOutcome(answer: PlatformAnswer<SignalRpcAnswer>, error: RpcError): SendFailure {
  const reason = error.message ?? undefined;
  const results = resultsIn(error);
  const said = saidIn(answer, { ...words, reason: `${reason ?? "an error"} (${error.code})` });
  switch (error.code) {
    case RATE_LIMIT:
      return throttled(`${said} ${CAPTCHA}`, waitOf(results) ?? waitIn(reason));
    case UNTRUSTED_KEY:
      return { status: "permanent", error: UNTRUSTED };
    case USER_ERROR:
      return resultsOutcome(results) ?? userError(said, reason);
    case INVALID_PARAMS:
      return {
        status: "permanent",
        error: `${said} Has signal-cli the account of platforms.signal.account (SIGNAL_ACCOUNT)?`,
      };
    case INVALID_REQUEST:
    case METHOD_NOT_FOUND:
      return { status: "permanent", error: `${said} Bring signal-cli up to date.` };
    default:
      return { status: "retry", error: said };
  }
}

/** What stands in the data differs between versions: no more of it is believed than fits. */
function resultsIn({ data }: RpcError): readonly Result[] {
  const response = isRecord(data) ? data["response"] : undefined;
  const results = isRecord(response) ? response["results"] : undefined;
  return Array.isArray(results) ? results.filter(isResult) : [];
}

function isResult(value: unknown): value is Result {
  if (!isRecord(value)) return false;
  const { type, retryAfterSeconds: seconds } = value;
  return typeof type === "string" && (seconds === undefined || Number.isSafeInteger(seconds));
}

function userError(said: string, reason = ""): SendFailure {
  if (isThrottling(reason)) return throttled(`${said} ${CAPTCHA}`, waitIn(reason));
  if (/not registered|unregistered/i.test(reason)) return { status: "permanent", error: UNREGISTERED };
  return { status: "permanent", error: `${said} Check the chat.` };
}

/** Undefined: somebody got it, or nobody is listed. What passes by itself goes before what needs people. */
function resultsOutcome(results: readonly Result[]): SendFailure | undefined {
  const types = new Set(results.map(({ type }) => type));
  if (types.size === 0 || types.has("SUCCESS")) return undefined;
  if (types.has("RATE_LIMIT_FAILURE")) {
    return throttled(`Signal asks to send less often. ${CAPTCHA}`, waitOf(results));
  }
  if (types.has("IDENTITY_FAILURE")) return { status: "permanent", error: UNTRUSTED };
  if (types.has("UNREGISTERED_FAILURE") && types.size === 1)
    return { status: "permanent", error: UNREGISTERED };
  return { status: "retry", error: `signal-cli could not send the message (${[...types].join(", ")}).` };
}

function waitOf(results: readonly Result[]): number | undefined {
  const seconds = Math.max(...results.map(({ retryAfterSeconds = 0 }) => retryAfterSeconds), 0);
  return seconds > 0 ? seconds * 1000 : undefined;
}

function waitIn(reason = ""): number | undefined {
  const seconds = /\bretry[ -]?after:?\s{0,3}(\d{1,7})\b/i.exec(reason)?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

function isThrottling(reason: string): boolean {
  return /rate.?limit|captcha|challenge/i.test(reason);
}

/** signal-cli-rest-api: 201 and a time stamp, else 400 with the words of signal-cli, or 429 with challenge tokens. */
export function restOutcome(answer: PlatformAnswer<SignalRestAnswer>): SendOutcome {
  const { status, body, retryAfterMs } = answer;
  if (status < 300 && body?.timestamp !== undefined) return { status: "delivered" };
  const reason = body?.error;
  const failure = outcomeOfAnswer(answer, { ...words, reason });
  if (reason === undefined) return failure;
  if (status === 429 || body?.challenge_tokens?.length || isThrottling(reason)) {
    return throttled(`${failure.error} ${CAPTCHA}`, retryAfterMs ?? waitIn(reason));
  }
  if (status !== 400) return failure;
  if (/untrusted/i.test(reason)) return { status: "permanent", error: UNTRUSTED };
  if (/network failure|time-?d? ?out|connection|unavailable/i.test(reason)) {
    return { status: "retry", error: failure.error };
  }
  if (/not registered|unregistered/i.test(reason)) {
    return {
      status: "permanent",
      error: `${failure.error} Check the chat, and platforms.signal.account (SIGNAL_ACCOUNT).`,
    };
  }
  return failure;
}
