import { shorten } from "../../../base/text.ts";
import { LruMap } from "../../../base/lru.ts";
import type { Clock } from "../../../base/clock.ts";
import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import type { DiscordAnswer, DiscordMessage } from "../../../../generated/delivery/client/types.gen.ts";
import { createCall, type Call, type NoAnswer, type PlatformAnswer } from "../../platform/call.ts";
import { staleUncertainty } from "../../outbox/uncertain.ts";
import { readMessage, type Message } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { Platform } from "../../platform/platform.ts";
import { repeatMark } from "../../text/repeat-mark.ts";
import type { Delivery, SendOptions, SendOutcome } from "../../target.ts";
import { renderParts, type Part } from "../../text/parts.ts";
import { isForum, isInvalidBody, isUnderGlobalLimit, outcomeOf } from "./outcome.ts";

type Settings = PlatformSettings<"discord">;

const words = { title: "Discord", name: "discord" };
/** Create Message: content of up to 2000 characters. The API counts code points (discord-api-docs, issue 1315). */
const TEXT_LIMIT = 2000;
/** Create Message: a nonce has up to 25 characters. */
const NONCE_LENGTH = 25;
/** Create Message: with `enforce_nonce` repeats are told "in the past few minutes"; these are the few that one can rely on. */
const NONCE_WINDOW_MS = 120_000;
/** Start Thread in Forum: a name has up to 100 characters. */
const NAME_LENGTH = 100;
const MAX_TAGS = 5;
/** Message flags SUPPRESS_EMBEDS and SUPPRESS_NOTIFICATIONS. */
const FLAGS = { disable_web_page_preview: 4, disable_notification: 4096 };
const MAX_POSTS = 1000;

/**
 * HTTP API v10, Create Message: Markdown, which addresses nobody unless `allow_mentions` is told; a thread is a channel.
 * In a forum a message opens a post. Repeats are told apart for some minutes, except for what opens a post.
 */
export const discord: Platform<Settings> = {
  name: words.name,
  missing: ({ token }) => (token === undefined ? ["token (DISCORD_BOT_TOKEN)"] : []),
  create({ token = "", base_url: baseUrl = "https://discord.com", ...settings }, { clock, version }) {
    registerSecret(token.trim());
    const call = createCall({ title: words.title, baseUrl, clock, version });
    const headers = { authorization: `Bot ${token.trim()}` };
    const bot: Bot = { call, clock, headers, posts: new LruMap(MAX_POSTS) };
    let quietUntilMs = 0;
    return {
      name: words.name,
      supportsIdempotency: true,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      isReady: () => clock.now() >= quietUntilMs,
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const problem = findProblem(message);
        if (problem !== undefined) return { status: "permanent", error: problem };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(message.text, { format: "commonmark", limit, unit: "codepoints" });
        const request = { ...bot, message, delivery, options };
        return sendParts(parts, request, async (part, index) => {
          const { outcome, quietMs = 0 } = await sendPart(request, part, index);
          quietUntilMs = Math.max(quietUntilMs, clock.now() + quietMs);
          return outcome;
        });
      },
    };
  },
};

interface Bot {
  readonly call: Call;
  readonly clock: Clock;
  readonly headers: { readonly authorization: string };
  /** By message: the post that it opened in a forum, for its further parts. */
  readonly posts: LruMap<string, string>;
}

interface SendRequest extends Bot {
  readonly message: Message;
  readonly delivery: Delivery;
  readonly options: SendOptions;
}

interface PartEnd {
  readonly outcome: SendOutcome;
  /** How long everybody has to be quiet. */
  readonly quietMs?: number;
}

type Answer = PlatformAnswer<DiscordAnswer> | NoAnswer;

async function sendPart(request: SendRequest, part: Part, index: number): Promise<PartEnd> {
  const { message, posts, delivery } = request;
  const post = posts.get(delivery.id);
  if (post === undefined && message.thread === undefined && message.extra["forum"] === true) {
    return openPost(request, part, index);
  }
  const channel = post ?? message.thread ?? message.chat;
  const nonce = { nonce: repeatMark(delivery, index, NONCE_LENGTH), enforce_nonce: true };
  const stale = staleOf(request, index, NONCE_WINDOW_MS);
  if (stale) return { outcome: stale };
  const answer = await inEitherForm(part, (content) =>
    write(request, channel, { ...bodyOf(message, content), ...nonce }),
  );
  if (answer.kind === "none") return { outcome: answer.outcome };
  if (isForum(answer) && post === undefined && message.thread === undefined) {
    return openPost(request, part, index);
  }
  const outcome = outcomeOf(answer, words);
  return { outcome, ...quietAfter(answer, outcome) };
}

