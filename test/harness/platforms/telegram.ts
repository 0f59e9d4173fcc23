/** Telegram as "Telegram Bot API" documents sendMessage, its errors and its limits (core.telegram.org/bots/api). */
import { parseHTML } from "linkedom";
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const TELEGRAM_TOKEN = "12345:a-token-of-no-bot";

const schema = {
  type: "object",
  required: ["chat_id", "text"],
  additionalProperties: false,
  properties: {
    chat_id: { type: ["integer", "string"] },
    message_thread_id: { type: "integer" },
    text: { type: "string", minLength: 1 },
    parse_mode: { enum: ["HTML", "MarkdownV2", "Markdown"] },
    disable_notification: { type: "boolean" },
    link_preview_options: { type: "object" },
  },
} as const;

/** HTML style: the tags that the API takes. */
const tags = new Set(["B", "STRONG", "I", "EM", "U", "S", "CODE", "PRE", "A", "BLOCKQUOTE", "TG-SPOILER"]);
const MAX_TEXT_UNITS = 4096;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** The bot is in the chats -100123 (a forum) and 42, and in the channel @news. */
export async function startTelegram(t: Cleanup): Promise<FakePlatform> {
  let lastId = 0;
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/bot(?<token>[^/]+)\/sendMessage$/,
      schema,
      refuse: ({ path }) =>
        path.startsWith(`/bot${TELEGRAM_TOKEN}/`) ? undefined : error(401, "Unauthorized"),
      invalid: (issues) => error(400, `Bad Request: ${issues}`),
      answer: (asked) =>
        refusal(asked) ?? { status: 200, body: { ok: true, result: { message_id: (lastId += 1) } } },
    },
    {
      method: "POST",
      path: /^\/bot[^/]+\/send(?<kind>Photo|Document)$/,
      answer: ({ body = {}, files: [file] }, { groups: { kind = "" } = {} }) => {
        const { chat_id: chat, message_thread_id: thread } = body;
        if (!["-100123", "42"].includes(String(chat))) return error(400, "Bad Request: chat not found");
        if (thread !== undefined && thread !== "17")
          return error(400, "Bad Request: message thread not found");
        if (!file || file.field !== kind.toLowerCase() || file.name === "" || file.bytes.length === 0)
          return error(400, `Bad Request: there is no ${kind.toLowerCase()} in the request`);
        return { status: 200, body: { ok: true, result: { message_id: (lastId += 1) } } };
      },
    },
  ]);
}

/** The body of an error, as the API gives it. */
export function error(
  code: number,
  description: string,
  parameters?: Readonly<Record<string, unknown>>,
): Reply {
  return {
    status: code,
    body: { ok: false, error_code: code, description, ...(parameters ? { parameters } : {}) },
  };
}

function refusal({ body = {} }: Asked): Reply | undefined {
  const { chat_id: chat, message_thread_id: thread, parse_mode: mode } = body;
  const text = String(body["text"]);
  if (!["-100123", "42", "@news"].includes(String(chat))) return error(400, "Bad Request: chat not found");
  if (thread !== undefined && thread !== 17) return error(400, "Bad Request: message thread not found");
  const seen = mode === "HTML" ? readHtml(text) : text;
  if (seen === undefined) return error(400, "Bad Request: can't parse entities: unsupported start tag");
  if (seen.trim() === "") return error(400, "Bad Request: message text is empty");
  if (seen.length > MAX_TEXT_UNITS) return error(400, "Bad Request: message is too long");
  return undefined;
}

/** What the text says; undefined when the API would not take it. */
function readHtml(html: string): string | undefined {
  const open = [...html.matchAll(/<(\/?)([a-z-]+)[^>]*>/gi)];
  const stack: string[] = [];
  for (const [, slash, name = ""] of open) {
    if (!tags.has(name.toUpperCase())) return undefined;
    if (slash === "") stack.push(name);
    else if (stack.pop() !== name) return undefined;
  }
  if (stack.length > 0) return undefined;
  return parseHTML(`<html><body>${html}</body></html>`).document.body.textContent ?? "";
}
