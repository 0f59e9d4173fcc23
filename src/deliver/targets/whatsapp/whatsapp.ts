import type {
  WhatsappBridgeMessage,
  WhatsappMessage,
} from "../../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { createCall } from "../../platform/call.ts";
import { readMessage, type Message } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { Platform } from "../../platform/platform.ts";
import type { SendOptions, SendOutcome } from "../../target.ts";
import { renderParts } from "../../text/parts.ts";
import { bridgeChat, cloudNumber } from "./chat.ts";
import { bridgeOutcome, cloudOutcome } from "./outcome.ts";

type Settings = PlatformSettings<"whatsapp">;
type Parts = Parameters<Platform<Settings>["create"]>[1];

/** Cloud API, text object: body has up to 4096 characters. */
const TEXT_LIMIT = 4096;

/** One text to one chat, by either way. */
interface Sender {
  /** The chat as this way writes it. */
  readonly chat: (chat: string) => { readonly id: string } | { readonly problem: string };
  readonly post: (letter: OutboxMessage, options: SendOptions) => Promise<SendOutcome>;
}

interface OutboxMessage {
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
