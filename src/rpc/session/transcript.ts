/** The conversation, as users see it: its messages, and the turn that is running. */
import { type RpcDeps } from "../deps.ts";
import { attachmentsOf, textOf } from "../../agent/session/session.ts";
import type { TranscriptMessage, Inflight } from "../../../generated/gateway/types/types.gen.ts";
import type { NumberedMessage, AssistantPart, Message } from "../../agent/engine.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact, redactValue } from "../../base/observe.ts";
import { tailOf } from "../../base/text.ts";
import { callContext } from "../events/payloads.ts";
import { parseInput } from "../../agent/run/run.ts";

const MAX_MESSAGES = 1_000;
/** What people see of a call and of its result before they ask for more. */
const MAX_OUTPUT_CHARACTERS = 4_096;

/** A page leaves space in the client's outbox. */
const MAX_PAGE_CHARACTERS = 4_194_304;

type ReadDeps = Pick<RpcDeps, "store" | "agent">;

/** A position in a session's journal. */
type JournalPosition = Parameters<RpcDeps["agent"]["runs"]["reads"]["runAt"]>[0];

export interface MessagePage {
  readonly messages: readonly TranscriptMessage[];
  readonly hasMore: boolean;
}

/**
 * Returns a page of messages, oldest first; without `before` the newest page. Very long messages end it early.
 * ServiceError `bad_value` for an id that names no message.
 */
export async function readMessages(
  { agent }: ReadDeps,
  sessionId: string,
  options: { readonly before?: string | number | undefined; readonly limit?: number | undefined } = {},
): Promise<MessagePage> {
  const { before, limit = MAX_MESSAGES } = options;
  const end = typeof before === "string" ? messageSeq(before, "before") : before;
  const page = await agent.sessions.reads.transcript(sessionId, {
    limit,
    ...(end === undefined ? {} : { before: end }),
  });
  const all = transcriptOf(page.messages);
  const messages = newestWithin(all, MAX_PAGE_CHARACTERS);
  return { messages, hasMore: page.hasMore || messages.length < all.length };
}

/** Returns the newest messages within the size, but at least one. */
function newestWithin(
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
function transcriptOf(messages: readonly NumberedMessage[]): TranscriptMessage[] {
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
    const { tool: name, status, code, callId, durationMs } = message;
    const input = calls.get(callId);
    const args = redactValue(input);
    const isSmall = args !== undefined && JSON.stringify(args).length <= MAX_OUTPUT_CHARACTERS;
    return {
      role: "tool",
      name,
      context: callContext(input),
      status,
      ...(code === undefined ? {} : { code }),
      tool_call_id: callId,
      ...(isSmall ? { args } : {}),
      // A secret that would be cut is redacted first.
      output: tailOf(redact(tailOf(message.text, 2 * MAX_OUTPUT_CHARACTERS)), MAX_OUTPUT_CHARACTERS),
      ...(durationMs === undefined ? {} : { duration_s: durationMs / 1000 }),
    };
  }
  const text = textOf(message);
  if (message.role !== "assistant") {
    const attachments = attachmentsOf(message);
    return { role: message.role, text, ...(attachments.length === 0 ? {} : { attachments }) };
  }
  const reasoning = message.parts
    .flatMap((part) => (part.type === "reasoning" && part.text !== "" ? [part.text] : []))
    .join("\n\n");
  if (text === "" && reasoning === "") return undefined;
  return {
    role: "assistant",
    text,
    ...(reasoning === "" ? {} : { reasoning }),
    ...(message.interrupted === true ? { status: "interrupted" as const } : {}),
  };
}

export interface TurnSoFar {
  /** The turn that was running at that position. */
  readonly inflight: Inflight | undefined;
  /** Number of the first message of that turn and of later ones. Events report the messages from there on. */
  readonly firstSeq: number | undefined;
}

/** Reads the turns of a session at a journal position, for a client that gets all later events. */
export async function turnSoFar(deps: ReadDeps, place: JournalPosition): Promise<TurnSoFar> {
  const { runs, sessions } = deps.agent;
  const [atWork, later] = await Promise.all([runs.reads.runAt(place), runs.reads.runsStartedAfter(place)]);
  const runIds = atWork === undefined ? later : [atWork, ...later];
  const [inflight, firstSeq] = await Promise.all([
    atWork === undefined ? undefined : inflightOf(deps, place, atWork),
    sessions.reads.firstMessageOf(place.sessionId, runIds),
  ]);
  return { inflight, firstSeq };
}

async function inflightOf(
  deps: ReadDeps,
  place: JournalPosition,
  runId: string,
): Promise<Inflight | undefined> {
  const run = await deps.store.find("runs", { id: runId });
  if (!run) return undefined;
  const [said, rows] = await Promise.all([
    deps.agent.runs.reads.streamedText(runId, place.upTo),
    messagesUpTo(deps, runId, place),
  ]);
  const prompt = parseInput(run).prompt.at(-1);
  const messages = newestWithin(transcriptOf(rows), MAX_PAGE_CHARACTERS);
  const user = prompt ? textOf(prompt) : "";
  return { user, assistant: said, streaming: true, messages: [...messages] };
}

/** Messages have no journal position. They are written with events, so the time of the event decides. */
async function messagesUpTo(
  { store, agent }: ReadDeps,
  runId: string,
  { sessionId, upTo }: JournalPosition,
): Promise<readonly NumberedMessage[]> {
  const last = await store.find("events", { session_id: sessionId, seq: upTo });
  return agent.sessions.reads.messagesOf({
    sessionId,
    runId,
    untilMs: last?.created_at,
    limit: MAX_MESSAGES,
  });
}
