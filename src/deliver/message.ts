/** Outbound messages and the platforms they can go to: text, chat, thread and extra. Pure. */
import type { Delivery } from "./target.ts";
import { isRecord } from "../base/json/schema.ts";

export interface Message {
  /** Markdown. May be empty. */
  readonly text: string;
  /** `deliver_extra`: keys of the platform; strings are already rendered. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** Empty when neither the address nor `extra` names a chat and the platform has no home channel. */
  readonly chat: string;
  readonly thread: string | undefined;
}

export interface ChatAddress {
  readonly chat: string;
  readonly thread?: string;
}

/**
 * Returns the message of a delivery to `platform`, or undefined when the payload is not `{ text, extra }`. The address
 * takes precedence over `chat_id`, `message_thread_id` and `thread_id` in `extra`.
 */
export function readMessage(
  platform: string,
  { address, payload }: Pick<Delivery, "address" | "payload">,
): Message | undefined {
  if (typeof payload !== "object" || payload === null) return undefined;
  const { text, extra = {} } = payload as { readonly text?: unknown; readonly extra?: unknown };
  if (typeof text !== "string" || typeof extra !== "object" || extra === null) return undefined;
  const metadata = extra as Readonly<Record<string, unknown>>;
  return { text, extra: metadata, ...chatOf(platform, address, metadata) };
}

/** Returns the chat and thread of a message. The address takes precedence over the extra. */
export function chatOf(
  platform: string,
  address: string,
  extra: Message["extra"],
): Pick<Message, "chat" | "thread"> {
  const { chat, thread } = splitAddress(platform, address);
  return {
    chat: chat || (idOf(extra["chat_id"]) ?? ""),
    thread: thread ?? idOf(extra["message_thread_id"]) ?? idOf(extra["thread_id"]),
  };
}

/** Splits the part of an address after the platform's name into chat and thread. */
export function splitAddress(platform: string, text: string): ChatAddress {
  const traits: PlatformTraits | undefined = Object.entries(platforms).find(
    ([name]) => name === platform,
  )?.[1];
  if (traits?.address !== "chat:thread") return { chat: text };
  // Names of Matrix rooms have colons; threads are events, which begin with $.
  const at = platform === "matrix" ? text.indexOf(":$") : text.indexOf(":");
  return at < 0 ? { chat: text } : { chat: text.slice(0, at), thread: text.slice(at + 1) };
}

/** Returns an id as text. A number counts only when it is a safe integer; an empty id is none. */
export function idOf(value: unknown): string | undefined {
  if (typeof value === "string") return value.trim() || undefined;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}

/** Longer addresses do not fit into the database indexes. */
export const MAX_ID_CHARACTERS = 500;

const KEYS = ["chat_id", "message_thread_id", "thread_id"];

/**
 * Returns what is wrong with the chat and thread ids in the `extra` of a message to `platform`, or undefined. An
 * invalid id would be ignored, so the message would go to the home channel or outside its thread. Unquoted YAML numbers
 * beyond 2^53 have lost digits.
 */
export function idProblem(platform: string, payload: unknown): string | undefined {
  const traits: PlatformTraits | undefined = Object.entries(platforms).find(
    ([name]) => name === platform,
  )?.[1];
  const extra = isRecord(payload) ? payload["extra"] : undefined;
  if (!isRecord(extra) || traits === undefined || traits.address === "none") return undefined;
  const key = KEYS.find((each) => !isId(extra[each]));
  if (key === undefined) return undefined;
  if (typeof extra[key] === "string") return `deliver_extra.${key} is too long for an id.`;
  return typeof extra[key] === "number"
    ? `Quote deliver_extra.${key}: as a number it has lost digits.`
    : `deliver_extra.${key} must be an id: write it as a quoted string.`;
}

/** Null means that the id is not given. */
function isId(value: unknown): boolean {
  if (typeof value === "string") return value.trim().length <= MAX_ID_CHARACTERS;
  return value === undefined || value === null || Number.isSafeInteger(value);
}

/** The platforms that messages can go to, for those who read addresses. Pure. */

export interface PlatformTraits {
  /** As people write it. */
  readonly title: string;
  /**
   * The form of an address after the platform's name: a chat with an optional thread after a colon, a chat that may
   * contain colons, or nothing.
   */
  readonly address: "chat" | "chat:thread" | "none";
}

export const platforms = {
  log: { title: "Log", address: "none" },
  local: { title: "File in the home", address: "none" },
  webhook: { title: "Webhook", address: "none" },
  github_comment: { title: "GitHub comment", address: "none" },
  telegram: { title: "Telegram", address: "chat:thread" },
  discord: { title: "Discord", address: "chat:thread" },
  slack: { title: "Slack", address: "chat:thread" },
  signal: { title: "Signal", address: "chat" },
  sms: { title: "SMS", address: "chat" },
  email: { title: "Email", address: "chat" },
  whatsapp: { title: "WhatsApp", address: "chat" },
  matrix: { title: "Matrix", address: "chat:thread" },
  mattermost: { title: "Mattermost", address: "chat:thread" },
  homeassistant: { title: "Home Assistant", address: "chat" },
  dingtalk: { title: "DingTalk", address: "chat" },
  feishu: { title: "Feishu", address: "chat:thread" },
  wecom: { title: "WeCom", address: "chat" },
  weixin: { title: "WeChat", address: "chat" },
  bluebubbles: { title: "BlueBubbles", address: "chat" },
  qqbot: { title: "QQ", address: "chat" },
} as const satisfies Readonly<Record<string, PlatformTraits>>;

/**
 * Returns `text` as an E.164 phone number (+, country code and number, up to 15 digits, without separators), or
 * undefined for anything else, including a number without a country code.
 */
export function readPhoneNumber(text: string): string | undefined {
  const bare = text.replace(/[\s().\u00a0-]+/g, "");
  return /^\+[1-9]\d{6,14}$/.test(bare) ? bare : undefined;
}
