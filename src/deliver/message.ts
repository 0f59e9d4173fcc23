/** What chats are owed: a text, where it goes, and what the platform is told besides. Pure. */
import type { Delivery } from "./target.ts";
import { isRecord } from "../base/json/schema.ts";

export interface Message {
  /** Markdown, as agents write it. May be empty. */
  readonly text: string;
  /** `deliver_extra`: keys of the platform; strings are rendered already. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** Empty when neither the address nor `extra` names one, and the platform has no home channel. */
  readonly chat: string;
  readonly thread: string | undefined;
}

export interface ChatAddress {
  readonly chat: string;
  readonly thread?: string;
}

/**
 * The message in a delivery to `platform`; what stands in the address goes before `chat_id` and `message_thread_id` or
 * `thread_id` in `extra`. Undefined when the payload is no `{ text, extra }`.
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

/** Where a message goes; what stands in the address goes before the extra. */
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

/** The chat and the thread that stand behind a platform's name in an address. */
export function splitAddress(platform: string, text: string): ChatAddress {
  const traits: PlatformTraits | undefined = Object.entries(platforms).find(
    ([name]) => name === platform,
  )?.[1];
  if (traits?.address !== "chat:thread") return { chat: text };
  // Names of Matrix rooms have colons; threads are events, which begin with $.
  const at = platform === "matrix" ? text.indexOf(":$") : text.indexOf(":");
  return at < 0 ? { chat: text } : { chat: text.slice(0, at), thread: text.slice(at + 1) };
}

/** Ids that were written as numbers are good while numbers hold them exactly; empty ones are none. */
export function idOf(value: unknown): string | undefined {
  if (typeof value === "string") return value.trim() || undefined;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}

/** Indexes over addresses take no longer ones. */
export const MAX_ID_CHARACTERS = 500;

const KEYS = ["chat_id", "message_thread_id", "thread_id"];

/**
 * What is wrong with ids in the `extra` of what `platform` is owed: they are left out where a chat is looked for, and the
 * message would go to the home channel, or beside its thread. Numbers that numbers do not hold exactly come from YAML
 * without quotes: digits of them are lost. Undefined when nothing is, also where the platform has no chats.
 */
export function idProblem(platform: string, payload: unknown): string | undefined {
  const traits: PlatformTraits | undefined = Object.entries(platforms).find(
    ([name]) => name === platform,
  )?.[1];
  const extra = isRecord(payload) ? payload["extra"] : undefined;
  if (!isRecord(extra) || traits === undefined || traits.address === "none") return undefined;
  const key = KEYS.find((each) => !isId(extra[each]));
  if (key === undefined) return undefined;
  if (typeof extra[key] === "string") return `deliver_extra.${key} is too long: no platform has such ids.`;
  return typeof extra[key] === "number"
    ? `Write deliver_extra.${key} in quotes: as a number it has lost digits.`
    : `deliver_extra.${key} must be an id: write it as text, in quotes.`;
}

/** Null is an id that is left out. */
function isId(value: unknown): boolean {
  if (typeof value === "string") return value.trim().length <= MAX_ID_CHARACTERS;
  return value === undefined || value === null || Number.isSafeInteger(value);
}

/** The platforms that messages can go to, for those who read addresses. Pure. */

export interface PlatformTraits {
  /** As people write it. */
  readonly title: string;
  /**
   * What an address means behind the platform's name: a chat with an optional thread behind a colon, a chat that may have
   * colons in it, or nothing.
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
 * `text` as a phone number in E.164: +, country code and number, up to 15 digits, without what people put between them.
 * Undefined for anything else, also for numbers without a country code.
 */
export function readPhoneNumber(text: string): string | undefined {
  const bare = text.replace(/[\s().\u00a0-]+/g, "");
  return /^\+[1-9]\d{6,14}$/.test(bare) ? bare : undefined;
}
