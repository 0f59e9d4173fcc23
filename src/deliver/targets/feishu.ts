import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import type {
  FeishuAnswer,
  FeishuReceiverKind,
  FeishuReply,
} from "../../../generated/delivery/client/types.gen.ts";
import { AccessTokens, type RequestToken } from "../platform/access-token.ts";
import {
  createCall,
  type Call,
  type NoAnswer,
  type PlatformAnswer,
  type SendFailure,
  outcomeOfAnswer,
  throttled,
} from "../platform/call.ts";
import {
  staleUncertainty,
  sendParts,
  type Platform,
  repeatMark,
  type Delivery,
  type SendOptions,
  type SendOutcome,
  readMessage,
  type Message,
} from "../target.ts";
import { defuseMentions, renderParts } from "../text/parts.ts";

type Settings = PlatformSettings<"feishu">;

const words = { title: "Feishu", name: "feishu" };
/** Send message: content of at most 150 KB, even with several bytes per character. */
const TEXT_LIMIT = 8000;
/** Send message: `uuid` has up to 50 characters and deduplicates for 1 hour; we rely on less, because clocks differ. */
const MARK_LENGTH = 50;
const REPEATS_KNOWN_MS = 3_300_000;
/** In texts this begins `<at user_id="all">`, which is a mention. */
const MENTIONS = ["<at", "</at"];
const HOSTS = { feishu: "https://open.feishu.cn", lark: "https://open.larksuite.com" } as const;
/** Kinds of ids by their prefix: "How to obtain different user IDs" and "Group ID description". */
const KINDS: readonly (readonly [RegExp, FeishuReceiverKind])[] = [
  [/^oc_\w{1,100}$/, "chat_id"],
  [/^ou_\w{1,100}$/, "open_id"],
  [/^on_\w{1,100}$/, "union_id"],
  [/^[^\s@]{1,100}@[^\s@]{1,150}$/, "email"],
];

/**
 * Server API of Feishu and Lark, im/v1/messages: plain text without mentions unless `allow_mentions` is set; in a
 * thread as a reply. The API deduplicates for an hour.
 */
export const feishu: Platform<Settings> = {
  name: words.name,
  missing: ({ app_id: id, app_secret: secret }) => [
    ...(id === undefined ? ["app_id (FEISHU_APP_ID)"] : []),
    ...(secret === undefined ? ["app_secret (FEISHU_APP_SECRET)"] : []),
  ],
  create({ app_id: id = "", app_secret: secret = "", domain = "feishu", ...settings }, { clock, version }) {
    registerSecret(secret.trim());
    const baseUrl = settings.base_url ?? HOSTS[domain];
    const call = createCall({ title: words.title, baseUrl, clock, version });
    const tokens = new AccessTokens(
      clock,
      tokenRequest(call, { app_id: id.trim(), app_secret: secret.trim() }),
    );
    const repeats = { title: words.title, windowMs: REPEATS_KNOWN_MS };
    return {
      name: words.name,
      supportsIdempotency: true,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const kind = kindOf(message);
        const problem = findProblem(message, kind);
        if (kind === undefined || problem !== undefined) return { status: "permanent", error: problem ?? "" };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(message.text, { format: "plain", limit, unit: "utf16" });
        const request = { call, tokens, kind, message, delivery, options };
        return sendParts(
          parts,
          request,
          async (part, index) =>
            staleUncertainty(repeats, delivery, { index, nowMs: clock.now() }) ??
            sendPart(request, part.text, index),
        );
      },
    };
  },
};

interface SendRequest {
  readonly call: Call;
  readonly tokens: AccessTokens;
  readonly kind: FeishuReceiverKind;
  readonly message: Message;
  readonly delivery: Delivery;
  readonly options: SendOptions;
}

/** Valid for up to 2 hours; the API returns the same token to every caller. */
function tokenRequest(
  call: Call,
  body: { readonly app_id: string; readonly app_secret: string },
): RequestToken {
  return async (options) => {
    const answer = await call("FeishuAnswer", (client) => client.feishuTenantToken({ body }), options);
    const {
      code,
      tenant_access_token: value,
      expire = 0,
    } = (answer.kind === "answer" && answer.body) || { code: -1 };
    if (answer.kind === "none" || code !== 0 || value === undefined)
      return { kind: "none", outcome: tokenFailure(answer) };
    return { kind: "issued", value, lifeMs: expire * 1000 };
  };
}

/** Requests a new token, once, when the cached one is refused. */
async function sendPart(request: SendRequest, text: string, index: number): Promise<SendOutcome> {
  for (let attempt = 1; ; attempt += 1) {
    const token = await request.tokens.get(request.options);
    if (token.kind === "none") return token.outcome;
    const answer = await post(request, token.value, contentOf(request, text, index));
    if (answer.kind === "none") return answer.outcome;
    if (!isTokenRefused(answer)) return outcomeOf(answer);
    request.tokens.drop(token.value);
    if (!token.isReused || attempt > 1) return outcomeOf(answer);
  }
}

type Content = Pick<FeishuReply, "msg_type" | "content" | "uuid">;

/** Mentions are disarmed last: rendering may create one, as from `&lt;at`. */
function contentOf({ delivery, message }: SendRequest, words: string, index: number): Content {
  const text = message.extra["allow_mentions"] === true ? words : defuseMentions(words, MENTIONS);
  return {
    msg_type: "text",
    content: JSON.stringify({ text }),
    uuid: repeatMark(delivery, index, MARK_LENGTH),
  };
}

