/** Messages of the outbox as people see them. Pure. */
import { isRecord } from "../../base/data.ts";
import { MESSAGE_STATUSES, type MessageStatus, type OutboxMessage } from "../../store/outbox/messages.ts";

/** The status as users see it: `leased` reads `sending`. */
export type ShownStatus = Exclude<MessageStatus, "leased"> | "sending";

export const SHOWN_STATUSES: readonly ShownStatus[] = MESSAGE_STATUSES.map(shownStatus);

export function shownStatus(status: MessageStatus): ShownStatus {
  return status === "leased" ? "sending" : status;
}

export function statusOfShown(status: ShownStatus): MessageStatus {
  return status === "sending" ? "leased" : status;
}

/** How a user retries and drops a message: a command, or a request. */
interface MessageActions {
  readonly retry: string;
  readonly drop: string;
}

/** Returns what to do about a message; undefined when nothing is left to do. */
export function messageHint(
  { status, isBlocked }: Pick<OutboxMessage, "status" | "isBlocked">,
  { retry, drop }: MessageActions,
): string | undefined {
  switch (status) {
    case "due":
      return isBlocked
        ? `It waits for an older message to the same chat. ${drop} drops it.`
        : `A running \`agentd gateway\` sends it. ${retry} makes it due now; ${drop} drops it.`;
    case "leased":
      return "A process is sending it.";
    case "dead":
      return `All attempts failed. Fix what the error names, then run ${retry}; ${drop} drops the message.`;
    case "unknown":
      return `It may have arrived. Check the chat: if the message is missing, run ${retry}; if it arrived, run ${drop}.`;
    case "delivered":
    case "dropped":
      return undefined;
  }
}

/**
 * Returns the text of a message, or the body of a webhook, which its signing secret is not part of; undefined when the
 * payload has neither.
 */
export function textOfPayload(payload: string): string | undefined {
  const value = parse(payload);
  if (!isRecord(value)) return undefined;
  const { text, body } = value;
  if (typeof text === "string") return text;
  return typeof body === "string" ? body : undefined;
}

/** Returns the names of the files that a message sends along. */
export function filesOfPayload(payload: string): readonly string[] {
  const value = parse(payload);
  const files: unknown = isRecord(value) ? value["files"] : undefined;
  const list: readonly unknown[] = Array.isArray(files) ? files : [];
  return list.flatMap((file) => (isRecord(file) && typeof file["name"] === "string" ? [file["name"]] : []));
}

function parse(payload: string): unknown {
  try {
    return JSON.parse(payload);
  } catch {
    return undefined;
  }
}
