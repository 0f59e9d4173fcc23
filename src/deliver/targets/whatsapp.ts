import type {
  WhatsappBridgeMessage,
  WhatsappMessage,
  WhatsappAnswer,
  WhatsappBridgeAnswer,
} from "../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../base/observe/redact.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import { createCall, type PlatformAnswer, outcomeOfAnswer, summarize, throttled } from "../platform/call.ts";
import { readMessage, type Message } from "../message.ts";
import { sendParts, type Platform, type SendOptions, type SendOutcome } from "../target.ts";
import { renderParts } from "../text/parts.ts";
import { isRecord } from "../../base/json/schema.ts";

type Settings = PlatformSettings<"whatsapp">;
type Parts = Parameters<Platform<Settings>["create"]>[1];

/** Cloud API, text object: body has up to 4096 characters. */
const TEXT_LIMIT = 4096;

/** One text to one chat, by either way. */
interface Sender {
  /** The chat as this way writes it. */
  readonly chat: (chat: string) => { readonly id: string } | { readonly problem: string };
  readonly post: (text: WhatsappText, options: SendOptions) => Promise<SendOutcome>;
}

interface WhatsappText {
  readonly to: string;
  readonly text: string;
  readonly extra: Message["extra"];
  /** Only the first part is a reply. */
  readonly replyTo: string | undefined;
}

/**
 * WhatsApp Cloud API, POST messages; or a bridge of one's own, POST /send. Whoever has not written within 24 hours
 * gets only templates by the Cloud API, which agentd does not send. Repeats are not told apart.
 */
