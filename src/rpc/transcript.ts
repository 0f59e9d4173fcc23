/** The conversation as people see it. */
import type { Inflight, TranscriptMessage } from "../../generated/gateway/types/types.gen.ts";
import { readTranscript, type NumberedMessage } from "../agent/history.ts";
import { textOf, type AssistantPart, type Message } from "../agent/message.ts";
import { parseInput } from "../agent/run.ts";
import { ServiceError } from "../base/errors.ts";
import { redact } from "../base/redact.ts";
import type { Store } from "../store/store.ts";
import { oneLine } from "./tool-payload.ts";

const MAX_MESSAGES = 1_000;
const MAX_INFLIGHT_EVENTS = 5_000;

export interface MessagePage {
  readonly messages: readonly TranscriptMessage[];
  readonly hasMore: boolean;
}

/** A page, oldest first; without `before` the newest. ServiceError `bad_value` for an id that names no message. */
export async function readMessages(
  store: Store,
  sessionId: string,
  options: { readonly before?: string | undefined; readonly limit?: number | undefined } = {},
): Promise<MessagePage> {
  const { before, limit = MAX_MESSAGES } = options;
  const { messages, hasMore } = await readTranscript(store, sessionId, {
    limit,
    ...(before === undefined ? {} : { before: messageSeq(before, "before") }),
  });
  return { messages: transcriptOf(messages), hasMore };
}

/** How many messages are kept, those that are shown to nobody among them. */
export async function countMessages(store: Store, sessionId: string): Promise<number> {
  return (await messageCounts(store, [sessionId])).get(sessionId) ?? 0;
}

/** The same of many sessions; one without messages is not among them. */
export async function messageCounts(
  store: Store,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (sessionIds.length === 0) return new Map();
  const rows = await store.read
    .selectFrom("messages")
    .select(["session_id", (is) => is.fn.countAll<number | string>().as("count")])
    .where("session_id", "in", sessionIds)
    .groupBy("session_id")
    .execute();
  return new Map(rows.map(({ session_id, count }) => [session_id, Number(count)]));
}

/** Number of the message that an id names. ServiceError `bad_value`. */
export function messageSeq(id: string, param: string): number {
  const seq = Number(/^msg_(\d{1,15})$/.exec(id)?.[1]);
  if (Number.isSafeInteger(seq)) return seq;
  throw new ServiceError("bad_value", `${param} must be a message_id of session.history.`, { param });
}

/** Of tool calls a line each, at the place of their answers; messages that are nothing but calls are left out. */
export function transcriptOf(messages: readonly NumberedMessage[]): TranscriptMessage[] {
  const calls = new Map<string, unknown>();
  const shown: TranscriptMessage[] = [];
  for (const { seq, message } of messages) {
    if (message.role === "assistant") for (const part of message.parts) noteCall(part, calls);
    const about = shownOf(message, calls);
    if (about) shown.push({ ...about, message_id: `msg_${seq}` });
  }
  return shown;
}

function noteCall(part: AssistantPart, calls: Map<string, unknown>): void {
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

/** What a call was about: its first text, such as a command or a path. */
function contextOf(input: unknown): string {
  if (typeof input !== "object" || input === null) return "";
  const first = Object.values(input).find((value) => typeof value === "string");
  return oneLine(redact(typeof first === "string" ? first.slice(0, 1_000) : ""));
}

/** The turn at work so far; undefined when there is none. */
export async function inflightOf(store: Store, sessionId: string): Promise<Inflight | undefined> {
  const run = await store.read
    .selectFrom("runs")
    .selectAll()
    .where("session_id", "=", sessionId)
    .where("ended_at", "is", null)
    .where("started_at", "is not", null)
    .limit(1)
    .executeTakeFirst();
  if (!run) return undefined;
  const rows = await store.read
    .selectFrom("events")
    .select("data")
    .where("run_id", "=", run.id)
    .where("type", "=", "message.delta")
    .orderBy("run_seq", "desc")
    .limit(MAX_INFLIGHT_EVENTS)
    .execute();
  const said = rows.reverse().map(({ data }) => (JSON.parse(data) as { readonly delta: string }).delta);
  const prompt = parseInput(run).prompt.at(-1);
  return { user: prompt ? textOf(prompt) : "", assistant: said.join(""), streaming: true };
}
