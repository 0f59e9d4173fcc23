/** Where messages are to go, as people write it: `origin`, `telegram:-100123:17, sms:+15550100`, `all`. Pure. */
import { suggest } from "../base/nearest.ts";
import {
  MAX_ID_CHARACTERS,
  idOf,
  chatOf,
  splitAddress,
  type ChatAddress,
  platforms,
  type PlatformTraits,
} from "./message.ts";
import { formatTarget, parseTarget, type Targets, type Target } from "./target.ts";

/** What addresses are completed with. */
interface AddressContext {
  /** `deliver_extra`, rendered: its `chat_id`, and `message_thread_id` or `thread_id`, count for addresses without a chat. */
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
  /** By platform: the chat, or chat and thread, of messages that name the platform alone. */
  readonly homes: Homes;
  /** The address of whoever asked, when somebody did. */
  readonly origin?: string | undefined;
}

export type Homes = ReadonlyMap<string, string>;

/** Every platform with a home channel; where there is none, a target of this name refuses. */
export const ALL = "all";
/** Whoever asked; where nobody did, a file. */
const ORIGIN = "origin";
const LOCAL = "local";
const LOG = "log";

const MAX_ADDRESSES = 16;
const NAMES = Object.keys(platforms);

/**
 * Whole addresses, `platform`, `platform:chat` or `platform:chat:thread`, each place once, in their order. Commas separate
 * addresses wherever they stand: no platform has chats with commas in their names. What {@link findAddressProblems} would refuse
 * stays as it is written.
 */
export function resolveAddresses(text: string, context: AddressContext): readonly string[] {
  const addresses = new Map<string, string>();
  for (const address of splitAddresses(text).flatMap((each) => resolve(each, context))) {
    const key = chatKey(address, context.extra);
    if (!addresses.has(key)) addresses.set(key, address);
  }
  return [...addresses.values()];
}

/** What is wrong with addresses, a clause each. */
export function findAddressProblems(text: string): readonly string[] {
  const list = splitAddresses(text);
  if (list.length === 0) return ["it names no target"];
  if (list.length > MAX_ADDRESSES)
    return [`it names ${list.length} targets; at most ${MAX_ADDRESSES} are told`];
  return list.flatMap((address) => findProblem(address) ?? []);
}

/** Platforms that addresses name, each once: `origin` may be any, and counts as `local`. */
export function platformsOf(text: string): readonly string[] {
  const names = splitAddresses(text).map((address) => parseTarget(address).platform);
  return [...new Set(names.map((name) => (name === ORIGIN ? LOCAL : name)))];
}

export function homesOf(targets: Targets): Homes {
  const homes = [...targets.values()].map(({ name, home }) => [name, home] as const);
  return new Map(homes.filter((each): each is readonly [string, string] => Boolean(each[1])));
}

/** Whether an address leads to whoever runs this service: to this machine, or to a home channel in any of its threads. */
export function isOwnersAddress(text: string, homes: Homes): boolean {
  const { platform, address } = parseTarget(text);
  if (platform === LOCAL || platform === LOG) return true;
  const home = homes.get(platform);
  if (home === undefined || address === "") return false;
  return splitAddress(platform, address).chat === splitAddress(platform, home).chat;
}

/** Parts that are empty do not count. */
function splitAddresses(text: string): readonly string[] {
  return text
    .split(",")
    .map((part) => withoutSpaces(part.trim()))
    .filter((part) => part !== "");
}

/** Around the first colon. */
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

/** The same for all addresses that lead to one place: the extra may say the thread of an address without one. */
function chatKey(text: string, extra: AddressContext["extra"] = {}): string {
  const { platform, address } = parseTarget(text);
  const { chat, thread } = chatOf(platform, address, extra);
  return JSON.stringify([platform, chat, thread]);
}

/** A chat of one's own gets no thread of the home channel. */
function fullAddress(
  platform: string,
  extra: Readonly<Record<string, unknown>>,
  home: string | undefined,
): string {
  const chat = idOf(extra["chat_id"]) ?? home ?? "";
  const thread = idOf(extra["message_thread_id"]) ?? idOf(extra["thread_id"]);
  // They are refused when the message is sent.
  if (Math.max(chat.length, thread?.length ?? 0) > MAX_ID_CHARACTERS) return "";
  if (chat === "" || thread === undefined) return chat;
  const written = splitAddress(platform, chat);
  // The thread of the home channel gives way to one that was asked for; one in `chat_id` itself does not.
  if (written.thread !== undefined && idOf(extra["chat_id"]) !== undefined) return chat;
  const whole = `${written.chat}:${thread}`;
  // Where a thread does not fit behind the chat the target finds it in the extra.
  return isSameChat(splitAddress(platform, whole), { chat: written.chat, thread }) ? whole : written.chat;
}

const isSameChat = (a: ChatAddress, b: ChatAddress): boolean => a.chat === b.chat && a.thread === b.thread;

function findProblem(text: string): string | undefined {
  if (text === ORIGIN || text === ALL) return undefined;
  const { platform, address } = parseTarget(text);
  const traits = traitsOf(platform);
  if (!traits) return `${quoted(platform)} is no target${suggest(platform, [...NAMES, ORIGIN, ALL])}`;
  if (text.length > MAX_ID_CHARACTERS) return `${quoted(platform)} has an address that is too long`;
  if (/\p{Cc}/u.test(text)) return `${quoted(platform)} has an address with control characters`;
  if (!text.includes(":")) return undefined;
  if (traits.address === "none")
    return `${platform} takes no address behind it; what it needs goes into the extra`;
  const { chat, thread } = splitAddress(platform, address);
  if (chat.trim() === "") return `${quoted(text)} names no chat`;
  return thread?.trim() === "" ? `${quoted(text)} names no thread behind its last colon` : undefined;
}

/** Names such as `constructor` are no platforms. */
function traitsOf(platform: string): PlatformTraits | undefined {
  return Object.hasOwn(platforms, platform) ? platforms[platform as keyof typeof platforms] : undefined;
}

const quoted = (text: string): string => JSON.stringify(text.slice(0, 100));

/** What `all` becomes where no platform has a home channel: messages to nobody are refused, not lost in silence. */
export function createAllTarget(): Target {
  const hint = "Set home_channel of a platform, or name the chats in the address.";
  return {
    name: ALL,
    isOrdered: false,
    send: async () => ({ status: "permanent", error: `No platform had a home channel. ${hint}` }),
  };
}
