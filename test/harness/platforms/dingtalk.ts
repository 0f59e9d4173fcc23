/**
 * DingTalk as its open platform documents it: "Custom robot access", "Custom robot security settings", "Obtain the access
 * token of an internal app", "Robot sends a group message", "Chatbots send one-on-one chat messages in batches"
 * (open.dingtalk.com/document).
 */
import { createHmac } from "node:crypto";
import { startPlatform, type Asked, type FakePlatform, type PlatformRoute, type Reply } from "./fake.ts";

export const DINGTALK = {
  webhookToken: "webhook-token-of-no-robot",
  webhookSecret: "SEC-secret-of-no-robot",
  clientId: "dingofnoapp",
  clientSecret: "client-secret-of-no-app",
  accessToken: "access-token-of-no-app",
  group: "cid6abc/DEF+ghi==",
  user: "manager01",
} as const;

const markdown = {
  type: "object",
  required: ["title", "text"],
  additionalProperties: false,
  properties: { title: { type: "string", minLength: 1 }, text: { type: "string", minLength: 1 } },
} as const;
const text = {
  type: "object",
  required: ["content"],
  additionalProperties: false,
  properties: { content: { type: "string", minLength: 1 } },
} as const;
const robotMessage = {
  oneOf: [
    {
      type: "object",
      required: ["msgtype", "markdown"],
      additionalProperties: false,
      properties: { msgtype: { const: "markdown" }, markdown },
    },
    {
      type: "object",
      required: ["msgtype", "text"],
      additionalProperties: false,
      properties: { msgtype: { const: "text" }, text },
    },
  ],
} as const;

const content = {
  robotCode: { type: "string", minLength: 1 },
  msgKey: { enum: ["sampleMarkdown", "sampleText"] },
  msgParam: { type: "string", minLength: 2 },
} as const;
const groupMessage = {
  type: "object",
  required: ["robotCode", "openConversationId", "msgKey", "msgParam"],
  additionalProperties: false,
  properties: { ...content, openConversationId: { type: "string" } },
} as const;
const userMessage = {
  type: "object",
  required: ["robotCode", "userIds", "msgKey", "msgParam"],
  additionalProperties: false,
  properties: {
    ...content,
    userIds: { type: "array", minItems: 1, maxItems: 20, items: { type: "string" } },
  },
} as const;

const MAX_BODY_BYTES = 20_000;
const MAX_PARAM_BYTES = 15_000;
const PER_MINUTE = 20;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

export interface DingtalkOptions {
  /** The robot checks signatures; `nowMs` is its clock. */
  readonly signedAtMs?: number;
}

/** A robot in one group, and the robot of an app in the group and with the user of {@link DINGTALK}. */
export async function startDingtalk(t: Cleanup, { signedAtMs }: DingtalkOptions = {}): Promise<FakePlatform> {
  let sent = 0;
  const robot: PlatformRoute = {
    method: "POST",
    path: /^\/robot\/send$/,
    schema: robotMessage,
    refuse: (asked) => refuseRobot(asked, signedAtMs),
    invalid: (issues) => robotError(40035, `缺少参数 ${issues}`),
    answer: ({ raw }) => {
      if (Buffer.byteLength(raw) > MAX_BODY_BYTES)
        return robotError(460101, "message too long, exceed 20000 bytes");
      sent += 1;
      return sent > PER_MINUTE
        ? robotError(130101, "send too fast, exceed 20 times per minute")
        : robotError(0, "ok");
    },
  };
  const app = {
    method: "POST",
    refuse: refuseApp,
    invalid: (issues: string) => appError(400, "invalidParameter.param.invalid", issues),
  };
  return startPlatform(t, [
    robot,
    {
      method: "POST",
      path: /^\/v1\.0\/oauth2\/accessToken$/,
      schema: {
        type: "object",
        required: ["appKey", "appSecret"],
        additionalProperties: false,
        properties: { appKey: { type: "string" }, appSecret: { type: "string" } },
      },
      answer: giveToken,
    },
    { ...app, path: /^\/v1\.0\/robot\/groupMessages\/send$/, schema: groupMessage, answer: takeForGroup },
    { ...app, path: /^\/v1\.0\/robot\/oToMessages\/batchSend$/, schema: userMessage, answer: takeForUser },
  ]);
}

/** As the robot says what it thinks: with status 200. */
export function robotError(errcode: number, errmsg: string): Reply {
  return { status: 200, body: { errcode, errmsg } };
}

export function appError(status: number, code: string, message: string): Reply {
  return { status, body: { code, requestid: "0A1B2C3D-0000", message } };
}

export const tokenReply: Reply = { status: 200, body: { accessToken: DINGTALK.accessToken, expireIn: 7200 } };

function refuseRobot({ query }: Asked, signedAtMs: number | undefined): Reply | undefined {
  if (query.get("access_token") !== DINGTALK.webhookToken) return robotError(300005, "token is not exist");
  if (signedAtMs === undefined) return undefined;
  const timestamp = query.get("timestamp") ?? "";
  const mac = createHmac("sha256", DINGTALK.webhookSecret).update(`${timestamp}\n${DINGTALK.webhookSecret}`);
  if (query.get("sign") !== mac.digest("base64")) return robotError(310000, "sign not match");
  const isFresh = Math.abs(Number(timestamp) - signedAtMs) < 3_600_000;
  return isFresh ? undefined : robotError(310000, "invalid timestamp");
}

function giveToken({ body = {} }: Asked): Reply {
  const isKnown = body["appKey"] === DINGTALK.clientId && body["appSecret"] === DINGTALK.clientSecret;
  return isKnown ? tokenReply : appError(400, "invalidClientIdOrSecret", "无效的clientId或者clientSecret");
}

function refuseApp({ headers }: Asked): Reply | undefined {
  return headers["x-acs-dingtalk-access-token"] === DINGTALK.accessToken
    ? undefined
    : appError(400, "InvalidAuthentication", "不合法的access_token");
}

function takeForGroup({ body = {} }: Asked): Reply {
  if (body["openConversationId"] !== DINGTALK.group) {
    return appError(400, "invalid.openConversationId", "无效的openConversationId");
  }
  return refuseContent(body) ?? { status: 200, body: { processQueryKey: "key" } };
}

function takeForUser({ body = {} }: Asked): Reply {
  const users = body["userIds"] as readonly string[];
  const invalidStaffIdList = users.filter((user) => user !== DINGTALK.user);
  return (
    refuseContent(body) ?? {
      status: 200,
      body: { processQueryKey: "key", invalidStaffIdList, flowControlledStaffIdList: [] },
    }
  );
}

function refuseContent(body: Readonly<Record<string, unknown>>): Reply | undefined {
  const { robotCode, msgKey, msgParam } = body;
  if (robotCode !== DINGTALK.clientId) return appError(400, "invalidParameter.robotCode.auth", "robotCode");
  if (Buffer.byteLength(String(msgParam)) > MAX_PARAM_BYTES) {
    return appError(400, "invalidParameter.msgParam.tooLong", "msgParam");
  }
  const keys = Object.keys(JSON.parse(String(msgParam)) as object).join();
  return keys === (msgKey === "sampleText" ? "content" : "title,text")
    ? undefined
    : appError(400, "invalidParameter.msgParam.invalid", "msgParam");
}
