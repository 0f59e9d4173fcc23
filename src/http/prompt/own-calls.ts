/** Calls of the agent's own tools, in a conversation that its client sends back without them. */
import { type HttpDeps } from "../deps.ts";
import type { Message } from "../../agent/engine.ts";

/**
 * Returns `messages` with the calls that the agent's own tools made in them. The chat format shows a client only the calls
 * of its functions, so it cannot send the others back. The run that waits for the last of them has the whole
 * conversation; it counts only if the client sends the same one. Without such a run, returns `messages` unchanged.
 */
export async function restoreOwnCalls(
  messages: readonly Message[],
  owner: string,
  { reads }: HttpDeps["agent"]["sessions"],
): Promise<readonly Message[]> {
  const last = messages.findLastIndex((message) => callIdsOf(message).length > 0);
  const [callId] = last < 0 ? [] : callIdsOf(messages[last] as Message);
  if (callId === undefined) return messages;
  const sent = fingerprint(messages.slice(0, last + 1), callIdsOf);
  for (const { sessionId } of await reads.findRunsWaiting({ owner, callId })) {
    const { messages: kept } = await reads.transcript(sessionId, { limit: MAX_KEPT });
    const transcript = kept.map(({ message }) => message);
    const known = throughCall(transcript, callId);
    if (fingerprint(known, pendingIdsOf) === sent) return [...known, ...messages.slice(last + 1)];
  }
  return messages;
}

/** A longer conversation is not compared. */
const MAX_KEPT = 4_000;

/** Returns the messages up to the answer that makes the call, with the results that belong to it. */
function throughCall(messages: readonly Message[], callId: string): readonly Message[] {
  const at = messages.findLastIndex((message) => callIdsOf(message).includes(callId));
  const next = messages.findIndex((message, index) => index > at && message.role !== "tool");
  return messages.slice(0, next < 0 ? messages.length : next);
}

function callIdsOf(message: Message): readonly string[] {
  if (message.role !== "assistant") return [];
  return message.parts.flatMap((part) => (part.type === "tool_call" ? [part.callId] : []));
}

/** The calls that the client makes, as a transcript records them. */
function pendingIdsOf(message: Message): readonly string[] {
  return message.role === "tool" && message.status === "pending" ? [message.callId] : [];
}

/** Returns what both sides know of a conversation: the texts, without spaces, and the client's calls. */
function fingerprint(messages: readonly Message[], callsOf: (message: Message) => readonly string[]): string {
  const spoken = messages.map((message) => {
    if (message.role === "user") return `\n${JSON.stringify(message.text)}\n`;
    if (message.role !== "assistant") return "";
    return message.parts
      .map((part) => (part.type === "text" ? part.text.replaceAll(/\s/g, "") : ""))
      .join("");
  });
  return JSON.stringify([spoken.join(""), messages.flatMap(callsOf)]);
}
