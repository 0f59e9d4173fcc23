import type { Clock } from "../../base/time.ts";
import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import type { DiscordAnswer, DiscordMessage } from "../../../generated/delivery/client/types.gen.ts";
import {
  createCall,
  type Call,
  type NoAnswer,
  type PlatformAnswer,
  outcomeOfAnswer,
  throttled,
  type OutcomeWords,
} from "../platform/call.ts";
import {
  staleUncertainty,
  sendWithFiles,
  type LoadedFile,
  type Platform,
  repeatMark,
  type Delivery,
  type SendOptions,
  type SendOutcome,
  readMessage,
  type Message,
} from "../target.ts";
import { renderParts, type Part } from "../text/parts.ts";
import { shorten } from "../../base/text.ts";
import { LruMap } from "../../base/data.ts";

type Settings = PlatformSettings<"discord">;

const words = { title: "Discord", name: "discord" };
/** Create Message: content of up to 2000 characters. The API counts code points. */
const TEXT_LIMIT = 2000;
/** Create Message: a nonce has up to 25 characters. */
const NONCE_LENGTH = 25;
/** Create Message: `enforce_nonce` deduplicates "in the past few minutes"; this is a safe lower bound. */
const NONCE_WINDOW_MS = 120_000;
/** Start Thread in Forum: a name has up to 100 characters. */
const NAME_LENGTH = 100;
const MAX_TAGS = 5;
/** Message flags SUPPRESS_EMBEDS and SUPPRESS_NOTIFICATIONS. */
const FLAGS = { disable_web_page_preview: 4, disable_notification: 4096 };
const MAX_POSTS = 1000;

/**
 * Discord HTTP API v10, Create Message: Markdown and files, without mentions unless `allow_mentions` is set. A thread is a
 * channel; in a forum a message opens a post. The API deduplicates for some minutes, except for posts.
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
        const parts = renderParts(message.text, {
          format: "commonmark",
          dialect: "discord",
          limit,
          unit: "codepoints",
          // A post begins with a text.
          mayBeEmpty: delivery.files !== undefined && message.extra["forum"] !== true,
        });
        const request = { ...bot, message, delivery, options };
        const noted = async (end: Promise<PartEnd>) => {
          const { outcome, quietMs = 0 } = await end;
          quietUntilMs = Math.max(quietUntilMs, clock.now() + quietMs);
          return outcome;
        };
        return sendWithFiles(parts, request, {
          sendText: (part, index) => noted(sendPart(request, part, index)),
          sendFile: (file, index) => noted(sendFile(request, file, index)),
        });
      },
    };
  },
};

interface Bot {
  readonly call: Call;
  readonly clock: Clock;
  readonly headers: { readonly authorization: string };
  /** Forum post by message id, for the further parts of the message. */
  readonly posts: LruMap<string, string>;
}

interface SendRequest extends Bot {
  readonly message: Message;
  readonly delivery: Delivery;
  readonly options: SendOptions;
}

