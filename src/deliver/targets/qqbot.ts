import type { QqbotAnswer, QqbotMessage, QqbotToken } from "../../../generated/delivery/client/types.gen.ts";
import { sha256 } from "../../base/text.ts";
import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
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
  readMessage,
  type Message,
  sendParts,
  type Platform,
  type Delivery,
  type SendOptions,
  type SendOutcome,
} from "../target.ts";
import { renderParts } from "../text/parts.ts";

type Settings = PlatformSettings<"qqbot">;
type Kind = "user" | "group" | "channel";

const words = { title: "QQ", name: "qqbot" };
const TEXT_LIMIT = 4000;
/** "Send messages": five replies to a message, and four messages a month without one. */
const MAX_PARTS = 5;
const API = "https://api.sgroup.qq.com";
const SANDBOX_API = "https://sandbox.api.sgroup.qq.com";
const TOKEN_HOST = "https://bots.qq.com";
/** Mentions in channels. */
const MENTIONS = ["<@everyone", "@everyone", "<qqbot-at-", "<@"];
const ID = /^[\w.-]{1,128}$/;

/**
 * QQ bots, API v2: plain text to users, groups and text channels. The API deduplicates replies to a user's message
 * (msg_id) only. A message that waits for QQ's review counts as delivered.
 */
export const qqbot: Platform<Settings> = {
  name: words.name,
  missing: ({ app_id: id, client_secret: secret }) => [
    ...(id === undefined ? ["app_id (QQ_APP_ID)"] : []),
    ...(secret === undefined ? ["client_secret (QQ_CLIENT_SECRET)"] : []),
  ],
  create({ app_id: id = "", client_secret: secret = "", ...settings }, { clock, version }) {
    registerSecret(secret.trim());
    const caller = { title: words.title, clock, version };
    const baseUrl = settings.base_url ?? (settings.sandbox === true ? SANDBOX_API : API);
    const call = createCall({ ...caller, baseUrl });
    const callTokens = createCall({ ...caller, baseUrl: settings.token_url ?? TOKEN_HOST });
    const credentials = { appId: id.trim(), clientSecret: secret.trim() };
    const tokens = new AccessTokens(clock, tokenRequest(callTokens, credentials));
    return {
      name: words.name,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      supportsIdempotencyFor: (message) => readMessage(words.name, message)?.extra["msg_id"] !== undefined,
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const recipient = parseRecipient(message.chat);
        const problem = findProblem(message);
        if (recipient === undefined || problem !== undefined)
          return { status: "permanent", error: problem ?? "" };
        const parts = renderParts(message.text, {
          format: "plain",
          limit: settings.text_limit ?? TEXT_LIMIT,
          unit: "codepoints",
          maxParts: MAX_PARTS,
          mentions: recipient.kind === "channel" ? MENTIONS : [],
        });
        const request = { call, tokens, recipient, message, delivery, options };
        return sendParts(parts, request, (part, index) => sendPart(request, part.text, index));
      },
    };
  },
};

interface Recipient {
  readonly kind: Kind;
  readonly id: string;
}

interface SendRequest {
  readonly call: Call;
  readonly tokens: AccessTokens;
  readonly recipient: Recipient;
  readonly message: Message;
  readonly delivery: Delivery;
  readonly options: SendOptions;
}

/** Valid for up to 2 hours; the API issues a new token only in the last minute. */
function tokenRequest(
  call: Call,
  body: { readonly appId: string; readonly clientSecret: string },
): RequestToken {
  return async (options) => {
    const answer = await call("QqbotToken", (client) => client.qqbotAccessToken({ body }), options);
    const { access_token: value, expires_in: seconds = 0 } = (answer.kind === "answer" && answer.body) || {};
    if (answer.kind === "none" || answer.status >= 300 || !value) {
      return { kind: "none", outcome: tokenFailure(answer) };
    }
    return { kind: "issued", value, lifeMs: (Number(seconds) || 0) * 1000 };
  };
}