/** The API takes no nonce for these: what may have arrived is left to people. */
async function openPost(request: SendRequest, part: Part, index: number): Promise<PartEnd> {
  const { delivery, posts } = request;
  const stale = staleOf(request, index, 0);
  if (stale) return { outcome: stale };
  const answer = await inEitherForm(part, (content) => open(request, part, content));
  if (answer.kind === "none") return { outcome: withoutRepeat(answer.outcome) };
  const outcome = withoutRepeat(outcomeOf(answer, words));
  if (outcome.status !== "delivered") return { outcome, ...quietAfter(answer, outcome) };
  posts.set(delivery.id, answer.body?.id ?? "");
  return { outcome };
}

function staleOf({ delivery, clock }: SendRequest, index: number, windowMs: number): SendOutcome | undefined {
  return staleUncertainty({ title: words.title, windowMs }, delivery, { index, nowMs: clock.now() });
}

function open(
  { message, call, headers, options }: SendRequest,
  part: Part,
  content: string,
): Promise<Answer> {
  const tags = message.extra["tags"];
  const tagIds = Array.isArray(tags) ? tags.map(String).slice(0, MAX_TAGS) : [];
  const body = {
    name: nameOf(part),
    message: bodyOf(message, content),
    ...(tagIds.length > 0 ? { applied_tags: tagIds } : {}),
  };
  const path = { channel_id: message.chat };
  return call("DiscordAnswer", (client) => client.discordStartForumThread({ path, body, headers }), options);
}

/** Words without markup go out once when the API does not take the message. */
async function inEitherForm({ text }: Part, write: (content: string) => Promise<Answer>): Promise<Answer> {
  const answer = await write(text);
  if (answer.kind !== "answer" || !isInvalidBody(answer)) return answer;
  const plain = plainOf(text);
  return plain === text ? answer : write(plain);
}

function plainOf(markdown: string): string {
  const [part] = renderParts(markdown, {
    format: "plain",
    limit: Number.POSITIVE_INFINITY,
    unit: "codepoints",
  });
  return part?.text ?? markdown;
}

function write(
  { call, headers, options }: SendRequest,
  channel: string,
  body: DiscordMessage,
): Promise<Answer> {
  const path = { channel_id: channel };
  return call("DiscordAnswer", (client) => client.discordCreateMessage({ path, body, headers }), options);
}

function bodyOf({ extra }: Message, content: string): DiscordMessage {
  const flags = Object.entries(FLAGS).reduce(
    (sum, [key, flag]) => (extra[key] === true ? sum | flag : sum),
    0,
  );
  const isOpen = extra["allow_mentions"] === true;
  return {
    content,
    allowed_mentions: { parse: isOpen ? ["users", "roles", "everyone"] : [] },
    ...(flags === 0 ? {} : { flags }),
  };
}

/** This target's repeats are safe, but for these: people decide. */
function withoutRepeat(outcome: SendOutcome): SendOutcome {
  if (outcome.status !== "unknown") return outcome;
  return {
    status: "unknown",
    isFinal: true,
    error: `${outcome.error} Look there whether the post is open; \`agentd deliveries retry\` opens it again.`,
  };
}

function quietAfter(
  answer: PlatformAnswer<DiscordAnswer>,
  outcome: SendOutcome,
): { readonly quietMs?: number } {
  if (!isUnderGlobalLimit(answer) || outcome.status !== "retry" || outcome.afterMs === undefined) return {};
  return { quietMs: outcome.afterMs };
}

/** The first line that says something. */
function nameOf({ text }: Part): string {
  const line =
    plainOf(text)
      .split("\n")
      .find((each) => each.trim() !== "") ?? "";
  return shorten(line.trim(), NAME_LENGTH);
}

function findProblem({ chat, thread }: Message): string | undefined {
  if (chat === "") {
    return "No channel is named: set deliver_extra.chat_id, or platforms.discord.home_channel (DISCORD_HOME_CHANNEL).";
  }
  if (!/^\d{1,25}$/.test(chat))
    return "The channel must be its id, a number: Discord shows it in developer mode.";
  if (thread !== undefined && !/^\d{1,25}$/.test(thread)) return "The thread must be its id, a number.";
  return undefined;
}
