import type { ChatStreamFrame, RunEvent } from "../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../generated/http/contract.gen.ts";
import { toRunEvent } from "../agent/event.ts";
import type { Submitted } from "../agent/prompt.ts";
import { errorTable, ServiceError, type ErrorCode } from "../base/errors.ts";
import type { JournalEvent } from "../store/journal.ts";
import { errorEnvelope } from "./answer.ts";
import {
  chunk,
  completion,
  finishReason,
  progressChunk,
  toCompletionUsage,
  usageChunk,
  type ChatHead,
} from "./chat-format.ts";
import { toChatRequest, type ChatHttpRequest, type ChatRequest } from "./chat-request.ts";
import type { HttpResponse } from "./contract.ts";
import type { HttpRoom } from "./room.ts";

type EventGroups = AsyncIterable<readonly JournalEvent[]>;

/** POST /v1/chat/completions: a chat is a run, and its answer is what the journal says about that run. */
export async function createChatCompletion(
  request: ChatHttpRequest,
  room: HttpRoom,
): Promise<HttpResponse<"createChatCompletion">> {
  const chat = toChatRequest(request, room);
  const { submitted, events } = await start(chat, room, request.signal);
  const head: ChatHead = {
    id: `chatcmpl_${submitted.runId.slice("run_".length)}`,
    created: Math.floor(room.clock.now() / 1000),
    model: chat.modelName,
    agent: { run_id: submitted.runId, session_id: submitted.sessionId },
  };
  const headers = answerHeaders(submitted);
  const forget = chat.cancelOnDisconnect ? stopWhenGone(request.signal, submitted.runId, room) : () => {};
  if (chat.stream) return { status: 200, headers, stream: frames(head, events, chat) };
  return collect(head, events, headers).finally(forget);
}

/** Submits the prompt, following its run from before its first event is committed. */
async function start(
  chat: ChatRequest,
  room: HttpRoom,
  signal: AbortSignal,
): Promise<{ submitted: Submitted; events: EventGroups }> {
  const { journal } = room.store;
  let events: EventGroups | undefined;
  const beforeStart = (runId: string) => {
    events = journal.follow({ runId }, { fresh: true, signal });
  };
  try {
    const submitted = await room.turns.submit({ ...chat.prompt, beforeStart });
    return { submitted, events: events ?? journal.follow({ runId: submitted.runId }, { signal }) };
  } catch (error) {
    await events?.[Symbol.asyncIterator]().return?.();
    throw error;
  }
}

/** Cancels the run when the client leaves; the returned function ends the watch. */
function stopWhenGone(signal: AbortSignal, runId: string, room: HttpRoom): () => void {
  const stop = () => {
    room.turns.stop(runId, "the client left").catch((error: unknown) => {
      room.log.error("a run could not be stopped", { run: runId, error });
    });
  };
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  return () => signal.removeEventListener("abort", stop);
}

function answerHeaders(submitted: Submitted) {
  return {
    "x-agent-run-id": submitted.runId,
    "x-agent-session-id": submitted.sessionId,
    "x-agent-model": submitted.model,
    ...(submitted.sessionKey === null ? {} : { "x-agent-session-key": submitted.sessionKey }),
  };
}

/** The whole answer, once the run has ended. */
async function collect(
  head: ChatHead,
  groups: EventGroups,
  headers: ReturnType<typeof answerHeaders>,
): Promise<HttpResponse<"createChatCompletion">> {
  const texts: string[] = [];
  let tools = 0;
  for await (const event of runEvents(groups)) {
    if (event.event === "message.completed" && event.text !== "") texts.push(event.text);
    if (event.event === "tool.started") tools++;
    if (event.event === "run.completed") {
      const usage = toCompletionUsage(event.usage);
      const end = { text: texts.join("\n\n"), finish: finishReason(event.stop), usage };
      return { status: 200, headers, body: completion(head, end) };
    }
    const failure = failureOf(event);
    if (failure) return failedAnswer(failure, tools > 0, head);
  }
  throw new ServiceError("server_draining", "The server is shutting down.", { retryAfterSeconds: 1 });
}

/** The answer as it comes. Texts of several messages are parted by an empty line, as in the whole answer. */
async function* frames(
  head: ChatHead,
  groups: EventGroups,
  chat: ChatRequest,
): AsyncGenerator<SseMessage<ChatStreamFrame>> {
  yield { data: { ...chunk(head, { role: "assistant", content: "" }), agent: head.agent } };
  let speaking: string | undefined;
  for await (const event of runEvents(groups)) {
    if (event.event === "message.delta") {
      const gap = speaking !== undefined && speaking !== event.message_id ? "\n\n" : "";
      speaking = event.message_id;
      yield { data: chunk(head, { content: gap + event.delta }) };
    } else if (event.event === "reasoning.delta") {
      yield { data: chunk(head, { reasoning_content: event.delta }) };
    } else if (event.event === "tool.started" || event.event === "tool.completed") {
      if (chat.includeProgress) yield { data: progressChunk(head, toolProgress(event)) };
    } else if (event.event === "run.completed") {
      yield { data: chunk(head, {}, finishReason(event.stop)) };
      if (chat.includeUsage) yield { data: usageChunk(head, toCompletionUsage(event.usage)) };
    } else {
      const failure = failureOf(event);
      if (failure) yield { data: errorEnvelope(failure) };
    }
  }
}

/** The events of a run up to its final one. */
async function* runEvents(groups: EventGroups): AsyncGenerator<RunEvent> {
  for await (const group of groups) {
    for (const entry of group) {
      const event = toRunEvent(entry);
      yield event;
      if (FINAL.has(event.event)) return;
    }
  }
}

const FINAL: ReadonlySet<string> = new Set([
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.interrupted",
]);

type ToolEvent = Extract<RunEvent, { event: "tool.started" | "tool.completed" }>;

function toolProgress(event: ToolEvent) {
  const call = { tool: event.tool, tool_call_id: event.tool_call_id };
  if (event.event === "tool.started") {
    const label = event.preview === undefined ? {} : { label: event.preview };
    return { ...call, ...label, type: "tool.started" as const, status: "running" as const };
  }
  return {
    ...call,
    type: "tool.completed" as const,
    status: event.error ? ("failed" as const) : ("completed" as const),
    duration_ms: Math.round(event.duration * 1000),
  };
}

/** The error that a run's end is for whoever waits for its answer; undefined for other events. */
function failureOf(event: RunEvent): ServiceError | undefined {
  if (event.event === "run.failed") {
    const { code, message } = event.error;
    const known: ErrorCode = Object.hasOwn(errorTable, code) ? (code as ErrorCode) : "internal_error";
    // The model's name was accepted; that its provider does not have it is the provider's answer, not a bad request.
    return new ServiceError(known === "model_not_found" ? "provider_error" : known, message);
  }
  if (event.event === "run.cancelled") {
    return new ServiceError("agent_incomplete", "The run was stopped before it finished.");
  }
  return event.event === "run.interrupted"
    ? new ServiceError("agent_incomplete", event.error.message)
    : undefined;
}

/** Once a tool ran, clients are told not to repeat the request: its effects would be repeated as well. */
function failedAnswer(
  failure: ServiceError,
  toolRan: boolean,
  head: ChatHead,
): HttpResponse<"createChatCompletion"> {
  return {
    status: failure.row.http as 500 | 502 | 504,
    headers: { "x-agent-run-id": head.agent.run_id, ...(toolRan ? { "x-should-retry": "false" } : {}) },
    body: errorEnvelope(failure),
  };
}
