/** Addresses as users write them: `origin`, `telegram:-100123:17, sms:+15550100`, `all`. Pure. */
import { suggest } from "../base/suggest.ts";
import {
  MAX_ID_CHARACTERS,
  idOf,
  chatOf,
  splitAddress,
  type ChatAddress,
  platforms,
  type PlatformTraits,
  formatTarget,
  parseTarget,
  type Targets,
  type Target,
} from "./target.ts";

/** What completes an address. */
interface AddressContext {
  /**
   * Rendered `deliver_extra`: its `chat_id`, and `message_thread_id` or `thread_id`, apply to addresses without a chat.
   */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
  /** Home channels by platform: chat, or chat and thread. */
  readonly homes: Homes;
  /** Address of the chat that the request came from, if any. */
  readonly origin?: string | undefined;
}

export type Homes = ReadonlyMap<string, string>;

/** Every platform with a home channel. Without any, the target of this name refuses the message. */
export const ALL = "all";
/** The chat that the request came from; without one, a file in the home. */
const ORIGIN = "origin";
const LOCAL = "local";
const LOG = "log";

const MAX_ADDRESSES = 16;
const NAMES = Object.keys(platforms);

/**
 * Returns the complete addresses, `platform`, `platform:chat` or `platform:chat:thread`, in order and without
 * duplicates. A comma always separates addresses: no chat id contains one. Addresses that {@link findAddressProblems}
 * refuses stay unchanged.
 */
export function resolveAddresses(text: string, context: AddressContext): readonly string[] {
  const addresses = new Map<string, string>();
  for (const address of splitAddresses(text).flatMap((each) => resolve(each, context))) {
    const key = chatKey(address, context.extra);
    if (!addresses.has(key)) addresses.set(key, address);
  }
  return [...addresses.values()];
}

/** Returns what is wrong with the addresses, one clause each. */
export function findAddressProblems(text: string): readonly string[] {
  const list = splitAddresses(text);
  if (list.length === 0) return ["it names no target"];
  if (list.length > MAX_ADDRESSES)
    return [`it names ${list.length} targets; the maximum is ${MAX_ADDRESSES}`];
  return list.flatMap((address) => findProblem(address) ?? []);
}

/** Returns the platforms that the addresses name, without duplicates. `origin` counts as `local`. */
export function platformsOf(text: string): readonly string[] {
  const names = splitAddresses(text).map((address) => parseTarget(address).platform);
  return [...new Set(names.map((name) => (name === ORIGIN ? LOCAL : name)))];
}

export function homesOf(targets: Targets): Homes {
  const homes = [...targets.values()].map(({ name, home }) => [name, home] as const);
  return new Map(homes.filter((each): each is readonly [string, string] => Boolean(each[1])));
}

/** Returns whether an address reaches the operator: this machine, or a home channel in any of its threads. */
export function isOwnersAddress(text: string, homes: Homes): boolean {
  const { platform, address } = parseTarget(text);
  if (platform === LOCAL || platform === LOG) return true;
  const home = homes.get(platform);
  if (home === undefined || address === "") return false;
  return splitAddress(platform, address).chat === splitAddress(platform, home).chat;
}

/** Ignores empty parts. */
function splitAddresses(text: string): readonly string[] {
  return text
    .split(",")
    .map((part) => withoutSpaces(part.trim()))
    .filter((part) => part !== "");
}

/** Removes spaces around the first colon. */
function withoutSpaces(address: string): string {
  const at = address.indexOf(":");
  return at < 0 ? address : `${address.slice(0, at).trimEnd()}:${address.slice(at + 1).trimStart()}`;
}

function resolve(text: string, { extra = {}, homes, origin }: AddressContext): readonly string[] {
  if (text === ORIGIN) return [origin ?? LOCAL];
  if (text === ALL) return homes.size === 0 ? [ALL] : [...homes].map(([name, home]) => `${name}:${home}`);
  const { platform, address } = parseTarget(text);
  if (address !== "" || traitsOf(platform)?.address === "none") return [text];
  return [formatTarget({ platform, address: fullAddress(platform, extra, homes.get(platform)) })];
}

/** Returns the same key for all addresses of one chat and thread; the extra may name the thread. */
function chatKey(text: string, extra: AddressContext["extra"] = {}): string {
  const { platform, address } = parseTarget(text);
  const { chat, thread } = chatOf(platform, address, extra);
  return JSON.stringify([platform, chat, thread]);
}

/** A chat of its own gets no thread of the home channel. */
function fullAddress(
  platform: string,
  extra: Readonly<Record<string, unknown>>,
  home: string | undefined,
): string {
  const chat = idOf(extra["chat_id"]) ?? home ?? "";
  const thread = idOf(extra["message_thread_id"]) ?? idOf(extra["thread_id"]);
  // Too long ids are refused when the message is sent.
  if (Math.max(chat.length, thread?.length ?? 0) > MAX_ID_CHARACTERS) return "";
  if (chat === "" || thread === undefined) return chat;
  const written = splitAddress(platform, chat);
  // A requested thread replaces the thread of the home channel, but not one that is part of `chat_id`.
  if (written.thread !== undefined && idOf(extra["chat_id"]) !== undefined) return chat;
  const whole = `${written.chat}:${thread}`;
  // When the thread cannot be appended to the chat, the target reads it from the extra.
  return isSameChat(splitAddress(platform, whole), { chat: written.chat, thread }) ? whole : written.chat;
}

const isSameChat = (a: ChatAddress, b: ChatAddress): boolean => a.chat === b.chat && a.thread === b.thread;

function findProblem(text: string): string | undefined {
  if (text === ORIGIN || text === ALL) return undefined;
  const { platform, address } = parseTarget(text);
  const traits = traitsOf(platform);
  if (!traits) return `${quoted(platform)} is not a target${suggest(platform, [...NAMES, ORIGIN, ALL])}`;
  if (text.length > MAX_ID_CHARACTERS) return `${quoted(platform)} has an address that is too long`;
  if (/\p{Cc}/u.test(text)) return `${quoted(platform)} has an address with control characters`;
  if (!text.includes(":")) return undefined;
  if (traits.address === "none") return `${platform} takes no address; use deliver_extra`;
  const { chat, thread } = splitAddress(platform, address);
  if (chat.trim() === "") return `${quoted(text)} names no chat`;
  return thread?.trim() === "" ? `${quoted(text)} has no thread after its last colon` : undefined;
}

/** Ignores inherited names such as `constructor`. */
function traitsOf(platform: string): PlatformTraits | undefined {
  return Object.hasOwn(platforms, platform) ? platforms[platform as keyof typeof platforms] : undefined;
}

const quoted = (text: string): string => JSON.stringify(text.slice(0, 100));

/** The target of `all` when no platform has a home channel: it refuses messages instead of losing them silently. */
export function createAllTarget(): Target {
  const hint = "Set the home_channel of a platform, or name the chats in the address.";
  return {
    name: ALL,
    isOrdered: false,
    send: async () => ({ status: "permanent", error: `No platform has a home channel. ${hint}` }),
  };
}
