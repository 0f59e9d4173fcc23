/** The conversation, as users see it. */
import type { TranscriptMessage } from "../../../generated/gateway/types/types.gen.ts";
import { readTranscript, type NumberedMessage } from "../../agent/session/transcript.ts";
import { textOf, type AssistantPart, type Message } from "../../agent/message.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import type { Store } from "../../store/store.ts";
import { oneLine } from "../events/payloads.ts";
import { headOf } from "../../base/text.ts";

const MAX_MESSAGES = 1_000;

/** A page leaves space in the client's outbox. */
export const MAX_PAGE_CHARACTERS = 4_194_304;

export interface MessagePage {
  readonly messages: readonly TranscriptMessage[];
  readonly hasMore: boolean;
}

/**
 * Returns a page of messages, oldest first; without `before` the newest page. Very long messages end it early.
 * ServiceError `bad_value` for an id that names no message.
 */
export async function readMessages(
  store: Store,
  sessionId: string,
  options: { readonly before?: string | number | undefined; readonly limit?: number | undefined } = {},
): Promise<MessagePage> {
  const { before, limit = MAX_MESSAGES } = options;
  const end = typeof before === "string" ? messageSeq(before, "before") : before;
  const page = await readTranscript(store, sessionId, {
    limit,
    ...(end === undefined ? {} : { before: end }),
  });
  const all = transcriptOf(page.messages);
  const messages = newestWithin(all, MAX_PAGE_CHARACTERS);
  return { messages, hasMore: page.hasMore || messages.length < all.length };
}

/** Returns the newest messages within the size, but at least one. */
export function newestWithin(
  messages: readonly TranscriptMessage[],
  characters: number,
): readonly TranscriptMessage[] {
  let left = characters;
  const from = messages.findLastIndex((message) => (left -= JSON.stringify(message).length) < 0);
  return messages.slice(Math.min(from + 1, Math.max(0, messages.length - 1)));
}

/** Returns the number of the message that an id names. ServiceError `bad_value`. */
export function messageSeq(id: string, param: string): number {
  const seq = Number(/^msg_(\d{1,15})$/.exec(id)?.[1]);
  if (Number.isSafeInteger(seq)) return seq;
  throw new ServiceError("bad_value", `${param} must be a message_id of session.history.`, { param });
}

/** Shows each tool call as a line at its result. Messages that contain only calls are left out. */
export function transcriptOf(messages: readonly NumberedMessage[]): TranscriptMessage[] {
  const calls = new Map<string, unknown>();
  const shown: TranscriptMessage[] = [];
  for (const { seq, message } of messages) {
    if (message.role === "assistant") for (const part of message.parts) recordCall(part, calls);
    const about = shownOf(message, calls);
    if (about) shown.push({ ...about, message_id: `msg_${seq}` });
  }
  return shown;
}

function recordCall(part: AssistantPart, calls: Map<string, unknown>): void {
  if (part.type === "tool_call") calls.set(part.callId, part.input);
}

function shownOf(message: Message, calls: ReadonlyMap<string, unknown>): TranscriptMessage | undefined {
  if (message.role === "tool") {
    const context = contextOf(calls.get(message.callId));
    return { role: "tool", name: message.tool, context };
  }
  const text = textOf(message);
  if (message.role !== "assistant") return { role: message.role, text };
  const reasoning = message.parts
    .flatMap((part) => (part.type === "reasoning" && part.text !== "" ? [part.text] : []))
    .join("\n\n");
  if (text === "" && reasoning === "") return undefined;
  return { role: "assistant", text, ...(reasoning === "" ? {} : { reasoning }) };
}

/** Returns what a call was about: its first text, such as a command or a path. */
function contextOf(input: unknown): string {
  if (typeof input !== "object" || input === null) return "";
  const first = Object.values(input).find((value) => typeof value === "string");
  return oneLine(redact(typeof first === "string" ? headOf(first, 1_000) : ""));
}
