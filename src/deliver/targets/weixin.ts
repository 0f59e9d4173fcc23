import type { WeixinRequest, WeixinAnswer } from "../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import { createCall, type Call, type PlatformAnswer, outcomeOfAnswer, throttled } from "../platform/call.ts";
import {
  readMessage,
  type Message,
  sendParts,
  type Platform,
  repeatMark,
  type Delivery,
  type SendOptions,
  type SendOutcome,
} from "../target.ts";
import { renderParts } from "../text/parts.ts";

type Settings = PlatformSettings<"weixin">;

const words = { title: "WeChat", name: "weixin" };
const TEXT_LIMIT = 4000;
/** The service accepts about ten messages until the user writes again. */
const MAX_PARTS = 10;
const HOST = "https://ilinkai.weixin.qq.com";
const CLIENT_ID_LENGTH = 64;
const USER = /^[\w@.+=-]{1,128}$/;

/**
 * iLink, sendmessage: plain text to users who have written to the bot, with the context token of the user's latest
 * message. Nothing is polled here, so any process may send. The service reports success for some messages that it never
 * shows.
 */
export const weixin: Platform<Settings> = {
  name: words.name,
  missing: ({ token }) => (token === undefined ? ["token (WEIXIN_TOKEN)"] : []),
  create({ token = "", base_url: baseUrl = HOST, ...settings }, { clock, version }) {
    registerSecret(token.trim());
    const call = createCall({ title: words.title, baseUrl, clock, version });
    const sender = { call, token: token.trim(), version };
    return {
      name: words.name,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const context = contextOf(message, settings);
        const problem = findProblem(message, context);
        if (context === undefined || problem !== undefined)
          return { status: "permanent", error: problem ?? "" };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(message.text, {
          format: "plain",
          limit,
          unit: "utf16",
          maxParts: MAX_PARTS,
        });
        const request = { ...sender, user: message.chat, context, delivery, options };
        return sendParts(parts, request, (part, index) => sendPart(request, part.text, index));
      },
    };
  },
};

interface SendRequest {
  readonly call: Call;
  readonly token: string;
  /** Version of agentd. */
  readonly version: string;
  readonly user: string;
  /** The context token. */
  readonly context: string;
  readonly delivery: Delivery;
  readonly options: SendOptions;
}

async function sendPart(request: SendRequest, text: string, index: number): Promise<SendOutcome> {
  const { call, token, version, context, options } = request;
  const headers = {
    AuthorizationType: "ilink_bot_token",
    Authorization: `Bearer ${token}`,
    "X-WECHAT-UIN": randomUin(),
    "iLink-App-Id": "bot",
    "iLink-App-ClientVersion": numberOf(version),
  } as const;
  const body = requestOf(request, text, index);
  const answer = await call("WeixinAnswer", (client) => client.weixinSendMessage({ headers, body }), options);
  return answer.kind === "none" ? answer.outcome : outcomeOf(answer, context);
}

function requestOf(
  { user, context, delivery, version }: SendRequest,
  text: string,
  index: number,
): WeixinRequest {
  return {
    msg: {
      from_user_id: "",
      to_user_id: user,
      client_id: repeatMark(delivery, index, CLIENT_ID_LENGTH),
      message_type: 2,
      message_state: 2,
      item_list: [{ type: 1, text_item: { text } }],
      context_token: context,
    },
    base_info: { channel_version: version, bot_agent: "agentd" },
  };
}

/** Base64 of a random number of 32 bits, written in decimal: "Request headers" of the protocol. */
function randomUin(): string {
  const [number = 0] = crypto.getRandomValues(new Uint32Array(1));
  return btoa(String(number));
}

/** 1.2.3 is 0x00010203, written in decimal. */
function numberOf(version: string): string {
  const [major = 0, minor = 0, patch = 0] = version.split(/[.+-]/, 3).map((part) => Number(part) & 0xff);
  return String((major << 16) | (minor << 8) | patch);
}

function contextOf({ chat, extra }: Message, { context_tokens: known = {} }: Settings): string | undefined {
  const token = extra["context_token"];
  if (typeof token === "string" && token !== "") return token;
  return Object.hasOwn(known, chat) ? known[chat] || undefined : undefined;
}

function findProblem({ chat }: Message, context: string | undefined): string | undefined {
  if (chat === "") {
    return "The message has no user: set deliver_extra.chat_id, or platforms.weixin.home_channel (WEIXIN_HOME_CHANNEL).";
  }
  if (!USER.test(chat)) return "The chat must be the id of a user, such as NAME@im.wechat.";
  if (context !== undefined) return undefined;
  return "WeChat bots can only reply. The user must write to the bot first; set the context token of that message in platforms.weixin.context_tokens or deliver_extra.context_token.";
}

const SESSION_EXPIRED = -14;
const RATE_LIMIT = -12;
/**
 * Too many at once, more than about ten since the user wrote, or an old context token: the service does not say which.
 */
const NOT_NOW = -2;
const RATE_LIMIT_MS = 60_000;

const SIGN_IN =
  "Sign in again by QR code, and set a new token (WEIXIN_TOKEN) and context_tokens of platforms.weixin.";
const WRITE_FIRST =
  "If this continues, ask the user to write to the bot again, and set the token of that message in platforms.weixin.context_tokens (or deliver_extra.context_token).";

/** Returns the outcome of a response. `secret` is the context token, which no error may contain. */
function outcomeOf(answer: PlatformAnswer<WeixinAnswer>, secret: string): SendOutcome {
  const { status, body } = answer;
  const reason = body?.errmsg?.replaceAll(secret, "[redacted]");
  // Some successful responses are empty objects.
  const code = body?.errcode || body?.ret || 0;
  if (status < 300 && body && code === 0) return { status: "delivered" };
  if (status >= 300 || !body) return outcomeOfAnswer(answer, { ...words, reason });
  const summary = `WeChat refused the message: ${reason?.trim() || "no reason given"} (${code}).`;
  if (code === SESSION_EXPIRED) return { status: "permanent", error: `${summary} ${SIGN_IN}` };
  if (code === RATE_LIMIT) return throttled(summary, RATE_LIMIT_MS);
  return { status: "retry", error: code === NOT_NOW ? `${summary} ${WRITE_FIRST}` : summary };
}
