/**
 * Slack as its documentation has chat.postMessage, its errors, "Formatting text" and "Rate limits" (docs.slack.dev),
 * and, where it is at hand, its published description of the Web API.
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";
import { lacksVendorSpec, vendorBody } from "./vendor-schema.ts";

export const SLACK_TOKEN = "token-of-no-slack-app";
export const CHANNEL = "C0000000100";
export const THREAD_TS = "1700000000.000100";
/** Channels that refuse, by the error. */
export const REFUSING: Readonly<Record<string, string>> = {
  C0000000200: "not_in_channel",
  C0000000300: "is_archived",
  C0000000400: "restricted_action_read_only_channel",
};

const message = {
  type: "object",
  required: ["channel", "text"],
  additionalProperties: false,
  properties: {
    channel: { type: "string", minLength: 1 },
    // &, < and > are escaped; what stands in <> is a link, and addresses nobody.
    text: {
      type: "string",
      minLength: 1,
      pattern: "^(?:[^<>&]|&(?:amp|lt|gt);|>(?= )|<(?:https?:|mailto:)[^<>]+>)*$",
    },
    mrkdwn: { type: "boolean" },
    thread_ts: { type: "string", pattern: "^[0-9]+\\.[0-9]+$" },
    reply_broadcast: { type: "boolean" },
    unfurl_links: { type: "boolean" },
    unfurl_media: { type: "boolean" },
  },
} as const;

const filesSchema = {
  type: "object",
  required: ["files", "channel_id"],
  additionalProperties: false,
  properties: {
    files: { type: "array", minItems: 1, items: { type: "object", required: ["id", "title"] } },
    channel_id: { type: "string" },
    thread_ts: { type: "string" },
  },
} as const;

const MAX_TEXT = 40_000;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** The app is in {@link CHANNEL}, also known as #general. */
export async function startSlack(t: Cleanup): Promise<FakePlatform> {
  const check = lacksVendorSpec("slack.json")
    ? () => undefined
    : vendorBody("slack.json", "/chat.postMessage");
  let count = 0;
  const sizes = new Map<string, number>();
  const stored = new Set<string>();
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/chat\.postMessage$/,
      schema: message,
      refuse: ({ headers }) => {
        if (headers.authorization === `Bearer ${SLACK_TOKEN}`) return undefined;
        return refusal(headers.authorization === undefined ? "not_authed" : "invalid_auth");
      },
      invalid: (issues) => refusal("invalid_arguments", { response_metadata: { messages: [issues] } }),
      answer: (asked) => {
        const issues = check(asked.body);
        if (issues !== undefined) return refusal(`not as Slack describes it: ${issues}`);
        const error = errorOf(asked);
        if (error !== undefined) return refusal(error);
        const ts = `17000001${String((count += 1)).padStart(2, "0")}.000200`;
        return {
          status: 200,
          body: { ok: true, channel: CHANNEL, ts, message: { text: asked.body?.["text"] } },
        };
      },
    },
    {
      method: "POST",
      path: /^\/files\.getUploadURLExternal$/,
      answer: ({ body = {}, headers }) => {
        if (headers.authorization !== `Bearer ${SLACK_TOKEN}`) return refusal("invalid_auth");
        const id = `F${String((count += 1)).padStart(9, "0")}`;
        sizes.set(id, Number(body["length"]));
        const upload_url = `http://${headers.host}/upload/v1/${id}`;
        return { status: 200, body: { ok: true, upload_url, file_id: id } };
      },
    },
    {
      method: "POST",
      path: /^\/upload\/v1\/(F\d+)$/,
      answer: ({ files: [file], headers }, [, id = ""]) => {
        if (headers.authorization !== undefined) return { status: 400, body: "no token is sent here" };
        if (file?.bytes.length !== sizes.get(id)) return { status: 400, body: "wrong length" };
        stored.add(id);
        return { status: 200, body: `OK - ${file?.bytes.length}` };
      },
    },
    {
      method: "POST",
      path: /^\/files\.completeUploadExternal$/,
      schema: filesSchema,
      answer: ({ body = {} }) => {
        const [{ id }] = body["files"] as [{ id: string }];
        if (!stored.has(id)) return refusal("file_not_found");
        if (body["channel_id"] !== CHANNEL) return refusal("channel_not_found");
        return { status: 200, body: { ok: true, files: [{ id }] } };
      },
    },
  ]);
}

/** Errors come with status 200. */
export function refusal(error: string, more: object = {}): Reply {
  return { status: 200, body: { ok: false, error, ...more } };
}

function errorOf({ body = {}, headers }: Asked): string | undefined {
  if (!/^application\/json; ?charset=utf-8$/i.test(headers["content-type"] ?? "")) return "missing_charset";
  const { channel, text, thread_ts: thread } = body;
  const refusing = REFUSING[String(channel)];
  if (refusing !== undefined) return refusing;
  if (channel !== CHANNEL && channel !== "#general") return "channel_not_found";
  if (thread !== undefined && thread !== THREAD_TS) return "thread_not_found";
  if (String(text).trim() === "") return "no_text";
  return String(text).length > MAX_TEXT ? "msg_too_long" : undefined;
}