interface PartEnd {
  readonly outcome: SendOutcome;
  /** How long the whole bot must wait, milliseconds. */
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

/** Create Message with multipart/form-data: the message as `payload_json` beside the bytes. */
async function sendFile(request: SendRequest, file: LoadedFile, index: number): Promise<PartEnd> {
  const { message, posts, delivery, call, headers, options } = request;
  const stale = staleOf(request, index, NONCE_WINDOW_MS);
  if (stale) return { outcome: stale };
  const nonce = { nonce: repeatMark(delivery, index, NONCE_LENGTH), enforce_nonce: true };
  const body = { ...bodyOf(message, ""), ...nonce };
  const bodySerializer = (payload: unknown) => {
    const form = new FormData();
    form.append("payload_json", JSON.stringify(payload));
    form.append("files[0]", new File([file.bytes], file.name, { type: file.type }));
    return form;
  };
  const path = { channel_id: posts.get(delivery.id) ?? message.thread ?? message.chat };
  const answer = await call(
    "DiscordAnswer",
    (client) =>
      client.discordCreateMessage({
        path,
        body,
        bodySerializer,
        headers: { ...headers, "Content-Type": null },
      }),
    options,
  );
  if (answer.kind === "none") return { outcome: answer.outcome };
  const outcome = outcomeOf(answer, words);
  return { outcome, ...quietAfter(answer, outcome) };
}

/** Posts accept no nonce: an uncertain post is left to a person. */
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

/** Sends the text without markup, once, when the API rejects the message. */
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

/** The target supports idempotency, except for posts: a person decides. */
function withoutRepeat(outcome: SendOutcome): SendOutcome {
  if (outcome.status !== "unknown") return outcome;
  return {
    status: "unknown",
    isFinal: true,
    error: `${outcome.error} Check whether the post exists; \`agentd outbox retry\` opens it again.`,
  };
}

function quietAfter(
  answer: PlatformAnswer<DiscordAnswer>,
  outcome: SendOutcome,
): { readonly quietMs?: number } {
  if (!isUnderGlobalLimit(answer) || outcome.status !== "retry" || outcome.afterMs === undefined) return {};
  return { quietMs: outcome.afterMs };
}

/** Returns the first line with text. */
function nameOf({ text }: Part): string {
  const line =
    plainOf(text)
      .split("\n")
      .find((each) => each.trim() !== "") ?? "";
  return shorten(line.trim(), NAME_LENGTH);
}

function findProblem({ chat, thread }: Message): string | undefined {
  if (chat === "") {
    return "The message has no channel: set deliver_extra.chat_id, or platforms.discord.home_channel (DISCORD_HOME_CHANNEL).";
  }
  if (!/^\d{1,25}$/.test(chat))
    return "The channel must be its id, a number: Discord shows it in developer mode.";
  if (thread !== undefined && !/^\d{1,25}$/.test(thread)) return "The thread must be its id, a number.";
  return undefined;
}

type Reply = PlatformAnswer<DiscordAnswer>;

const CANNOT_SEND_IN_FORUM = 40058;
const NON_TEXT_CHANNEL = 50008;
const INVALID_BODY = 50035;
const RESOURCE_RATE_LIMITED = 40062;
const OVERLOADED = 130000;
/** What to do about errors, by JSON error code. */
const hints: ReadonlyMap<number, string> = new Map([
  [10003, "Check the channel's id, and that the bot is in that server."],
  [20028, "The channel accepts no more messages for now."],
  [40001, "Check platforms.discord.token (DISCORD_BOT_TOKEN)."],
  [40067, "Set deliver_extra.tags to a list of tag ids of the forum."],
  [50001, "Invite the bot to the server, and let it see the channel."],
  [50007, "The user accepts no direct messages from the bot."],
  [NON_TEXT_CHANNEL, "Use a text channel."],
  [50013, "Give the bot the permission to send messages there (also in threads)."],
  [INVALID_BODY, "If the text is too long, lower platforms.discord.text_limit."],
  [50083, "Reopen the thread, or use another."],
  [160005, "Unlock the thread, or use another."],
]);

function outcomeOf(answer: Reply, words: OutcomeWords): SendOutcome {
  const { body, status } = answer;
  if (status < 300 && body?.id !== undefined) return { status: "delivered" };
  const reason = typeof body?.message === "string" ? body.message : undefined;
  const failure = outcomeOfAnswer(answer, { ...words, reason });
  if (status === 429 || body?.code === RESOURCE_RATE_LIMITED) return throttled(failure.error, waitOf(answer));
  if (body?.code === OVERLOADED) return { status: "retry", error: failure.error };
  const hint = hints.get(body?.code ?? 0);
  return hint === undefined || failure.status !== "permanent"
    ? failure
    : { ...failure, error: `${failure.error} ${hint}` };
}

/**
 * Returns whether the channel is a forum, which accepts only posts. The older of the two codes also means other
 * channels.
 */
function isForum({ body }: Reply): boolean {
  return body?.code === CANNOT_SEND_IN_FORUM || body?.code === NON_TEXT_CHANNEL;
}

function isInvalidBody({ status, body }: Reply): boolean {
  return status === 400 && body?.code === INVALID_BODY;
}

/** Returns whether the limit of the whole bot applies, not that of the channel. */
function isUnderGlobalLimit({ status, body, headers }: Reply): boolean {
  return status === 429 && (body?.global === true || headers["x-ratelimit-global"] === "true");
}

/** Prefers the body, which has fractions of seconds; the header has whole seconds. */
function waitOf({ body, retryAfterMs }: Reply): number | undefined {
  return body?.retry_after === undefined ? retryAfterMs : Math.ceil(body.retry_after * 1000);
}
