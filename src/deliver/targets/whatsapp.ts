import type {
  WhatsappBridgeMessage,
  WhatsappMessage,
  WhatsappAnswer,
  WhatsappBridgeAnswer,
} from "../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import { createCall, type PlatformAnswer, outcomeOfAnswer, summarize, throttled } from "../platform/call.ts";
import {
  readMessage,
  type Message,
  sendParts,
  type Platform,
  type SendOptions,
  type SendOutcome,
} from "../target.ts";
import { renderParts } from "../text/parts.ts";
import { isRecord } from "../../base/data.ts";

type Settings = PlatformSettings<"whatsapp">;
type Parts = Parameters<Platform<Settings>["create"]>[1];

/** Cloud API, text object: body has up to 4096 characters. */
const TEXT_LIMIT = 4096;

/** Sends one text to one chat, through the Cloud API or a bridge. */
interface Sender {
  /** Returns the chat in this API's form. */
  readonly chat: (chat: string) => { readonly id: string } | { readonly problem: string };
  readonly post: (text: WhatsappText, options: SendOptions) => Promise<SendOutcome>;
}

interface WhatsappText {
  readonly to: string;
  readonly text: string;
  readonly extra: Message["extra"];
  /** Set for the first part only. */
  readonly replyTo: string | undefined;
}

/**
 * WhatsApp Cloud API, POST messages; or an own bridge, POST /send. Outside 24 hours after the recipient's last message
 * the Cloud API accepts only templates, which agentd does not send. Neither API deduplicates.
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

type Found = { readonly id: string } | { readonly problem: string };

const MISSING =
  "The message has no chat: set deliver_extra.chat_id, or platforms.whatsapp.home_channel (WHATSAPP_CLOUD_HOME_CHANNEL).";
const NO_NUMBER = "The chat must be a phone number with its country code, such as whatsapp:+15550100123.";

/** Returns the chat as the Cloud API expects it: digits. */
function cloudNumber(chat: string): Found {
  if (chat === "") return { problem: MISSING };
  if (/@g\.us$/i.test(chat)) {
    return { problem: "The Cloud API cannot write to groups. Use a phone number, or configure a bridge." };
  }
  const digits = digitsOf(chat.replace(/@(s\.whatsapp\.net|c\.us)$/i, ""));
  return digits === undefined ? { problem: NO_NUMBER } : { id: digits };
}

/** Returns the chat as bridges expect it: `number@s.whatsapp.net` or `id@g.us`. */
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
  "Check that the token has the permission whatsapp_business_messaging, and check platforms.whatsapp.phone_number_id.";
const PARAMETER = "Check the chat, deliver_extra, platforms.whatsapp.phone_number_id and api_version.";
const ACCOUNT = "See the account in the WhatsApp Manager.";

/** WhatsApp Business Platform, Cloud API error codes. */
const throttling = new Set([4, 80_007, 130_429, 131_056]);
const passing = new Set([1, 2, 131_000, 131_016, 131_048, 131_057, 133_004]);
const permanent: ReadonlyMap<number, string> = new Map([
  [0, CREDENTIALS],
  [3, PERMISSION],
  [10, PERMISSION],
  [33, "The sending number does not exist. Check platforms.whatsapp.phone_number_id."],
  [100, PARAMETER],
  [190, CREDENTIALS],
  [368, ACCOUNT],
  [130_497, "The account may not write to users in that country."],
  [131_005, PERMISSION],
  [131_008, PARAMETER],
  [131_009, PARAMETER],
  [131_021, "Sender and recipient are the same number. Check the chat."],
  [
    131_026,
    "The recipient must use a current version of WhatsApp under this number and have accepted its terms. Check the chat.",
  ],
  [131_030, "A test number can write only to allowed numbers: add this one in the App Dashboard."],
  [131_031, ACCOUNT],
  [131_042, "The payment method of the account has a problem."],
  [131_045, "Register the sending number with the Cloud API."],
  [
    131_047,
    "The recipient has not written within the last 24 hours, so WhatsApp accepts only templates. Ask them to write first, or use another platform.",
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

/** Returns the outcome of a bridge: 503 while it is not connected, 400 for a missing field, 500 for anything else. */
function bridgeOutcome(answer: PlatformAnswer<WhatsappBridgeAnswer>): SendOutcome {
  const { status, body } = answer;
  if (status < 300 && body?.success === true) return { status: "delivered" };
  const failure = outcomeOfAnswer(answer, { ...bridgeWords, reason: body?.error });
  if (status < 300 && body?.success === false) {
    return {
      status: "retry",
      error: `The WhatsApp bridge could not send: ${body.error ?? "no reason given"}.`,
    };
  }
  if (status === 503)
    return { ...failure, error: `${failure.error} Check that the bridge is signed in to WhatsApp.` };
  return failure;
}
