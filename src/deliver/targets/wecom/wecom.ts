import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { type Message, type Platform, sendParts, type PlatformParts } from "../../target.ts";
import {
  createGroupRobot,
  isPlainText,
  createRobotTarget,
  parseRobotWebhook,
  type GroupRobot,
  type RobotSender,
  type RobotWebhook,
} from "../../platform/robot-webhook.ts";
import { wecomWords, WecomConnection, type WecomSdk, outcomeOfWebhook } from "./connection.ts";
import { registerSecret } from "../../../base/observe.ts";
import { renderParts } from "../../text/parts.ts";
import type { WecomRobotMessage } from "../../../../generated/delivery/client/types.gen.ts";
import { createCall } from "../../platform/call.ts";

type Settings = PlatformSettings<"wecom">;

const WEBHOOK_FORM =
  "a webhook_url (WECOM_WEBHOOK_URL) as WeCom shows it, https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=...";

/**
 * WeCom, Markdown. Messages without a chat, or to `webhook`, go to the robot of a group (webhook_url). Messages to a
 * user or a group go through an intelligent bot (bot_id and secret), over its only connection. The API does not
 * deduplicate.
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
    return createRobotTarget({
      name: wecomWords.name,
      home: settings.home_channel,
      webhook,
      app: bot,
      noChat: NO_CHAT,
      noApp: NO_BOT,
      // Messages through one of the two need not wait for the other.
      isReady: () => (bot?.isReady ?? false) || webhook?.waitMs === 0,
      close: async () => bot?.close(),
    });
  },
};

const NO_CHAT =
  "The message has no chat: set deliver_extra.chat_id or platforms.wecom.home_channel (WECOM_HOME_CHANNEL), or platforms.wecom.webhook_url (WECOM_WEBHOOK_URL) for the group of a robot.";
const NO_BOT =
  "Only the webhook of one group is configured. Remove the chat, or set bot_id (WECOM_BOT_ID) and secret (WECOM_SECRET) of platforms.wecom.";

/** "Long connection of intelligent robots": bytes of a Markdown text; plain text is not accepted. */
const BOT_TEXT_LIMIT = 20_480;
const MAX_BOT_PARTS = 10;
const CHAT = /^[\w@.-]{1,128}$/;

interface WecomBot extends RobotSender {
  readonly isReady: boolean;
  close(): Promise<void>;
}

/** Creates an intelligent bot, which writes to users and groups that have written to it. */
export function createWecomBot(
  { bot_id: id = "", secret = "", ...settings }: PlatformSettings<"wecom">,
  { clock, log, store }: PlatformParts,
  load: () => Promise<WecomSdk | undefined> = loadSdk,
): WecomBot {
  registerSecret(secret.trim());
  const connection = new WecomConnection({
    botId: id.trim(),
    secret: secret.trim(),
    url: settings.websocket_url,
    clock,
    log,
    store,
    load,
  });
  const limit = Math.min(settings.text_limit ?? BOT_TEXT_LIMIT, BOT_TEXT_LIMIT);
  return {
    get isReady() {
      return connection.isReady;
    },
    async send({ chat, text }, delivery, options) {
      if (!CHAT.test(chat)) {
        return { status: "permanent", error: "The chat must be the id of a user or of a group." };
      }
      const parts = renderParts(text, {
        format: "commonmark",
        dialect: "without escapes",
        limit,
        unit: "bytes",
        maxParts: MAX_BOT_PARTS,
        mentions: MENTIONS,
      });
      return sendParts(parts, { delivery, options }, (part) =>
        connection.send(chat, part.text, options.signal),
      );
    },
    close: () => connection.close(),
  };
}

/**
 * Loads the SDK with the first message: it is optional. Bundlers keep the names of its CommonJS only under `default`.
 */
async function loadSdk(): Promise<WecomSdk | undefined> {
  try {
    return (await import("@wecom/aibot-node-sdk")).default;
  } catch {
    return undefined;
  }
}

/** "Message push configuration": bytes of a Markdown and of a plain text. */
const MARKDOWN_LIMIT = 4096;
const PLAIN_LIMIT = 2048;
const MAX_PARTS = 10;
/** "Message push configuration": this begins a mention in Markdown. */
const MENTIONS = ["<@"];

function parseWebhook(url: string): RobotWebhook | undefined {
  return parseRobotWebhook(url, "/cgi-bin/webhook/send", "key");
}

/** Creates the robot of one group. `deliver_extra.msgtype: text` sends plain text, and so do values from outside. */
function createWebhookRobot(
  { baseUrl, key }: RobotWebhook,
  settings: PlatformSettings<"wecom">,
  { clock, version }: Pick<PlatformParts, "clock" | "version">,
): GroupRobot {
  registerSecret(key);
  const call = createCall({ title: wecomWords.title, baseUrl, clock, version });
  return createGroupRobot({
    clock,
    bodiesOf: (message) => robotBodies(message, settings),
    async post(body: WecomRobotMessage, options) {
      const answer = await call(
        "WecomRobotAnswer",
        (client) => client.wecomRobotSend({ query: { key }, body }),
        options,
      );
      return answer.kind === "none" ? answer.outcome : outcomeOfWebhook(answer);
    },
  });
}

function robotBodies(
  { text, extra }: Message,
  settings: PlatformSettings<"wecom">,
): readonly WecomRobotMessage[] {
  const isPlain = isPlainText({ text, extra });
  const most = isPlain ? PLAIN_LIMIT : MARKDOWN_LIMIT;
  const parts = renderParts(text, {
    format: isPlain ? "plain" : "commonmark",
    limit: Math.min(settings.text_limit ?? most, most),
    unit: "bytes",
    maxParts: MAX_PARTS,
    mentions: MENTIONS,
  });
  return parts.map(({ text: content }) =>
    isPlain ? { msgtype: "text", text: { content } } : { msgtype: "markdown", markdown: { content } },
  );
}
