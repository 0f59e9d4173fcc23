import type { PlatformSettings } from "../../../config/platform-settings.ts";
import {
  type Platform,
  sendParts,
  type PlatformParts,
  type SendOptions,
  type SendOutcome,
} from "../../target.ts";
import {
  dingtalkWords,
  isTokenRefused,
  outcomeOfApp,
  tokenFailure,
  dingtalkTexts,
  type DingtalkText,
  outcomeOfWebhook,
} from "./text.ts";
import {
  createGroupRobot,
  createRobotTarget,
  parseRobotWebhook,
  type GroupRobot,
  type RobotSender,
  type RobotWebhook,
} from "../../platform/robot-webhook.ts";
import type {
  DingtalkAnswer,
  DingtalkRobotMessage,
} from "../../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../../base/observe.ts";
import { AccessTokens, type RequestToken } from "../../platform/access-token.ts";
import { createCall, type Call, type NoAnswer, type PlatformAnswer } from "../../platform/call.ts";
import type { Clock } from "../../../base/time.ts";
import { hmacSha256 } from "../../../base/text.ts";

type Settings = PlatformSettings<"dingtalk">;

const WEBHOOK_FORM =
  "a webhook_url (DINGTALK_WEBHOOK_URL) as DingTalk shows it, https://oapi.dingtalk.com/robot/send?access_token=...";

/**
 * DingTalk, Markdown. Messages without a chat, or to `webhook`, go to the robot of a group (webhook_url). Messages to
 * the openConversationId of a group or to user:ID go through the robot of an app (client_id and client_secret). The API
 * does not deduplicate.
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
    return createRobotTarget({
      name: dingtalkWords.name,
      home: settings.home_channel,
      webhook,
      app,
      noChat: NO_CHAT,
      noApp: NO_APP,
      // Messages through the app's robot need not wait for the webhook.
      isReady: () => app !== undefined || webhook?.waitMs === 0,
    });
  },
};

const NO_CHAT =
  "The message has no chat: set deliver_extra.chat_id or platforms.dingtalk.home_channel (DINGTALK_HOME_CHANNEL), or platforms.dingtalk.webhook_url (DINGTALK_WEBHOOK_URL) for the group of a robot.";
const NO_APP =
  "Only the webhook of one group is configured. Remove the chat, or set client_id (DINGTALK_CLIENT_ID) and client_secret (DINGTALK_CLIENT_SECRET) of platforms.dingtalk.";

const HOST = "https://api.dingtalk.com";
/** "Robot sends a group message": `msgParam`. */
const MAX_PARAM_BYTES = 15_000;
/** Bytes of a text; the rest of `msgParam` is for the title and the JSON syntax. */
const APP_TEXT_LIMIT = 14_500;
const MAX_APP_PARTS = 20;
const USER = "user:";
const GROUP_ID = /^[\w+/=.-]{1,128}$/;
const USER_ID = /^[\w@.-]{1,64}$/;

interface SendRequest {
  readonly call: Call;
  readonly tokens: AccessTokens;
  readonly robotCode: string;
  readonly chat: string;
  readonly options: SendOptions;
}

/** Creates the robot of an app, which writes to its groups and to users of its organization. */
function createAppRobot(
  { client_id: id = "", client_secret: secret = "", ...settings }: PlatformSettings<"dingtalk">,
  { clock, version }: Pick<PlatformParts, "clock" | "version">,
): RobotSender {
  registerSecret(secret.trim());
  const call = createCall({ title: dingtalkWords.title, baseUrl: settings.base_url ?? HOST, clock, version });
  const tokens = new AccessTokens(clock, tokenRequest(call, { appKey: id.trim(), appSecret: secret.trim() }));
  const limit = Math.min(settings.text_limit ?? APP_TEXT_LIMIT, APP_TEXT_LIMIT);
  return {
    async send(message, delivery, options) {
      const { chat } = message;
      const problem = findChatProblem(chat);
      if (problem !== undefined) return { status: "permanent", error: problem };
      const fits = (text: DingtalkText) => new TextEncoder().encode(paramOf(text)).length <= MAX_PARAM_BYTES;
      const texts = dingtalkTexts(message, { limit, maxParts: MAX_APP_PARTS, fits });
      const request = { call, tokens, robotCode: id.trim(), chat, options };
      return sendParts(texts, { delivery, options }, (text) => sendPart(request, text));
    },
  };
}

