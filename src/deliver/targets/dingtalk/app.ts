import type { DingtalkAnswer } from "../../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { AccessTokens, type AskForToken } from "../../platform/access-token.ts";
import { createCall, type Call, type NoAnswer, type PlatformAnswer } from "../../platform/call.ts";
import type { Message } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { PlatformParts } from "../../platform/platform.ts";
import type { Delivery, SendOptions, SendOutcome } from "../../target.ts";
import { dingtalkWords, isTokenRefused, outcomeOfApp, tokenFailure } from "./outcome.ts";
import { dingtalkTexts, type DingtalkText } from "./text.ts";

const HOST = "https://api.dingtalk.com";
/** "Robot sends a group message": `msgParam`. */
const MAX_PARAM_BYTES = 15_000;
/** Bytes of a text; the rest of `msgParam` is for the title and for what JSON adds. */
const TEXT_LIMIT = 14_500;
const MAX_PARTS = 20;
const USER = "user:";
const GROUP_ID = /^[\w+/=.-]{1,128}$/;
const USER_ID = /^[\w@.-]{1,64}$/;

export interface AppRobot {
  send(message: Message, delivery: Delivery, options: SendOptions): Promise<SendOutcome>;
}

interface SendRequest {
  readonly call: Call;
  readonly tokens: AccessTokens;
  readonly robotCode: string;
  readonly chat: string;
  readonly options: SendOptions;
}

/** The robot of an app: writes to groups that it is in, and to users of its organization. */
export function createAppRobot(
  { client_id: id = "", client_secret: secret = "", ...settings }: PlatformSettings<"dingtalk">,
  { clock, version }: Pick<PlatformParts, "clock" | "version">,
): AppRobot {
  registerSecret(secret.trim());
  const call = createCall({ title: dingtalkWords.title, baseUrl: settings.base_url ?? HOST, clock, version });
  const tokens = new AccessTokens(clock, askWith(call, { appKey: id.trim(), appSecret: secret.trim() }));
  const limit = Math.min(settings.text_limit ?? TEXT_LIMIT, TEXT_LIMIT);
  return {
    async send(message, delivery, options) {
      const { chat } = message;
      const problem = findProblem(chat);
      if (problem !== undefined) return { status: "permanent", error: problem };
      const fits = (text: DingtalkText) => new TextEncoder().encode(paramOf(text)).length <= MAX_PARAM_BYTES;
      const texts = dingtalkTexts(message, { limit, maxParts: MAX_PARTS, fits });
      const request = { call, tokens, robotCode: id.trim(), chat, options };
      return sendParts(texts, { delivery, options }, (text) => sendPart(request, text));
    },
  };
}

/** "Obtain the access token of an internal app": good for 2 hours. */
function askWith(call: Call, body: { readonly appKey: string; readonly appSecret: string }): AskForToken {
  return async (options) => {
    const answer = await call("DingtalkToken", (client) => client.dingtalkAccessToken({ body }), options);
    const { accessToken: value, expireIn = 0 } = (answer.kind === "answer" && answer.body) || {};
    if (answer.kind === "none" || answer.status >= 300 || !value) {
      return { kind: "none", outcome: tokenFailure(answer) };
    }
    return { kind: "given", value, lifeMs: expireIn * 1000 };
  };
}

/** A token that has served and is refused now is asked for anew, once. */
async function sendPart(request: SendRequest, text: DingtalkText): Promise<SendOutcome> {
  const { tokens, options } = request;
  for (;;) {
    const token = await tokens.get(options);
    if (token.kind === "none") return token.outcome;
    const answer = await post(request, token.value, text);
    if (answer.kind === "none") return answer.outcome;
    const isRefused = isTokenRefused(answer);
    if (isRefused) tokens.drop(token.value);
    if (!isRefused || !token.isKept) return outcomeOfApp(answer);
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

function findProblem(chat: string): string | undefined {
  const isGood = chat.startsWith(USER) ? USER_ID.test(chat.slice(USER.length)) : GROUP_ID.test(chat);
  return isGood ? undefined : "The chat must be the openConversationId of a group, or user: and a user's id.";
}
