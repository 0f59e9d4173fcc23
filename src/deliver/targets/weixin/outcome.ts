/** What the iLink service's answers mean: "Weixin Backend API Protocol" of Tencent/openclaw-weixin, and what its users report. Pure. */
import type { WeixinAnswer } from "../../../../generated/delivery/client/types.gen.ts";
import type { PlatformAnswer } from "../../platform/call.ts";
import { outcomeOfAnswer, throttled } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

export const weixinWords = { title: "WeChat", name: "weixin" };

const SESSION_EXPIRED = -14;
const RATE_LIMIT = -12;
/** Too many at once, more than about ten since the user wrote, or an old context token: the service does not tell which. */
const NOT_NOW = -2;
const RATE_LIMIT_MS = 60_000;

const SIGN_IN =
  "Sign in again by QR code, and set token (WEIXIN_TOKEN) and context_tokens of platforms.weixin anew.";
const WRITE_FIRST =
  "If that stays so, the user has to write to the bot again, and platforms.weixin.context_tokens (or deliver_extra.context_token) needs the token of that message.";

/** `secret` is the context token: it may stand in no error. */
export function outcomeOf(answer: PlatformAnswer<WeixinAnswer>, secret: string): SendOutcome {
  const { status, body } = answer;
  const reason = body?.errmsg?.replaceAll(secret, "[redacted]");
  // Some answers to what was taken are empty objects.
  const code = body?.errcode || body?.ret || 0;
  if (status < 300 && body && code === 0) return { status: "delivered" };
  if (status >= 300 || !body) return outcomeOfAnswer(answer, { ...weixinWords, reason });
  const said = `WeChat does not take it: ${reason?.trim() || "no reason given"} (${code}).`;
  if (code === SESSION_EXPIRED) return { status: "permanent", error: `${said} ${SIGN_IN}` };
  if (code === RATE_LIMIT) return throttled(said, RATE_LIMIT_MS);
  return { status: "retry", error: code === NOT_NOW ? `${said} ${WRITE_FIRST}` : said };
}
