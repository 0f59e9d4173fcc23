/**
 * Discord as its documentation has Create Message, Start Thread in Forum Channel, its JSON error codes and its rate
 * limits (discord.com/developers/docs: Message, Channel, Opcodes and Status Codes, Rate Limits), and, where it is at
 * hand, its published OpenAPI description.
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";
import { lacksVendorSpec, vendorBody } from "./vendor-schema.ts";

export const DISCORD_TOKEN = "a-token-of-no-bot.Xx1122.yyyy";
/** Channels by what they are; the bot may not see 500, and may not write to 600. */
export const TEXT_CHANNEL = "100";
export const THREAD = "300";
export const FORUM = "200";
export const VOICE_CATEGORY = "400";

const message = {
  type: "object",
  required: ["content", "allowed_mentions"],
  additionalProperties: false,
  properties: {
    content: { type: "string" },
    allowed_mentions: { type: "object" },
    nonce: { type: "string", minLength: 1, maxLength: 25 },
    enforce_nonce: { type: "boolean" },
    flags: { type: "integer" },
  },
} as const;

const thread = {
  type: "object",
  required: ["name", "message"],
  additionalProperties: false,
  properties: {
    name: { type: "string", minLength: 1, maxLength: 100 },
    // The API lists no nonce among what a forum's message may have.
    message: { ...message, properties: { ...message.properties, nonce: false, enforce_nonce: false } },
    applied_tags: { type: "array", maxItems: 5, items: { type: "string", pattern: "^[0-9]+$" } },
  },
} as const;

const MAX_CONTENT = 2000;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

export async function startDiscord(t: Cleanup): Promise<FakePlatform> {
  const check = lacksVendorSpec("discord.json")
    ? () => undefined
    : vendorBody("discord.json", "/channels/{channel_id}/messages");
  const posts = new Set([TEXT_CHANNEL, THREAD]);
  const byNonce = new Map<string, string>();
  let lastId = 1000;
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/api\/v10\/channels\/(\d+)\/messages$/,
      schema: message,
      refuse,
      invalid,
      answer: ({ body = {}, files }, [, channel = ""]) => {
        const hasFile = files.some(({ field, name }) => field === "files[0]" && name !== "");
        const refusal =
          vendorFlaw(check(body)) ?? refusalOf(channel, posts, hasFile ? { content: "file" } : body);
        if (refusal) return refusal;
        const nonce = body["enforce_nonce"] === true ? `${channel} ${String(body["nonce"])}` : undefined;
        const id = byNonce.get(nonce ?? "") ?? String((lastId += 1));
        if (nonce !== undefined) byNonce.set(nonce, id);
        return { status: 200, body: { id, channel_id: channel, content: body["content"], type: 0 } };
      },
    },
    {
      method: "POST",
      path: /^\/api\/v10\/channels\/(\d+)\/threads$/,
      schema: thread,
      refuse,
      invalid,
      answer: ({ body = {} }, [, channel = ""]) => {
        if (channel !== FORUM) return error(400, 50024, "Cannot execute action on this channel type");
        const first = body["message"] as Readonly<Record<string, unknown>>;
        const refusal = vendorFlaw(check(first)) ?? contentFlaw(String(first["content"]));
        if (refusal) return refusal;
        const id = String((lastId += 1));
        posts.add(id);
        return {
          status: 201,
          body: { id, type: 11, name: body["name"], message: { id, content: first["content"] } },
        };
      },
    },
  ]);
}

/** The body of an error, as the API gives it. */
export function error(status: number, code: number, text: string, more: object = {}): Reply {
  return { status, body: { message: text, code, ...more } };
}

export function invalidContent(): Reply {
  const errors = {
    content: { _errors: [{ code: "BASE_TYPE_MAX_LENGTH", message: "Must be 2000 or fewer in length." }] },
  };
  return error(400, 50035, "Invalid Form Body", { errors });
}

/** What the vendor's own description does not take. */
function vendorFlaw(issues: string | undefined): Reply | undefined {
  return issues === undefined ? undefined : error(400, 0, `Not as Discord describes it: ${issues}`);
}

function refuse({ headers }: Asked): Reply | undefined {
  return headers.authorization === `Bot ${DISCORD_TOKEN}` ? undefined : error(401, 0, "401: Unauthorized");
}

function invalid(issues: string): Reply {
  return error(400, 50035, "Invalid Form Body", { errors: { issues } });
}

function refusalOf(
  channel: string,
  posts: ReadonlySet<string>,
  { content }: Readonly<Record<string, unknown>>,
): Reply | undefined {
  if (channel === FORUM) return error(400, 40058, "Cannot send a message in a forum channel");
  if (channel === VOICE_CATEGORY) return error(400, 50008, "Cannot send messages in a non-text channel");
  if (channel === "500") return error(403, 50001, "Missing Access");
  if (channel === "600") return error(403, 50013, "Missing Permissions");
  if (!posts.has(channel)) return error(404, 10003, "Unknown Channel");
  return contentFlaw(String(content));
}

/** Its own limits: code points, and no message of blanks alone. */
function contentFlaw(content: string): Reply | undefined {
  if (content.trim() === "") return error(400, 50006, "Cannot send an empty message");
  return Array.from(content).length > MAX_CONTENT ? invalidContent() : undefined;
}