/** Requests a new token, once, when the cached one is refused. */
async function sendPart(request: SendRequest, text: string, index: number): Promise<SendOutcome> {
  const { tokens, delivery, options } = request;
  for (;;) {
    const token = await tokens.get(options);
    if (token.kind === "none") return token.outcome;
    const answer = await post(request, token.value, contentOf(request, text, index));
    if (answer.kind === "none") return answer.outcome;
    const isRefused = isTokenRefused(answer);
    if (isRefused) tokens.drop(token.value);
    if (!isRefused || !token.isReused) return outcomeOf(answer, delivery.attempt > 1);
  }
}

function post(
  { call, recipient: { kind, id }, options }: SendRequest,
  token: string,
  body: QqbotMessage,
): Promise<PlatformAnswer<QqbotAnswer> | NoAnswer> {
  const headers = { Authorization: `QQBot ${token}` };
  return call(
    "QqbotAnswer",
    (client) => {
      if (kind === "user") return client.qqbotSendToUser({ path: { openid: id }, headers, body });
      if (kind === "group") return client.qqbotSendToGroup({ path: { group_openid: id }, headers, body });
      const { msg_type: _type, msg_seq: _seq, ...rest } = body;
      return client.qqbotSendToChannel({ path: { qqbot_channel_id: id }, headers, body: rest });
    },
    options,
  );
}

function contentOf({ message: { extra }, delivery }: SendRequest, text: string, index: number): QqbotMessage {
  const { msg_id: messageId, event_id: eventId, msg_seq: first } = extra;
  const answers = {
    ...(isText(messageId) ? { msg_id: messageId } : {}),
    ...(isText(eventId) ? { event_id: eventId } : {}),
  };
  if (Object.keys(answers).length === 0) return { content: text, msg_type: 0 };
  const sequence = (isSequence(first) ? Number(first) : firstOf(delivery)) + index;
  return { content: text, msg_type: 0, ...answers, msg_seq: sequence };
}

/**
 * Returns the sequence number of the first part. QQ refuses a number that an earlier reply to the same message had, so
 * every attempt must use the same number, and another reply a different one.
 */
function firstOf({ id }: Delivery): number {
  return 1 + (Number.parseInt(sha256(id).slice(0, 8), 16) % 1_000_000);
}

function parseRecipient(chat: string): Recipient | undefined {
  const at = chat.indexOf(":");
  const [kind, id] = [chat.slice(0, at), chat.slice(at + 1)];
  if (kind !== "user" && kind !== "group" && kind !== "channel") return undefined;
  return ID.test(id) ? { kind, id } : undefined;
}

function findProblem({ chat, extra }: Message): string | undefined {
  if (chat === "") {
    return "The message has no chat: set deliver_extra.chat_id, or platforms.qqbot.home_channel (QQBOT_HOME_CHANNEL).";
  }
  if (!parseRecipient(chat)) return "The chat must be user:OPENID, group:OPENID or channel:ID.";
  const { msg_seq: first } = extra;
  if (first === undefined || isSequence(first)) return undefined;
  return "deliver_extra.msg_seq must be a whole number from 1.";
}

