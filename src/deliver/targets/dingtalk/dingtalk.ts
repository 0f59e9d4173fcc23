import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { readMessage } from "../../message.ts";
import type { Platform } from "../../platform/platform.ts";
import { createAppRobot } from "./app.ts";
import { dingtalkWords } from "./outcome.ts";
import { createWebhookRobot, parseWebhook } from "./webhook.ts";
import { WEBHOOK_CHAT } from "../../platform/robot-webhook.ts";

type Settings = PlatformSettings<"dingtalk">;

const WEBHOOK_FORM =
  "a webhook_url (DINGTALK_WEBHOOK_URL) as DingTalk shows it, https://oapi.dingtalk.com/robot/send?access_token=...";

/**
 * DingTalk, as Markdown. The robot of a group (webhook_url) gets what names no chat, or `webhook`; the robot of an app
 * (client_id and client_secret) what names one: the openConversationId of a group, or user:ID. Repeats are not told apart.
 */
export const dingtalk: Platform<Settings> = {
  name: dingtalkWords.name,
  missing({ webhook_url: url, client_id: id, client_secret: secret }) {
    if (url !== undefined && !parseWebhook(url)) return [WEBHOOK_FORM];
    if (id !== undefined && secret === undefined) return ["client_secret (DINGTALK_CLIENT_SECRET)"];
    if (secret !== undefined && id === undefined) return ["client_id (DINGTALK_CLIENT_ID)"];
    if (url !== undefined || id !== undefined) return [];
    return [
      "webhook_url (DINGTALK_WEBHOOK_URL), or client_id (DINGTALK_CLIENT_ID) with client_secret (DINGTALK_CLIENT_SECRET)",
    ];
  },
  create(settings, parts) {
    const address = parseWebhook(settings.webhook_url ?? "");
    const webhook = address && createWebhookRobot(address, settings, parts);
    const app = settings.client_id === undefined ? undefined : createAppRobot(settings, parts);
    const home = (app && settings.home_channel) ?? (webhook && WEBHOOK_CHAT);
    return {
      name: dingtalkWords.name,
      ...(home === undefined ? {} : { home }),
      // What goes through the app's robot need not wait for the other one.
      isReady: () => app !== undefined || webhook?.waitMs === 0,
      async send(delivery, options) {
        const message = readMessage(dingtalkWords.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const isForWebhook = message.chat === "" || message.chat === WEBHOOK_CHAT;
        const robot = isForWebhook ? webhook : app;
        if (robot) return robot.send(message, delivery, options);
        return { status: "permanent", error: isForWebhook ? NO_CHAT : NO_APP };
      },
    };
  },
};

const NO_CHAT =
  "No chat is named: set deliver_extra.chat_id or platforms.dingtalk.home_channel (DINGTALK_HOME_CHANNEL), or platforms.dingtalk.webhook_url (DINGTALK_WEBHOOK_URL) for the group of a robot.";
const NO_APP =
  "Only the webhook of one group is set, which reaches no other chat: name none, or set client_id (DINGTALK_CLIENT_ID) and client_secret (DINGTALK_CLIENT_SECRET) of platforms.dingtalk.";
