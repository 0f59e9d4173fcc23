/** What Discord's answers mean: "Opcodes and Status Codes" and "Rate Limits" of its documentation. Pure. */
import type { DiscordAnswer } from "../../../../generated/delivery/client/types.gen.ts";
import type { PlatformAnswer } from "../../platform/call.ts";
import { outcomeOfAnswer, throttled, type OutcomeWords } from "../../platform/http-outcome.ts";
import type { SendOutcome } from "../../target.ts";

type Answer = PlatformAnswer<DiscordAnswer>;

const CANNOT_SEND_IN_FORUM = 40058;
const NON_TEXT_CHANNEL = 50008;
const INVALID_BODY = 50035;
const RESOURCE_RATE_LIMITED = 40062;
const OVERLOADED = 130000;
/** What to do about errors, by their JSON error code. */
const remedies: ReadonlyMap<number, string> = new Map([
  [10003, "Is the channel's id right, and is the bot in that server?"],
  [20028, "The channel takes no more messages for now."],
  [40001, "Check platforms.discord.token (DISCORD_BOT_TOKEN)."],
  [40067, "Name tags of the forum: deliver_extra.tags, a list of their ids."],
  [50001, "Invite the bot to the server, and let it see the channel."],
  [50007, "The user takes no direct messages from the bot."],
  [NON_TEXT_CHANNEL, "Name a channel that takes texts."],
  [50013, "Give the bot the right to send messages there (in threads too)."],
  [INVALID_BODY, "If the text is too long, set platforms.discord.text_limit lower."],
  [50083, "Open the thread again, or name another."],
  [160005, "Unlock the thread, or name another."],
]);

export function outcomeOf(answer: Answer, words: OutcomeWords): SendOutcome {
  const { body, status } = answer;
  if (status < 300 && body?.id !== undefined) return { status: "delivered" };
  const reason = typeof body?.message === "string" ? body.message : undefined;
  const failure = outcomeOfAnswer(answer, { ...words, reason });
  if (status === 429 || body?.code === RESOURCE_RATE_LIMITED) return throttled(failure.error, waitOf(answer));
  if (body?.code === OVERLOADED) return { status: "retry", error: failure.error };
  const hint = remedies.get(body?.code ?? 0);
  return hint === undefined || failure.status !== "permanent"
    ? failure
    : { ...failure, error: `${failure.error} ${hint}` };
}

/** The channel is a forum, which takes posts alone; the older of the two codes stands for other channels too. */
export function isForum({ body }: Answer): boolean {
  return body?.code === CANNOT_SEND_IN_FORUM || body?.code === NON_TEXT_CHANNEL;
}

export function isInvalidBody({ status, body }: Answer): boolean {
  return status === 400 && body?.code === INVALID_BODY;
}

/** The limit of the whole bot, not of the channel. */
export function isUnderGlobalLimit({ status, body, headers }: Answer): boolean {
  return status === 429 && (body?.global === true || headers["x-ratelimit-global"] === "true");
}

/** The body has fractions of seconds, the header whole ones. */
function waitOf({ body, retryAfterMs }: Answer): number | undefined {
  return body?.retry_after === undefined ? retryAfterMs : Math.ceil(body.retry_after * 1000);
}