function isSequence(value: unknown): boolean {
  return /^[1-9]\d{0,8}$/.test(String(value));
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Accepted, and shown after QQ's review. */
const WAITS_FOR_CHECK = new Set([304023, 304024]);
/** The same msg_id and msg_seq were sent before. */
const DUPLICATE = 40054005;
/** 11241 and 11243: the token is missing or wrong. 11244: it expired. */
const TOKEN_REFUSED = new Set([11241, 11243, 11244]);
/** Rate limits of the channel, the guild or the bot. */
const TOO_FAST = new Set([20028, 610013, 1100100, 1100308]);
const TOO_FAST_MS = 60_000;
/** Temporary failures, according to QQ's documents. */
const PASSING = new Set([11242, 11252, 11263, 11281, 304006, 304007, 304008, 304009, 304016, 1100300]);
/** The quota of replies to a message, or of messages without one, is used up. */
const USED_UP = new Set([22009, 304022, 304035, 304045, 304047, 304049, 304050]);
/** 304026 to 304028: the replied-to message is wrong, too old, or was not for the bot. */
const BAD_ANSWER = new Set([304026, 304027, 304028]);
/** The recipient accepts only replies. */
const NOT_WANTED = new Set([304031, 304046, 304048]);
/** msg_id is wrong, too old or used up, or missing where it is required. */
const isReplyCode = (code: number) => Math.floor(code / 1000) === 40034;

const ASK_FOR_REPLY =
  "QQ bots can mostly only reply. Ask for a message to the bot in that chat, and set its id as deliver_extra.msg_id.";

/** Returns the outcome of a response. `isRepeat`: an earlier attempt at this part may have arrived. */
function outcomeOf(answer: PlatformAnswer<QqbotAnswer>, isRepeat: boolean): SendOutcome {
  const { status, body } = answer;
  const code = codeOf(answer);
  if (code !== undefined && WAITS_FOR_CHECK.has(code)) return { status: "delivered" };
  if (code === DUPLICATE && isRepeat) return { status: "delivered" };
  if (status < 300 && code === undefined && body?.id !== undefined) return { status: "delivered" };
  const failure = outcomeOfAnswer(answer, { ...words, reason: reasonOf(body, code) });
  return code === undefined ? failure : outcomeOfCode(code, failure, answer);
}

function outcomeOfCode(
  code: number,
  failure: SendFailure,
  { status, body, retryAfterMs }: PlatformAnswer<QqbotAnswer>,
): SendFailure {
  const summary = `QQ refused the message: ${reasonOf(body, code)}.`;
  if (TOO_FAST.has(code)) return throttled(summary, retryAfterMs ?? TOO_FAST_MS);
  if (PASSING.has(code)) return { status: "retry", error: summary };
  const hint = hintOf(code);
  if (hint !== undefined) return { status: "permanent", error: `${summary} ${hint}` };
  // 201 and 202 carry errors too.
  return status < 300 ? { status: "permanent", error: summary } : failure;
}

function hintOf(code: number): string | undefined {
  if (code === DUPLICATE) return "Another message has used deliver_extra.msg_seq. Remove it.";
  if (USED_UP.has(code)) return `The quota of the chat is used up for now. ${ASK_FOR_REPLY}`;
  if (BAD_ANSWER.has(code) || isReplyCode(code) || NOT_WANTED.has(code)) return ASK_FOR_REPLY;
  if (code === 304003) return "Register the links in the text at q.qq.com, or remove them.";
  if (TOKEN_REFUSED.has(code))
    return "Check app_id (QQ_APP_ID) and client_secret (QQ_CLIENT_SECRET) of platforms.qqbot.";
  return undefined;
}

/** Returns whether the token is invalid or expired. */
function isTokenRefused(answer: PlatformAnswer<QqbotAnswer>): boolean {
  return answer.status === 401 || TOKEN_REFUSED.has(codeOf(answer) ?? 0);
}

/** Returns why QQ issued no token. */
function tokenFailure(answer: PlatformAnswer<QqbotToken> | NoAnswer): SendFailure {
  if (answer.kind === "none") return answer.outcome;
  const { status, body } = answer;
  const reason = body?.message;
  const failure = outcomeOfAnswer(answer, { ...words, addressKey: "token_url", reason });
  const isRefused = status < 300 && body?.code !== undefined;
  if (failure.status !== "permanent" && !isRefused) return failure;
  if (status >= 300 && status < 400) return failure;
  return {
    status: "permanent",
    error: `QQ issued no token${reason === undefined ? "" : `: ${reason}`}. Check app_id (QQ_APP_ID) and client_secret (QQ_CLIENT_SECRET) of platforms.qqbot.`,
  };
}

function codeOf({ body }: PlatformAnswer<QqbotAnswer>): number | undefined {
  return body?.code || body?.err_code || undefined;
}

function reasonOf(body: QqbotAnswer | undefined, code: number | undefined): string | undefined {
  const message = body?.message?.trim();
  return code === undefined ? message : `${message || "no reason given"} (${code})`;
}
