/** What QQ's answers mean: "Error codes of openapi", "Send messages" and "Call and authorize" of the documents of its bots. Pure. */
import type { QqbotAnswer, QqbotToken } from "../../../../generated/delivery/client/types.gen.ts";
import type { NoAnswer, PlatformAnswer, SendFailure } from "../../platform/call.ts";
import { outcomeOfAnswer, throttled } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

export const qqbotWords = { title: "QQ", name: "qqbot" };

/** Taken, and shown once a person at QQ has looked at it. */
const WAITS_FOR_CHECK = new Set([304023, 304024]);
/** The same msg_id and msg_seq were sent before. */
const DUPLICATE = 40054005;
/** 11241 and 11243: the token is missing or wrong. 11244: it ran out. */
const TOKEN_REFUSED = new Set([11241, 11243, 11244]);
/** The channel, the guild or the bot is written to too fast. */
const TOO_FAST = new Set([20028, 610013, 1100100, 1100308]);
const TOO_FAST_MS = 60_000;
/** Failures within QQ, which its documents call worth another try. */
const PASSING = new Set([11242, 11252, 11263, 11281, 304006, 304007, 304008, 304009, 304016, 1100300]);
/** So many answers to a message, or so many messages on one's own, are used up. */
const USED_UP = new Set([22009, 304022, 304035, 304045, 304047, 304049, 304050]);
/** 304026 to 304028: the message that is answered is wrong, too old, or was not meant for the bot. */
const BAD_ANSWER = new Set([304026, 304027, 304028]);
/** The receiver takes no messages on the bot's own. */
const NOT_WANTED = new Set([304031, 304046, 304048]);
/** msg_id is wrong, too old or used up, or there is none and the bot may not begin. */
const isReplyCode = (code: number) => Math.floor(code / 1000) === 40034;

const ASK_FOR_REPLY =
  "Bots may hardly write on their own: ask there for a message to the bot, and answer it with its id as deliver_extra.msg_id.";

/** `isRepeat`: an earlier attempt at this part may have arrived. */
export function outcomeOf(answer: PlatformAnswer<QqbotAnswer>, isRepeat: boolean): SendOutcome {
  const { status, body } = answer;
  const code = codeOf(answer);
  if (code !== undefined && WAITS_FOR_CHECK.has(code)) return { status: "delivered" };
  if (code === DUPLICATE && isRepeat) return { status: "delivered" };
  if (status < 300 && code === undefined && body?.id !== undefined) return { status: "delivered" };
  const failure = outcomeOfAnswer(answer, { ...qqbotWords, reason: reasonOf(body, code) });
  return code === undefined ? failure : outcomeOfCode(code, failure, answer);
}

function outcomeOfCode(
  code: number,
  failure: SendFailure,
  { status, body, retryAfterMs }: PlatformAnswer<QqbotAnswer>,
): SendFailure {
  const said = `QQ refuses it: ${reasonOf(body, code)}.`;
  if (TOO_FAST.has(code)) return throttled(said, retryAfterMs ?? TOO_FAST_MS);
  if (PASSING.has(code)) return { status: "retry", error: said };
  const hint = hintOf(code);
  if (hint !== undefined) return { status: "permanent", error: `${said} ${hint}` };
  // 201 and 202 carry errors too.
  return status < 300 ? { status: "permanent", error: said } : failure;
}

function hintOf(code: number): string | undefined {
  if (code === DUPLICATE) return "Another message has used deliver_extra.msg_seq: leave it out.";
  if (USED_UP.has(code)) return `No more may be sent there for now. ${ASK_FOR_REPLY}`;
  if (BAD_ANSWER.has(code) || isReplyCode(code) || NOT_WANTED.has(code)) return ASK_FOR_REPLY;
  if (code === 304003) return "Register the addresses in the text at q.qq.com, or leave them out.";
  if (TOKEN_REFUSED.has(code))
    return "Check app_id (QQ_APP_ID) and client_secret (QQ_CLIENT_SECRET) of platforms.qqbot.";
  return undefined;
}

/** The token that was shown is not, or no longer, good. */
export function isTokenRefused(answer: PlatformAnswer<QqbotAnswer>): boolean {
  return answer.status === 401 || TOKEN_REFUSED.has(codeOf(answer) ?? 0);
}

/** Why no token was given. */
export function tokenFailure(answer: PlatformAnswer<QqbotToken> | NoAnswer): SendFailure {
  if (answer.kind === "none") return answer.outcome;
  const { status, body } = answer;
  const reason = body?.message;
  const failure = outcomeOfAnswer(answer, { ...qqbotWords, addressKey: "token_url", reason });
  const isRefused = status < 300 && body?.code !== undefined;
  if (failure.status !== "permanent" && !isRefused) return failure;
  if (status >= 300 && status < 400) return failure;
  return {
    status: "permanent",
    error: `QQ gives no token${reason === undefined ? "" : `: ${reason}`}. Check app_id (QQ_APP_ID) and client_secret (QQ_CLIENT_SECRET) of platforms.qqbot.`,
  };
}

function codeOf({ body }: PlatformAnswer<QqbotAnswer>): number | undefined {
  return body?.code || body?.err_code || undefined;
}

function reasonOf(body: QqbotAnswer | undefined, code: number | undefined): string | undefined {
  const message = body?.message?.trim();
  return code === undefined ? message : `${message || "no reason given"} (${code})`;
}
