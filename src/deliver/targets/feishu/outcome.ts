/** What Feishu's answers mean: the error codes of im/v1/messages, "Generic error codes" and "Rate limits". Pure. */
import type { FeishuAnswer } from "../../../../generated/delivery/client/types.gen.ts";
import type { NoAnswer, PlatformAnswer, SendFailure } from "../../platform/call.ts";
import { outcomeOfAnswer, throttled } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

type Answer = PlatformAnswer<FeishuAnswer>;

export const feishuWords = { title: "Feishu", name: "feishu" };

const refusedTokens = new Set([99991661, 99991663, 99991664, 99991668, 99991671, 99991677]);
/** Of all requests of the app, of one chat, and of the tenant at busy times. */
const rateLimits = new Set([99991400, 230020, 11232]);
/** An internal error, and a repeat whose first is still on its way. */
const passing = new Set([1500, 2200, 230049]);
const scope = "Give the app the scope im:message:send_as_bot, and publish a version of it.";
const availability = "Add the user to those whom the app is available to, and publish a version of it.";
/** What to do about errors, by `code`. */
const remedies: ReadonlyMap<number, string> = new Map([
  [230001, "Is the chat's id right?"],
  [230002, "Add the app's bot to the group."],
  [230006, "Switch on the bot of the app, and publish a version of it."],
  [230013, availability],
  [230018, "The group's settings forbid it: let the bot write there."],
  [230019, "Is the topic still there?"],
  [230022, "It holds words that the platform does not let through."],
  [230025, "Set platforms.feishu.text_limit lower."],
  [230027, scope],
  [230028, "The company's audit does not let it through, as with phone numbers or e-mail addresses."],
  [230034, "Is the chat's id right, and of the kind that it begins as?"],
  [230035, "Nobody may write there, or the user has blocked the bot."],
  [230053, "The user takes no messages from the bot."],
  [230011, "The message to answer was taken back: name another thread."],
  [230110, "The message to answer was deleted: name another thread."],
  [232009, "The group was dissolved: name another."],
  [99991672, scope],
]);

export function outcomeOf(answer: Answer): SendOutcome {
  return answer.status < 300 && answer.body?.code === 0 ? { status: "delivered" } : failureOf(answer);
}

/** The API itself refused the token, whatever the status. */
export function isTokenRefused({ body }: Answer): boolean {
  return body !== undefined && refusedTokens.has(body.code);
}

/** Of the request for a token, which sends nothing. */
export function tokenFailure(answer: Answer | NoAnswer): SendFailure {
  const failure = answer.kind === "none" ? answer.outcome : failureOf(answer);
  if (failure.status !== "permanent" || answer.kind === "none" || answer.body === undefined) return failure;
  const hint = "Check platforms.feishu.app_id (FEISHU_APP_ID), app_secret (FEISHU_APP_SECRET) and domain.";
  return { ...failure, error: `${failure.error} ${hint}` };
}

/** Many errors come with status 200. */
function failureOf(answer: Answer): SendFailure {
  const { body, status } = answer;
  if (body === undefined || body.code === 0)
    return status === 429 ? limited(answer, "") : outcomeOfAnswer(answer, feishuWords);
  const { code, msg = "" } = body;
  const reason = msg.replace(/\s+/g, " ").trim().replace(/\.$/, "").slice(0, 200);
  const said = `${feishuWords.title} refused it (${code})${reason === "" ? "" : `: ${reason}`}.`;
  if (status === 429 || rateLimits.has(code)) return limited(answer, said);
  if (status >= 500 || passing.has(code)) return { status: "retry", error: said };
  if (refusedTokens.has(code))
    return { status: "permanent", error: `${said} Check the credentials of platforms.feishu.` };
  const hint = remedies.get(code);
  return { status: "permanent", error: hint === undefined ? said : `${said} ${hint}` };
}

function limited(answer: Answer, said: string): SendFailure {
  const seconds = Number(answer.headers["x-ogw-ratelimit-reset"] || Number.NaN);
  const waitMs = Number.isFinite(seconds) ? seconds * 1000 : answer.retryAfterMs;
  return throttled(said === "" ? outcomeOfAnswer(answer, feishuWords).error : said, waitMs);
}