/** "Obtain the access token of an internal app": valid for 2 hours. */
function tokenRequest(
  call: Call,
  body: { readonly appKey: string; readonly appSecret: string },
): RequestToken {
  return async (options) => {
    const answer = await call("DingtalkToken", (client) => client.dingtalkAccessToken({ body }), options);
    const { accessToken: value, expireIn = 0 } = (answer.kind === "answer" && answer.body) || {};
    if (answer.kind === "none" || answer.status >= 300 || !value) {
      return { kind: "none", outcome: tokenFailure(answer) };
    }
    return { kind: "issued", value, lifeMs: expireIn * 1000 };
  };
}

/** Requests a new token, once, when the cached one is refused. */
async function sendPart(request: SendRequest, text: DingtalkText): Promise<SendOutcome> {
  const { tokens, options } = request;
  for (;;) {
    const token = await tokens.get(options);
    if (token.kind === "none") return token.outcome;
    const answer = await post(request, token.value, text);
    if (answer.kind === "none") return answer.outcome;
    const isRefused = isTokenRefused(answer);
    if (isRefused) tokens.drop(token.value);
    if (!isRefused || !token.isReused) return outcomeOfApp(answer);
  }
}

function post(
  { call, robotCode, chat, options }: SendRequest,
  token: string,
  text: DingtalkText,
): Promise<PlatformAnswer<DingtalkAnswer> | NoAnswer> {
  const headers = { "x-acs-dingtalk-access-token": token };
  const content = {
    robotCode,
    msgKey: text.kind === "text" ? "sampleText" : "sampleMarkdown",
    msgParam: paramOf(text),
  } as const;
  return call(
    "DingtalkAnswer",
    (client) =>
      chat.startsWith(USER)
        ? client.dingtalkSendToUsers({ headers, body: { ...content, userIds: [chat.slice(USER.length)] } })
        : client.dingtalkSendToGroup({ headers, body: { ...content, openConversationId: chat } }),
    options,
  );
}

function paramOf(text: DingtalkText): string {
  return JSON.stringify(
    text.kind === "text" ? { content: text.content } : { title: text.title, text: text.text },
  );
}

function findChatProblem(chat: string): string | undefined {
  const isGood = chat.startsWith(USER) ? USER_ID.test(chat.slice(USER.length)) : GROUP_ID.test(chat);
  return isGood ? undefined : "The chat must be the openConversationId of a group, or user: and a user's id.";
}

/** Larger bodies fail with error 460101. */
const MAX_BODY_BYTES = 20_000;
/** Bytes of a text, which is longer as JSON. */
const WEBHOOK_TEXT_LIMIT = 15_000;
const MAX_WEBHOOK_TEXT_LIMIT = 19_000;
const MAX_WEBHOOK_PARTS = 10;

function parseWebhook(url: string): RobotWebhook | undefined {
  return parseRobotWebhook(url, "/robot/send", "access_token");
}

/** Creates the robot of one group. */
function createWebhookRobot(
  { baseUrl, key }: RobotWebhook,
  { webhook_secret: secret = "", ...settings }: PlatformSettings<"dingtalk">,
  { clock, version }: Pick<PlatformParts, "clock" | "version">,
): GroupRobot {
  registerSecret(key);
  registerSecret(secret.trim());
  const call = createCall({ title: dingtalkWords.title, baseUrl, clock, version });
  const limit = Math.min(settings.text_limit ?? WEBHOOK_TEXT_LIMIT, MAX_WEBHOOK_TEXT_LIMIT);
  const fits = (text: DingtalkText) => sizeOf(toBody(text)) <= MAX_BODY_BYTES;
  return createGroupRobot({
    clock,
    bodiesOf: (message) => dingtalkTexts(message, { limit, maxParts: MAX_WEBHOOK_PARTS, fits }).map(toBody),
    async post(body: DingtalkRobotMessage, options) {
      const query = { access_token: key, ...signed(secret.trim(), clock) };
      const answer = await call(
        "DingtalkRobotAnswer",
        (client) => client.dingtalkRobotSend({ query, body }),
        options,
      );
      return answer.kind === "none" ? answer.outcome : outcomeOfWebhook(answer);
    },
  });
}

/** "Custom robot security settings": the signature is valid for an hour. */
function signed(secret: string, clock: Clock): { readonly timestamp?: string; readonly sign?: string } {
  if (secret === "") return {};
  const timestamp = String(clock.now());
  const mac = hmacSha256(secret, `${timestamp}\n${secret}`);
  return { timestamp, sign: btoa(String.fromCharCode(...mac)) };
}

function toBody(text: DingtalkText): DingtalkRobotMessage {
  return text.kind === "text"
    ? { msgtype: "text", text: { content: text.content } }
    : { msgtype: "markdown", markdown: { title: text.title, text: text.text } };
}

function sizeOf(body: DingtalkRobotMessage): number {
  return new TextEncoder().encode(JSON.stringify(body)).length;
}
