import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { readMessage, type Message } from "../../message.ts";
import type { Platform } from "../../platform/platform.ts";
import { WEBHOOK_CHAT } from "../../platform/robot-webhook.ts";
import { createWecomBot } from "./bot.ts";
import { wecomWords } from "./outcome.ts";
import { createWebhookRobot, parseWebhook } from "./webhook.ts";

type Settings = PlatformSettings<"wecom">;

const WEBHOOK_FORM =
  "a webhook_url (WECOM_WEBHOOK_URL) as WeCom shows it, https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=...";

/**
 * WeCom, as Markdown. The robot of a group (webhook_url) gets what names no chat, or `webhook`; an intelligent bot (bot_id
 * and secret) what names a user or a group, over the one connection that it may have. Repeats are not told apart.
 */
export const wecom: Platform<Settings> = {
  name: wecomWords.name,
  missing({ webhook_url: url, bot_id: id, secret }) {
    if (url !== undefined && !parseWebhook(url)) return [WEBHOOK_FORM];
    if (id !== undefined && secret === undefined) return ["secret (WECOM_SECRET)"];
    if (secret !== undefined && id === undefined) return ["bot_id (WECOM_BOT_ID)"];
    if (url !== undefined || id !== undefined) return [];
    return ["bot_id (WECOM_BOT_ID) with secret (WECOM_SECRET), or webhook_url (WECOM_WEBHOOK_URL)"];
  },
  create(settings, parts) {
    const address = parseWebhook(settings.webhook_url ?? "");
    const webhook = address && createWebhookRobot(address, settings, parts);
    const bot = settings.bot_id === undefined ? undefined : createWecomBot(settings, parts);
    const home = (bot && settings.home_channel) ?? (webhook && WEBHOOK_CHAT);
    const isForWebhook = ({ chat }: Message) => chat === "" || chat === WEBHOOK_CHAT;
    return {
      name: wecomWords.name,
      ...(home === undefined ? {} : { home }),
      // What goes through one of the two need not wait for the other.
      isReady: () => (bot?.isReady ?? false) || webhook?.waitMs === 0,
      async send(delivery, options) {
        const message = readMessage(wecomWords.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const way = isForWebhook(message) ? webhook : bot;
        if (way) return way.send(message, delivery, options);
        return { status: "permanent", error: isForWebhook(message) ? NO_CHAT : NO_BOT };
      },
      close: async () => bot?.close(),
    };
  },
};

const NO_CHAT =
  "No chat is named: set deliver_extra.chat_id or platforms.wecom.home_channel (WECOM_HOME_CHANNEL), or platforms.wecom.webhook_url (WECOM_WEBHOOK_URL) for the group of a robot.";
const NO_BOT =
  "Only the webhook of one group is set, which reaches no other chat: name none, or set bot_id (WECOM_BOT_ID) and secret (WECOM_SECRET) of platforms.wecom.";
