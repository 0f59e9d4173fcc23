/**
 * QQ as the documents of its bots have it: "Call and authorize", "Send messages", "Send channel messages", "Error codes of
 * openapi" (bot.q.qq.com/wiki/develop/api-v2).
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const QQ = {
  appId: "102000001",
  clientSecret: "client-secret-of-no-bot",
  token: "token-of-no-bot",
} as const;

const credentials = {
  type: "object",
  required: ["appId", "clientSecret"],
  additionalProperties: false,
  properties: { appId: { type: "string" }, clientSecret: { type: "string" } },
} as const;

const message = {
  type: "object",
  required: ["content", "msg_type"],
  additionalProperties: false,
  properties: {
    content: { type: "string", minLength: 1, maxLength: 4000 },
    msg_type: { enum: [0, 2, 3, 4, 7] },
    msg_id: { type: "string" },
    event_id: { type: "string" },
    msg_seq: { type: "integer", minimum: 1 },
  },
} as const;

const channelMessage = {
  type: "object",
  required: ["content"],
  additionalProperties: false,
  properties: {
    content: { type: "string", minLength: 1, maxLength: 4000 },
    msg_id: { type: "string" },
    event_id: { type: "string" },
  },
} as const;

/** "Send messages": how often one message may be answered. */
const MAX_ANSWERS = 5;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** The bot knows the user U1, the group G1 and the channel 77, and the message MSG_1 came from each of them. */
export async function startQq(t: Cleanup): Promise<FakePlatform> {
  const answered = new Map<string, Set<unknown>>();
  const answer = (asked: Asked, [, id = ""]: RegExpExecArray, known: string): Reply => {
    if (id !== known) return error(400, 11255, "invalid request");
    return (
      refusal(asked, answered) ?? {
        status: 200,
        body: { id: "ROBOT1.0_x", timestamp: "2026-01-01T00:00:00+08:00" },
      }
    );
  };
  const send = { method: "POST", refuse, invalid: (issues: string) => error(400, 12002, issues) } as const;
  return startPlatform(t, [
    { method: "POST", path: /^\/app\/getAppAccessToken$/, schema: credentials, answer: giveToken },
    {
      ...send,
      path: /^\/v2\/users\/([^/]+)\/messages$/,
      schema: message,
      answer: (asked, match) => answer(asked, match, "U1"),
    },
    {
      ...send,
      path: /^\/v2\/groups\/([^/]+)\/messages$/,
      schema: message,
      answer: (asked, match) => answer(asked, match, "G1"),
    },
    {
      ...send,
      path: /^\/channels\/([^/]+)\/messages$/,
      schema: channelMessage,
      answer: (asked, match) => answer(asked, match, "77"),
    },
  ]);
}

/** The body of an error, as the API gives it. */
export function error(status: number, code: number, text: string): Reply {
  return { status, body: { message: text, code, err_code: code, trace_id: "0123456789abcdef" } };
}

/** As the token endpoint gives it: seconds as text. */
export const tokenReply: Reply = { status: 200, body: { access_token: QQ.token, expires_in: "7200" } };

function giveToken({ body = {} }: Asked): Reply {
  const isKnown = body["appId"] === QQ.appId && body["clientSecret"] === QQ.clientSecret;
  return isKnown ? tokenReply : { status: 200, body: { code: 100016, message: "invalid appid or secret" } };
}

function refuse({ headers }: Asked): Reply | undefined {
  return headers.authorization === `QQBot ${QQ.token}`
    ? undefined
    : error(401, 11244, "token not exist or expire");
}

function refusal({ body = {} }: Asked, answered: Map<string, Set<unknown>>): Reply | undefined {
  const { msg_id: id, msg_seq: sequence = 1 } = body;
  if (id === undefined) return undefined;
  if (id !== "MSG_1") return error(400, 40034025, "请求参数msg_id无效或越权");
  const used = answered.get("MSG_1") ?? new Set();
  answered.set("MSG_1", used);
  if ("msg_type" in body && used.has(sequence)) return error(400, 40054005, "消息被去重，请检查请求msgseq");
  if (used.size >= MAX_ANSWERS) return error(400, 22009, "msg limit exceed");
  used.add(sequence);
  return undefined;
}
