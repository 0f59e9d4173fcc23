/** Options of the commands about messages to people. Pure. */
import { suggest } from "../../base/nearest.ts";
import { platforms } from "../../deliver/platform/names.ts";
import { MESSAGE_STATUSES, type MessageStatus } from "../../store/outbox/messages.ts";
import { UsageError } from "../kit/arguments.ts";

/** The words for people: what is leased is being sent. */
export type ShownStatus = Exclude<MessageStatus, "leased"> | "sending";

export const SHOWN_STATUSES: readonly ShownStatus[] = MESSAGE_STATUSES.map(shownStatus);

export function shownStatus(status: MessageStatus): ShownStatus {
  return status === "leased" ? "sending" : status;
}

/** UsageError for any other word. */
export function statusNamed(text: string): MessageStatus {
  const found = MESSAGE_STATUSES.find((status) => shownStatus(status) === text);
  if (found) return found;
  throw new UsageError(`--status must be one of ${SHOWN_STATUSES.join(", ")}.`);
}

/** UsageError for what is no platform. */
export function toPlatformName(text: string): string {
  if (Object.hasOwn(platforms, text)) return text;
  const hint = text.includes(":") ? "; name the platform alone." : suggest(text, Object.keys(platforms));
  throw new UsageError(`--target: ${JSON.stringify(text)} is no platform${hint}`);
}
