import { registerSecret } from "../../base/observe/redact.ts";
import type { Clock } from "../../base/clock.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import type { MattermostAnswer } from "../../../generated/delivery/client/types.gen.ts";
import { createCall, type PlatformAnswer, outcomeOfAnswer, throttled } from "../platform/call.ts";
import { readMessage, type Message } from "../message.ts";
import { sendParts, type Platform, repeatMark, type SendOutcome } from "../target.ts";
import { cleanText } from "../text/text.ts";
import { renderParts } from "../text/parts.ts";

type Settings = PlatformSettings<"mattermost">;

const words = { title: "Mattermost", name: "mattermost" };
/** Servers take posts of 16383 code points, those whose database was made before 5.0 of 4000. */
const TEXT_LIMIT = 16_383;
/**
 * The sign of what addresses everybody in a channel, in whatever case, also where it or letters behind it are written as
 * references (`&#64;`); no parameter of the API switches it off. Behind an ASCII letter or digit, as in e-mail
 * addresses, it addresses nobody.
 */
const EVERYBODY =
  /(?<![a-z0-9])(?:@|&#0{0,5}64;|&#x0{0,5}40;|&commat;)(?=(?:all|channel|here)(?![a-z0-9])|[a-z]{0,8}&)/gi;
/** Behind the sign: it addresses nobody then, and nobody sees it. */
const JOINER = "\u2060";
const MARK_LENGTH = 64;
/** Greater figures in X-Ratelimit-Reset are points in time, in seconds. */
const LONGEST_WAIT_S = 1_000_000;
/** What to do about errors: the start of the name, and a sentence. */
const hints: readonly (readonly [RegExp, string])[] = [
  [/^api\.context\.permissions/, "Add the bot to the team and the channel, with the right to post there."],
  [/can_not_post_to_deleted/, "The channel is archived: name another, or bring it back."],
  [
    /(message_length|too_long|model\.post\.is_valid\.(msg|message))/,
    "Set platforms.mattermost.text_limit lower; old servers take 4000.",
  ],
  [/root_id/, "The thread (thread_id) must be the id of the post that began it, in the same channel."],
  [
    /town_square_read_only|read_only/,
    "The channel is for reading: let the bot write there, or name another.",
  ],
];

/**
 * API v4, Create a post: Markdown, which addresses nobody unless `allow_mentions` is told. A server tells repeats by
 * `pending_post_id` for 30 s only, which is less than an attempt may take: what may have arrived is left to people.
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
        const parts = renderParts(textOf(message), { format: "commonmark", limit, unit: "codepoints" });
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

/** Cleaned first: what is taken away must not bring a mention together. */
function textOf({ text, extra }: Message): string {
  if (extra["allow_mentions"] === true) return text;
  return cleanText(text).replace(EVERYBODY, (sign) => `${sign}${JOINER}`);
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

/** Seconds from now, as servers write it; the documentation has them as a point in time. */
function resetMs({ headers }: PlatformAnswer<MattermostAnswer>, clock: Clock): number | undefined {
  const seconds = Number(headers["x-ratelimit-reset"] || Number.NaN);
  if (!Number.isFinite(seconds)) return undefined;
  return Math.max(0, seconds > LONGEST_WAIT_S ? seconds * 1000 - clock.now() : seconds * 1000);
}

function findProblem({ chat, thread }: Message): string | undefined {
  if (chat === "") {
    return "No channel is named: set deliver_extra.chat_id, or platforms.mattermost.home_channel (MATTERMOST_HOME_CHANNEL).";
  }
  if (!/^[a-z0-9]{26}$/.test(chat))
    return "The channel must be its id of 26 characters, as its View Info shows it.";
  if (thread !== undefined && !/^[a-z0-9]{26}$/.test(thread)) {
    return "The thread (thread_id) must be the id of 26 characters of the post that began it.";
  }
  return undefined;
}