function post(
  { call, kind, message, options }: SendRequest,
  token: string,
  content: Content,
): Promise<PlatformAnswer<FeishuAnswer> | NoAnswer> {
  const headers = { authorization: `Bearer ${token}` };
  const { chat, thread } = message;
  return call(
    "FeishuAnswer",
    (client) =>
      thread === undefined
        ? client.feishuSendMessage({
            query: { receive_id_type: kind },
            headers,
            body: { receive_id: chat, ...content },
          })
        : client.feishuReplyMessage({
            path: { message_id: thread },
            headers,
            body: { ...content, reply_in_thread: true },
          }),
    options,
  );
}

function kindOf({ chat, extra }: Message): FeishuReceiverKind | undefined {
  const kind = KINDS.find(([id]) => id.test(chat))?.[1];
  return kind ?? (extra["receive_id_type"] === "user_id" && chat !== "" ? "user_id" : undefined);
}

function findProblem({ chat, thread }: Message, kind: FeishuReceiverKind | undefined): string | undefined {
  if (chat === "") {
    return "The message has no chat: set deliver_extra.chat_id, or platforms.feishu.home_channel (FEISHU_HOME_CHANNEL).";
  }
  if (kind === undefined) {
    return "The chat must be the id of a chat (oc_...), of a user (ou_... or on_...), an e-mail address, or with deliver_extra.receive_id_type: user_id a user's id.";
  }
  if (thread !== undefined && !/^om_\w{1,100}$/.test(thread)) {
    return "The thread (thread_id) must be the id of the message to reply to, om_...";
  }
  return undefined;
}

type Answer = PlatformAnswer<FeishuAnswer>;

const refusedTokens = new Set([99991661, 99991663, 99991664, 99991668, 99991671, 99991677]);
/** Rate limits of the app, of one chat, and of the tenant. */
const rateLimits = new Set([99991400, 230020, 11232]);
/** An internal error, and a duplicate of a message that is still being sent. */
const passing = new Set([1500, 2200, 230049]);
const scope = "Give the app the scope im:message:send_as_bot, and publish a version of it.";
const availability = "Make the app available to the user, and publish a version of it.";
/** What to do about errors, by `code`. */
const hints: ReadonlyMap<number, string> = new Map([
  [230001, "Check the chat's id."],
  [230002, "Add the app's bot to the group."],
  [230006, "Enable the bot of the app, and publish a version of it."],
  [230013, availability],
  [230018, "The group's settings forbid it: allow the bot to post there."],
  [230019, "Check that the topic exists."],
  [230022, "The text contains words that the platform blocks."],
  [230025, "Lower platforms.feishu.text_limit."],
  [230027, scope],
  [230028, "The company's audit blocks it, for example phone numbers or email addresses."],
  [230034, "Check the chat's id and its prefix."],
  [230035, "The chat accepts no messages, or the user has blocked the bot."],
  [230053, "The user accepts no messages from the bot."],
  [230011, "The message to reply to was recalled: use another thread."],
  [230110, "The message to reply to was deleted: use another thread."],
  [232009, "The group was dissolved: use another."],
  [99991672, scope],
]);

function outcomeOf(answer: Answer): SendOutcome {
  return answer.status < 300 && answer.body?.code === 0 ? { status: "delivered" } : failureOf(answer);
}

/** Returns whether the API refused the token, whatever the status. */
function isTokenRefused({ body }: Answer): boolean {
  return body !== undefined && refusedTokens.has(body.code);
}

/** Returns the failure of a token request, which sends no message. */
function tokenFailure(answer: Answer | NoAnswer): SendFailure {
  const failure = answer.kind === "none" ? answer.outcome : failureOf(answer);
  if (failure.status !== "permanent" || answer.kind === "none" || answer.body === undefined) return failure;
  const hint = "Check platforms.feishu.app_id (FEISHU_APP_ID), app_secret (FEISHU_APP_SECRET) and domain.";
  return { ...failure, error: `${failure.error} ${hint}` };
}

/** Many errors come with status 200. */
function failureOf(answer: Answer): SendFailure {
  const { body, status } = answer;
  if (body === undefined || body.code === 0)
    return status === 429 ? limited(answer, "") : outcomeOfAnswer(answer, words);
  const { code, msg = "" } = body;
  const reason = msg.replace(/\s+/g, " ").trim().replace(/\.$/, "").slice(0, 200);
  const summary = `${words.title} refused the message (${code})${reason === "" ? "" : `: ${reason}`}.`;
  if (status === 429 || rateLimits.has(code)) return limited(answer, summary);
  if (status >= 500 || passing.has(code)) return { status: "retry", error: summary };
  if (refusedTokens.has(code))
    return { status: "permanent", error: `${summary} Check the credentials of platforms.feishu.` };
  const hint = hints.get(code);
  return { status: "permanent", error: hint === undefined ? summary : `${summary} ${hint}` };
}

function limited(answer: Answer, summary: string): SendFailure {
  const seconds = Number(answer.headers["x-ogw-ratelimit-reset"] || Number.NaN);
  const waitMs = Number.isFinite(seconds) ? seconds * 1000 : answer.retryAfterMs;
  return throttled(summary === "" ? outcomeOfAnswer(answer, words).error : summary, waitMs);
}
