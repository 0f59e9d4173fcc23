/** Who gets a message on Signal. Pure. */
import type { Message } from "../../message.ts";
import { readPhoneNumber } from "../../platform/phone-number.ts";

export type SignalRecipient =
  /** A phone number or a UUID. */
  | { readonly kind: "person"; readonly id: string }
  /** A user name with its number, such as `maria.42`. */
  | { readonly kind: "username"; readonly id: string }
  /** The id as signal-cli shows it, base64. */
  | { readonly kind: "group"; readonly id: string };

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const USERNAME = /^(?:u:)?([a-z_][a-z0-9_]{2,31}\.\d{2,20})$/i;
const GROUP = /^[A-Za-z0-9+/_-]{22,86}={0,2}$/;

/**
 * A chat is a phone number, a UUID, a user name, `group:` and the id of a group, or `group.` and that id in base64 once
 * more, as signal-cli-rest-api writes it. `group_id` in `deliver_extra` goes before it. A string: what is wrong.
 */
export function readRecipient({ chat, extra }: Message): SignalRecipient | string {
  const group = extra["group_id"] ?? extra["groupId"];
  if (group !== undefined) return groupOf(typeof group === "string" ? group : "");
  if (chat === "") {
    return "No chat is named: set deliver_extra.chat_id, or platforms.signal.home_channel (SIGNAL_HOME_CHANNEL).";
  }
  if (/^group[:.]/.test(chat)) return groupOf(chat);
  const id = readPhoneNumber(chat) ?? (UUID.test(chat) ? chat : undefined);
  if (id !== undefined) return { kind: "person", id };
  const username = USERNAME.exec(chat)?.[1];
  if (username !== undefined) return { kind: "username", id: username };
  return "The chat must be a phone number with + and country code (in deliver_extra in quotes, or the + is lost), a UUID, a user name such as maria.42, or group: and the id of a group.";
}

/** The form that signal-cli-rest-api takes for a group. */
export function restGroup(id: string): string {
  return `group.${btoa(id)}`;
}

function groupOf(text: string): SignalRecipient | string {
  const id = text.startsWith("group.") ? decoded(text.slice("group.".length)) : text.replace(/^group:/, "");
  return GROUP.test(id)
    ? { kind: "group", id }
    : "The group must be its id in base64, as `signal-cli listGroups` shows it.";
}

function decoded(text: string): string {
  try {
    return atob(text);
  } catch {
    return "";
  }
}
