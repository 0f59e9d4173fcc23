/**
 * WeChat's iLink service as "Weixin Backend API Protocol" has it (github.com/Tencent/openclaw-weixin, docs/protocol.md):
 * headers, sendMessage, return values.
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const WEIXIN = {
  token: "bot-token-of-nobody",
  user: "o9cq80@im.wechat",
  context: "context-token-of-nobody",
} as const;

const schema = {
  type: "object",
  required: ["msg", "base_info"],
  additionalProperties: false,
  properties: {
    msg: {
      type: "object",
      required: ["to_user_id", "client_id", "item_list", "message_type", "message_state", "context_token"],
      additionalProperties: false,
      properties: {
        from_user_id: { enum: [""] },
        to_user_id: { type: "string", minLength: 1 },
        client_id: { type: "string", minLength: 1, maxLength: 128 },
        message_type: { enum: [2] },
        message_state: { enum: [2] },
        item_list: {
          type: "array",
          minItems: 1,
          maxItems: 1,
          items: {
            type: "object",
            required: ["type", "text_item"],
            additionalProperties: false,
            properties: {
              type: { enum: [1] },
              text_item: {
                type: "object",
                required: ["text"],
                additionalProperties: false,
                properties: { text: { type: "string", minLength: 1, maxLength: 4000 } },
              },
            },
          },
        },
        context_token: { type: "string", minLength: 1 },
      },
    },
    base_info: {
      type: "object",
      required: ["channel_version"],
      additionalProperties: false,
      properties: { channel_version: { type: "string", minLength: 1 }, bot_agent: { type: "string" } },
    },
  },
} as const;

/** Until the user writes again. */
const MAX_ANSWERS = 10;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** The user has written to the bot once. */
export async function startWeixin(t: Cleanup): Promise<FakePlatform> {
  const taken = new Set<unknown>();
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/ilink\/bot\/sendmessage$/,
      schema,
      refuse,
      invalid: (issues) => result(-1, issues),
      answer: (asked) => take(asked, taken),
    },
  ]);
}

/** As the service says what it thinks: with status 200. */
export function result(ret: number, errmsg = ""): Reply {
  return { status: 200, body: { ret, errmsg } };
}

function refuse({ headers }: Asked): Reply | undefined {
  const uin = atob(String(headers["x-wechat-uin"] ?? ""));
  const isWhole =
    headers["authorizationtype"] === "ilink_bot_token" &&
    headers["ilink-app-id"] === "bot" &&
    /^\d+$/.test(String(headers["ilink-app-clientversion"])) &&
    /^\d{1,10}$/.test(uin) &&
    Number(uin) < 2 ** 32;
  if (!isWhole) return { status: 400, body: { errmsg: "headers are missing" } };
  if (headers.authorization === `Bearer ${WEIXIN.token}`) return undefined;
  return { status: 200, body: { ret: -14, errcode: -14, errmsg: "session timeout" } };
}

function take({ body }: Asked, taken: Set<unknown>): Reply {
  const message = body?.["msg"] as { client_id: string; context_token: string; to_user_id: string };
  if (message.to_user_id !== WEIXIN.user || message.context_token !== WEIXIN.context) return result(-2);
  if (taken.has(message.client_id)) return result(-1, "the client_id was used before");
  if (taken.size >= MAX_ANSWERS) return result(-2, "prepare failed");
  taken.add(message.client_id);
  return result(0);
}
