import type { ChatStreamFrame, ChatToolCall, RunEvent } from "../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../generated/http/contract.gen.ts";
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
import { idempotencyOf } from "./idempotency.ts";
import type { HttpRoom } from "./room.ts";
import { failedAnswer, failureOf, shuttingDown } from "./run-failure.ts";
import { runEvents, runHeaders, startRun, stopWhenGone, type EventGroups } from "./submission.ts";

/** POST /v1/chat/completions: a chat is a run, and its answer is what the journal says about that run. */
export async function createChatCompletion(
  request: ChatHttpRequest,
  room: HttpRoom,
): Promise<HttpResponse<"createChatCompletion">> {
  const chat = await toChatRequest(request, room);
  const { signal } = request;
  const claim = idempotencyOf("createChatCompletion", request);
  const started = await startRun(chat.prompt, room, { claim, signal });
  const { runId, sessionId, createdAtMs } = started.submitted;
  const head: ChatHead = {
    id: `chatcmpl_${runId.slice("run_".length)}`,
    created: Math.floor(createdAtMs / 1000),
    model: chat.modelName,
    agent: { run_id: runId, session_id: sessionId },
  };
  const headers = runHeaders(started);
  // Who joined a run that somebody else began does not end it.
  const isMine = chat.cancelOnDisconnect && !started.replayed;
  const forget = isMine ? stopWhenGone(signal, runId, room) : () => {};
  if (chat.stream) return { status: 200, headers, stream: frames(head, started.events, chat) };
  return collect(head, started.events, headers).finally(forget);
}

/** The whole answer, once the run has ended. */
async function collect(
  head: ChatHead,
  groups: EventGroups,
  headers: ReturnType<typeof runHeaders>,
): Promise<HttpResponse<"createChatCompletion">> {
  const texts: string[] = [];
  const calls: ChatToolCall[] = [];
  let toolRan = false;
  for await (const event of runEvents(groups)) {
    if (event.event === "message.completed" && event.text !== "") texts.push(event.text);
    if (event.event === "tool.started") toolRan = true;
    if (event.event === "tool.requested") calls.push(toolCall(event));
    if (event.event === "run.completed") {
      const usage = toCompletionUsage(event.usage);
      const end = { text: texts.join("\n\n"), calls, finish: finishReason(event.stop), usage };
      return { status: 200, headers, body: completion(head, end) };
    }
    const failure = failureOf(event);
    if (failure) return failedAnswer(failure, { runId: head.agent.run_id, toolRan });
  }
  throw shuttingDown();
}

/** The answer as it comes. Texts of several messages are parted by an empty line, as in the whole answer. */
async function* frames(
  head: ChatHead,
  groups: EventGroups,
  chat: ChatRequest,
): AsyncGenerator<SseMessage<ChatStreamFrame>> {
  yield { data: { ...chunk(head, { role: "assistant", content: "" }), agent: head.agent } };
  let speaking: string | undefined;
  let calls = 0;
  for await (const event of runEvents(groups)) {
    if (event.event === "message.delta") {
      const gap = speaking !== undefined && speaking !== event.message_id ? "\n\n" : "";
      speaking = event.message_id;
      yield { data: chunk(head, { content: gap + event.delta }) };
    } else if (event.event === "reasoning.delta") {
      if (chat.showReasoning) yield { data: chunk(head, { reasoning_content: event.delta }) };
    } else if (event.event === "tool.started" || event.event === "tool.completed") {
      if (chat.includeProgress) yield { data: progressChunk(head, toolProgress(event)) };
    } else if (event.event === "tool.requested") {
      yield { data: chunk(head, { tool_calls: [{ index: calls++, ...toolCall(event) }] }) };
    } else if (event.event === "run.completed") {
      yield { data: chunk(head, {}, finishReason(event.stop)) };
      if (chat.includeUsage) yield { data: usageChunk(head, toCompletionUsage(event.usage)) };
    } else {
      const failure = failureOf(event);
      if (failure) yield { data: errorEnvelope(failure) };
    }
  }
}

function toolCall(event: Extract<RunEvent, { event: "tool.requested" }>): ChatToolCall {
  const { tool_call_id: id, tool: name, arguments: json } = event;
  return { id, type: "function", function: { name, arguments: json } };
}

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
