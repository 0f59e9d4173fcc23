/** What chats are owed: a text, where it goes, and what the platform is told besides. Pure. */
import { platforms, type PlatformTraits } from "./platform/names.ts";
import type { Delivery } from "./target.ts";

export interface Message {
  /** Markdown, as agents write it. May be empty. */
  readonly text: string;
  /** `deliver_extra`: keys of the platform; strings are rendered already. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** Empty when neither the address nor `extra` names one, and the platform has no home channel. */
  readonly chat: string;
  readonly thread: string | undefined;
}

export interface Place {
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
  const told = extra as Readonly<Record<string, unknown>>;
  return { text, extra: told, ...placeOf(platform, address, told) };
}

/** Where a message goes; what stands in the address goes before the extra. */
export function placeOf(
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
export function splitAddress(platform: string, text: string): Place {
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