export const whatsapp: Platform<Settings> = {
  name: "whatsapp",
  missing({ bridge_url: bridge, phone_number_id: number, access_token: token }) {
    if (bridge !== undefined) return [];
    return [
      ...(number === undefined ? ["phone_number_id (WHATSAPP_CLOUD_PHONE_NUMBER_ID)"] : []),
      ...(token === undefined ? ["access_token (WHATSAPP_CLOUD_ACCESS_TOKEN)"] : []),
    ];
  },
  create(settings, parts) {
    const { home_channel: home, bridge_url: bridgeUrl } = settings;
    const sender = bridgeUrl === undefined ? cloudSender(settings, parts) : bridgeSender(bridgeUrl, parts);
    return {
      name: "whatsapp",
      ...(home === undefined ? {} : { home }),
      async send(delivery, options) {
        const message = readMessage("whatsapp", delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const { text, extra } = message;
        const chat = sender.chat(message.chat);
        if ("problem" in chat) return { status: "permanent", error: chat.problem };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const reply = typeof extra["reply_to"] === "string" ? extra["reply_to"] : undefined;
        const rendered = renderParts(text, { format: "whatsapp", limit, unit: "utf16" });
        return sendParts(rendered, { delivery, options }, (part, index) => {
          const replyTo = index === 0 ? reply : undefined;
          return sender.post({ to: chat.id, text: part.text, extra, replyTo }, options);
        });
      },
    };
  },
};

function cloudSender(settings: Settings, { clock, version: agentd }: Parts): Sender {
  const { phone_number_id: phoneNumberId = "", access_token: token = "" } = settings;
  const { api_version: version = "v20.0", base_url: baseUrl = "https://graph.facebook.com" } = settings;
  registerSecret(token);
  const call = createCall({ title: "WhatsApp", baseUrl, clock, version: agentd });
  const request = { path: { version, phoneNumberId }, headers: { Authorization: `Bearer ${token}` } };
  return {
    chat: cloudNumber,
    async post({ to, text, extra, replyTo }, options) {
      const preview = extra["preview_url"];
      const body: WhatsappMessage = {
        messaging_product: "whatsapp",
        recipient_type: "individual",
        to,
        type: "text",
        text: { body: text, ...(typeof preview === "boolean" ? { preview_url: preview } : {}) },
        ...(replyTo === undefined ? {} : { context: { message_id: replyTo } }),
      };
      const answer = await call(
        "WhatsappAnswer",
        (client) => client.whatsappSendMessage({ ...request, body }),
        options,
      );
      return answer.kind === "none" ? answer.outcome : cloudOutcome(answer);
    },
  };
}

function bridgeSender(baseUrl: string, { clock, version }: Parts): Sender {
  const call = createCall({ title: "The WhatsApp bridge", baseUrl, clock, version });
  return {
    chat: bridgeChat,
    async post({ to, text, replyTo }, options) {
      const body: WhatsappBridgeMessage = {
        chatId: to,
        message: text,
        ...(replyTo === undefined ? {} : { replyTo }),
      };
      const answer = await call(
        "WhatsappBridgeAnswer",
        (client) => client.whatsappBridgeSend({ body }),
        options,
      );
      return answer.kind === "none" ? answer.outcome : bridgeOutcome(answer);
    },
  };
}

/** Chats of WhatsApp: a phone number, or the id that WhatsApp itself has for a chat, `number@s.whatsapp.net` or `id@g.us`. Pure. */

type Found = { readonly id: string } | { readonly problem: string };

const MISSING =
  "No chat is named: set deliver_extra.chat_id, or platforms.whatsapp.home_channel (WHATSAPP_CLOUD_HOME_CHANNEL).";
const NO_NUMBER = "The chat must be a phone number with its country code, such as whatsapp:+15550100123.";

/** As the Cloud API takes it: digits. */
function cloudNumber(chat: string): Found {
  if (chat === "") return { problem: MISSING };
  if (/@g\.us$/i.test(chat)) {
    return { problem: "The Cloud API does not write to groups: name a phone number, or set up a bridge." };
  }
  const digits = digitsOf(chat.replace(/@(s\.whatsapp\.net|c\.us)$/i, ""));
  return digits === undefined ? { problem: NO_NUMBER } : { id: digits };
}

/** As bridges take it. */
function bridgeChat(chat: string): Found {
  if (chat === "") return { problem: MISSING };
  if (/^[\w.:-]{1,64}@[a-z.]{1,32}$/i.test(chat)) return { id: chat };
  const digits = digitsOf(chat);
  return digits === undefined ? { problem: NO_NUMBER } : { id: `${digits}@s.whatsapp.net` };
}

function digitsOf(text: string): string | undefined {
  const digits = text.replace(/[\s().\u00a0-]+/g, "").replace(/^\+/, "");
  return /^[1-9]\d{6,14}$/.test(digits) ? digits : undefined;
}

const words = { title: "WhatsApp", name: "whatsapp" };
const bridgeWords = { ...words, title: "The WhatsApp bridge", addressKey: "bridge_url" };
const CREDENTIALS = "Check platforms.whatsapp.access_token (WHATSAPP_CLOUD_ACCESS_TOKEN).";
const PERMISSION =
  "Has the token the permission whatsapp_business_messaging, and is platforms.whatsapp.phone_number_id right?";
const PARAMETER = "Check the chat, deliver_extra, platforms.whatsapp.phone_number_id and api_version.";
const ACCOUNT = "See the account in the WhatsApp Manager.";

/** WhatsApp Business Platform, Cloud API error codes. */
const throttling = new Set([4, 80_007, 130_429, 131_056]);
const passing = new Set([1, 2, 131_000, 131_016, 131_048, 131_057, 133_004]);
const permanent: ReadonlyMap<number, string> = new Map([
  [0, CREDENTIALS],
  [3, PERMISSION],
  [10, PERMISSION],
  [33, "The sending number is gone. Check platforms.whatsapp.phone_number_id."],
  [100, PARAMETER],
  [190, CREDENTIALS],
  [368, ACCOUNT],
  [130_497, "The account may not write to people in that country."],
  [131_005, PERMISSION],
  [131_008, PARAMETER],
  [131_009, PARAMETER],
  [131_021, "Sender and receiver are the same number. Check the chat."],
  [
    131_026,
    "Has the receiver WhatsApp under this number, in a current version, and accepted its terms? Check the chat.",
  ],
  [131_030, "A test number writes to allowed numbers only: add this one in the App Dashboard."],
  [131_031, ACCOUNT],
  [131_042, "Something is wrong with the payment method of the account."],
  [131_045, "Register the sending number with the Cloud API."],
  [
    131_047,
    "The receiver has not written within the last 24 hours: then WhatsApp takes templates only. Let them write first, or use another platform.",
  ],
  [131_051, PARAMETER],
  [133_010, "Register the sending number with the Cloud API."],
]);

function cloudOutcome(answer: PlatformAnswer<WhatsappAnswer>): SendOutcome {
  const { status, body, retryAfterMs } = answer;
  if (status < 300 && body?.messages !== undefined) return { status: "delivered" };
  if (!body?.error) return outcomeOfAnswer(answer, words);
  const { code, message = "", error_data: data } = body.error;
  const details = isRecord(data) && typeof data["details"] === "string" ? data["details"] : undefined;
  const reason = `${details ?? message} (${code})`;
  const summary = summarize(answer, { ...words, reason });
  if (throttling.has(code)) return throttled(summary, retryAfterMs);
  if (passing.has(code)) return { status: "retry", error: summary };
  const hint = permanent.get(code) ?? (code >= 200 && code < 300 ? PERMISSION : undefined);
  if (hint !== undefined) return { status: "permanent", error: `${summary} ${hint}` };
  return outcomeOfAnswer(answer, { ...words, reason });
}

/** Of the bridge that contracts describe: 503 while it is not connected, 400 when a field lacks, 500 for all else. */
function bridgeOutcome(answer: PlatformAnswer<WhatsappBridgeAnswer>): SendOutcome {
  const { status, body } = answer;
  if (status < 300 && body?.success === true) return { status: "delivered" };
  const failure = outcomeOfAnswer(answer, { ...bridgeWords, reason: body?.error });
  if (status < 300 && body?.success === false) {
    return {
      status: "retry",
      error: `The WhatsApp bridge could not send: ${body.error ?? "it says no more"}.`,
    };
  }
  if (status === 503) return { ...failure, error: `${failure.error} Is the bridge signed in to WhatsApp?` };
  return failure;
}
