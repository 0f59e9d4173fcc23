/** Ids of chats and threads that are none, or not what was written. Pure. */
import { isRecord } from "../../base/json/schema.ts";
import { platforms, type PlatformTraits } from "./names.ts";

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
