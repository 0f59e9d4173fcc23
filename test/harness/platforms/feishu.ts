/**
 * Feishu as its documentation has "Get tenant_access_token", "Send message", "Reply to message", their error codes,
 * "Generic error codes" and "Rate limits" (open.feishu.cn and open.larksuite.com).
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const FEISHU_APP = { app_id: "cli_0123456789", app_secret: "secret-of-no-feishu-app" };
export const CHAT = "oc_chat";
export const USER = "ou_user";
export const MESSAGE = "om_message";

const content = {
  msg_type: { const: "text" },
  content: { type: "string", minLength: 1 },
  uuid: { type: "string", minLength: 1, maxLength: 50 },
} as const;
const message = {
  type: "object",
  required: ["receive_id", "msg_type", "content"],
  additionalProperties: false,
  properties: { receive_id: { type: "string" }, ...content },
} as const;
const reply = {
  type: "object",
  required: ["msg_type", "content"],
  additionalProperties: false,
  properties: { reply_in_thread: { type: "boolean" }, ...content },
} as const;

/** What an id of each kind begins with. */
const kinds: Readonly<Record<string, RegExp>> = {
  chat_id: /^oc_/,
  open_id: /^ou_/,
  union_id: /^on_/,
  email: /@/,
  user_id: /^[^@_]+$/,
};
const known = new Set([CHAT, USER, "on_user", "user@example.org", "e33ggbyz"]);
const MAX_CONTENT_BYTES = 153_600;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** The bot is in {@link CHAT}, where somebody wrote {@link MESSAGE}. */
export async function startFeishu(t: Cleanup): Promise<FakePlatform> {
  let hasToken = false;
  let count = 0;
  const sent = new Map<unknown, string>();
  const refuse = ({ headers }: Asked) =>
    hasToken && headers.authorization === `Bearer ${tokenOf(1)}`
      ? undefined
      : error(
          400,
          99991663,
          "Invalid access token for authorization. Please make a request with token attached.",
        );
  const send = ({ body = {} }: Asked): Reply => {
    const problem = findProblem(String(body["content"]));
    if (problem) return problem;
    const id = sent.get(body["uuid"]) ?? `om_${(count += 1)}`;
    sent.set(body["uuid"], id);
    return { status: 200, body: { code: 0, msg: "success", data: { message_id: id } } };
  };
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/open-apis\/auth\/v3\/tenant_access_token\/internal$/,
      schema: {
        type: "object",
        required: ["app_id", "app_secret"],
        additionalProperties: false,
        properties: { app_id: {}, app_secret: {} },
      },
      answer: ({ body = {} }) => {
        if (body["app_id"] !== FEISHU_APP.app_id) return error(200, 10003, "invalid param");
        if (body["app_secret"] !== FEISHU_APP.app_secret) return error(200, 10014, "app secret invalid");
        hasToken = true;
        return tokenReply();
      },
    },
    {
      method: "POST",
      path: /^\/open-apis\/im\/v1\/messages$/,
      schema: message,
      refuse,
      invalid: (issues) => error(400, 99992402, `field validation failed: ${issues}`),
      answer: (asked) => receiverFlaw(asked) ?? send(asked),
    },
    {
      method: "POST",
      path: /^\/open-apis\/im\/v1\/messages\/([^/]+)\/reply$/,
      schema: reply,
      refuse,
      invalid: (issues) => error(400, 99992402, `field validation failed: ${issues}`),
      answer: (asked, [, id]) =>
        id === MESSAGE
          ? send(asked)
          : error(400, 230001, "Your request contains an invalid request parameter, ext=invalid message_id."),
    },
  ]);
}

const tokenOf = (number: number): string => `t-tenant-token-number-${number}`;

/** A token that is good for 2 hours. */
export function tokenReply(number = 1): Reply {
  return { status: 200, body: { code: 0, msg: "ok", tenant_access_token: tokenOf(number), expire: 7200 } };
}

/** The body of an error, as the platform gives it. */
export function error(status: number, code: number, msg: string): Reply {
  return { status, body: { code, msg, error: { log_id: "20240911085251BEA8" } } };
}

function receiverFlaw({ query, body = {} }: Asked): Reply | undefined {
  const kind = kinds[query.get("receive_id_type") ?? ""];
  const id = String(body["receive_id"]);
  if (!kind?.test(id))
    return error(400, 230001, "Your request contains an invalid request parameter, ext=invalid receive_id.");
  if (id === "oc_outside") return error(400, 230002, "The bot can not be outside the group.");
  return known.has(id) ? undefined : error(400, 230034, "The receive_id is invalid.");
}

/** JSON in JSON. */
function findProblem(text: string): Reply | undefined {
  if (Buffer.byteLength(text) > MAX_CONTENT_BYTES) {
    return error(400, 230025, "The length of the message content reaches its limit.");
  }
  try {
    const { text: said } = JSON.parse(text) as { readonly text?: unknown };
    if (typeof said === "string" && said !== "") return undefined;
  } catch {
    // As below.
  }
  return error(400, 230001, "Your request contains an invalid request parameter, ext=invalid content.");
}
