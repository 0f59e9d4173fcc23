/**
 * WeCom's robots of groups as "Message push configuration" documents their webhook
 * (developer.work.weixin.qq.com/document/path/91770).
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const WECOM_KEY = "key-of-no-robot-at-all";

const schema = {
  oneOf: [
    {
      type: "object",
      required: ["msgtype", "markdown"],
      additionalProperties: false,
      properties: { msgtype: { const: "markdown" }, markdown: content() },
    },
    {
      type: "object",
      required: ["msgtype", "text"],
      additionalProperties: false,
      properties: { msgtype: { const: "text" }, text: content() },
    },
  ],
} as const;
const MAX_BYTES = { markdown: 4096, text: 2048 } as const;
const PER_MINUTE = 20;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** A robot in one group. */
export async function startWecom(t: Cleanup): Promise<FakePlatform> {
  let sent = 0;
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/cgi-bin\/webhook\/send$/,
      schema,
      refuse: ({ query }) =>
        query.get("key") === WECOM_KEY
          ? undefined
          : robotError(93000, "invalid webhook url, hint: [1], more info at x"),
      invalid: (issues) => robotError(40058, issues),
      answer: (asked) => {
        if (isTooLong(asked)) return robotError(40058, "markdown.content exceed max length 4096");
        sent += 1;
        return sent > PER_MINUTE ? robotError(45009, "api freq out of limit") : robotError(0, "ok");
      },
    },
  ]);
}

/** As the robot says what it thinks: with status 200. */
export function robotError(errcode: number, errmsg: string): Reply {
  return { status: 200, body: { errcode, errmsg } };
}

function isTooLong({ body = {} }: Asked): boolean {
  const kind = body["msgtype"] === "text" ? "text" : "markdown";
  const { content: text } = body[kind] as { readonly content: string };
  return Buffer.byteLength(text) > MAX_BYTES[kind];
}

function content() {
  return {
    type: "object",
    required: ["content"],
    additionalProperties: false,
    properties: { content: { type: "string", minLength: 1 } },
  } as const;
}
