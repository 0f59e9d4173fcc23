import { registerSecret } from "../../base/observe.ts";
import type { Clock } from "../../base/time.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import type { MattermostAnswer } from "../../../generated/delivery/client/types.gen.ts";
import { createCall, type PlatformAnswer, outcomeOfAnswer, throttled } from "../platform/call.ts";
import {
  readMessage,
  type Message,
  type MessageText,
  sendParts,
  type Platform,
  repeatMark,
  type SendOutcome,
  cleanText,
} from "../target.ts";
import { renderParts } from "../text/parts.ts";

type Settings = PlatformSettings<"mattermost">;

const words = { title: "Mattermost", name: "mattermost" };
/** Servers accept posts of 16383 code points; those with a database from before 5.0 accept 4000. */
const TEXT_LIMIT = 16_383;
/**
 * Matches the sign of a channel-wide mention, in any case, even if it or the letters after it are character
 * references (`&#64;`). No API parameter disables these mentions. After an ASCII letter or digit, as in email
 * addresses, it is not a mention.
 */
const MENTIONS = ["@all", "@channel", "@here"];
const EVERYBODY =
  /(?<![a-z0-9])(?:@|&#0{0,5}64;|&#x0{0,5}40;|&commat;)(?=(?:all|channel|here)(?![a-z0-9])|[a-z]{0,8}&)/gi;
/** Word joiner after the sign: it is invisible and disarms the mention. */
const JOINER = "\u2060";
const MARK_LENGTH = 64;
/** Larger values of X-Ratelimit-Reset are Unix seconds. */
const LONGEST_WAIT_S = 1_000_000;
/** What to do about errors, by pattern of the error id. */
const hints: readonly (readonly [RegExp, string])[] = [
  [
    /^api\.context\.permissions/,
    "Add the bot to the team and the channel, with the permission to post there.",
  ],
  [/can_not_post_to_deleted/, "The channel is archived: use another, or unarchive it."],
  [
    /(message_length|too_long|model\.post\.is_valid\.(msg|message))/,
    "Lower platforms.mattermost.text_limit; old servers accept 4000.",
  ],
  [/root_id/, "The thread (thread_id) must be the id of its first post, in the same channel."],
  [
    /town_square_read_only|read_only/,
    "The channel is read-only: allow the bot to post there, or use another.",
  ],
];

/**
 * Mattermost API v4, Create a post: Markdown without channel-wide mentions unless `allow_mentions` is set. A server
 * deduplicates by `pending_post_id` for only 30 s, less than an attempt may take, so an uncertain message is left to a
 * person.
 */
export const mattermost: Platform<Settings> = {
  name: words.name,
  missing: ({ base_url: url, token }) => [
    ...(url === undefined ? ["base_url (MATTERMOST_URL)"] : []),
    ...(token === undefined ? ["token (MATTERMOST_TOKEN)"] : []),
  ],
  create({ token = "", base_url: baseUrl = "", ...settings }, { clock, version }) {
    registerSecret(token.trim());
    const call = createCall({ title: words.title, baseUrl, clock, version });
    const headers = { authorization: `Bearer ${token.trim()}` };
    return {
      name: words.name,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const problem = findProblem(message);
        if (problem !== undefined) return { status: "permanent", error: problem };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(textOf(message), {
          format: "commonmark",
          dialect: "mattermost",
          limit,
          unit: "codepoints",
          mentions: mentionsOf(message),
        });
        return sendParts(parts, { delivery, options }, async (part, index) => {
          const body = {
            channel_id: message.chat,
            message: part.text,
            pending_post_id: repeatMark(delivery, index, MARK_LENGTH),
            ...(message.thread === undefined ? {} : { root_id: message.thread }),
          };
          const answer = await call(
            "MattermostAnswer",
            (client) => client.mattermostCreatePost({ body, headers }),
            options,
          );
          return answer.kind === "none" ? answer.outcome : outcomeOf(answer, clock);
        });
      },
    };
  },
};

/** Cleans the text first: removing characters must not create a mention. */
function textOf({ text, extra }: Message): MessageText {
  if (extra["allow_mentions"] === true || typeof text !== "string") return text;
  return cleanText(text).replace(EVERYBODY, (sign) => `${sign}${JOINER}`);
}

/** A text in pieces is rendered before its mentions are disarmed: they may come from several pieces. */
function mentionsOf({ text, extra }: Message): readonly string[] {
  return typeof text === "string" || extra["allow_mentions"] === true ? [] : MENTIONS;
}

function outcomeOf(answer: PlatformAnswer<MattermostAnswer>, clock: Clock): SendOutcome {
  const { status, body } = answer;
  if (status < 300 && body?.id !== undefined && body.status_code === undefined)
    return { status: "delivered" };
  const reason = body?.status_code === undefined ? undefined : body.message;
  const failure = outcomeOfAnswer(answer, { ...words, reason });
  if (status === 429) return throttled(failure.error, answer.retryAfterMs ?? resetMs(answer, clock));
  if (failure.status !== "permanent") return failure;
  const hint = hints.find(([name]) => name.test(body?.id ?? ""))?.[1];
  return hint === undefined ? failure : { ...failure, error: `${failure.error} ${hint}` };
}

/** Servers send seconds from now; the documentation says Unix seconds. */
function resetMs({ headers }: PlatformAnswer<MattermostAnswer>, clock: Clock): number | undefined {
  const seconds = Number(headers["x-ratelimit-reset"] || Number.NaN);
  if (!Number.isFinite(seconds)) return undefined;
  return Math.max(0, seconds > LONGEST_WAIT_S ? seconds * 1000 - clock.now() : seconds * 1000);
}

function findProblem({ chat, thread }: Message): string | undefined {
  if (chat === "") {
    return "The message has no channel: set deliver_extra.chat_id, or platforms.mattermost.home_channel (MATTERMOST_HOME_CHANNEL).";
  }
  if (!/^[a-z0-9]{26}$/.test(chat))
    return "The channel must be its id of 26 characters, as its View Info shows it.";
  if (thread !== undefined && !/^[a-z0-9]{26}$/.test(thread)) {
    return "The thread (thread_id) must be the id of its first post, 26 characters.";
  }
  return undefined;
}
