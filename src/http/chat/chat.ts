import type {
  ChatStreamFrame,
  ChatToolCall,
  ChatCompletion,
  CompletionUsage,
  FinishReason,
} from "../../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../../generated/http/contract.gen.ts";
import { nameOfId } from "../../agent/session/session.ts";
import {
  ChatChunks,
  finishReason,
  toCompletionUsage,
  toolCall,
  type ChatHead,
  type ChunkOptions,
} from "../../../generated/http/chat.gen.ts";
import { errorEnvelope } from "../edge/answer.ts";
import { toChatRequest, type ChatHttpRequest, type ChatRequest } from "./chat-request.ts";
import type { HttpResponse } from "../edge/contract.ts";
import { idempotencyOf } from "../edge/idempotency.ts";
import type { HttpDeps } from "../deps.ts";
import {
  failedAnswer,
  failureOf,
  shuttingDown,
  runEvents,
  runHeaders,
  startRun,
  stopWhenGone,
  type EventGroups,
} from "../prompt/submission.ts";

/** POST /v1/chat/completions: starts a run and builds the answer from its journal. */
export async function createChatCompletion(
  request: ChatHttpRequest,
  deps: HttpDeps,
): Promise<HttpResponse<"createChatCompletion">> {
  const chat = await toChatRequest(request, deps);
  const { signal } = request;
  const claim = idempotencyOf("createChatCompletion", request);
  const started = await startRun(chat.prompt, deps, { claim, signal });
  const { runId, sessionId, createdAtMs } = started.submitted;
  const head: ChatHead = {
    id: `chatcmpl_${runId.slice("run_".length)}`,
    created: Math.floor(createdAtMs / 1000),
    model: chat.modelName,
    agent: { run_id: runId, session_id: nameOfId(sessionId) },
  };
  const headers = runHeaders(started);
  const isMine = chat.cancelOnDisconnect && !started.isJoined;
  const stopWatching = isMine ? stopWhenGone(signal, runId, deps) : () => {};
  if (chat.stream) return { status: 200, headers, stream: frames(head, started.events, chunkOptions(chat)) };
  return collect(head, started.events, headers).finally(stopWatching);
}

/** Separate from the request, whose messages a stream would hold to its end. */
function chunkOptions({ includeUsage, includeProgress, showReasoning }: ChatRequest): ChunkOptions {
  return { includeUsage, includeProgress, showReasoning };
}

/** Returns the whole answer when the run ends. */
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
    if (failure) return failedAnswer(failure, { headers, toolRan });
  }
  throw shuttingDown();
}

/**
 * Streams the answer. Each frame carries the number of its run event, so that a client can resume at the run's
 * events.
 */
async function* frames(
  head: ChatHead,
  groups: EventGroups,
  options: ChunkOptions,
): AsyncGenerator<SseMessage<ChatStreamFrame>> {
  const chunks = new ChatChunks(head, options);
  yield { data: chunks.first() };
  for await (const event of runEvents(groups)) {
    const made = chunks.of(event);
    for (const [index, data] of made.entries()) {
      yield index === made.length - 1 ? { data, id: String(event.seq) } : { data };
    }
    const failure = made.length === 0 ? failureOf(event) : undefined;
    if (failure) yield { data: errorEnvelope(failure) };
  }
}

export interface ChatEnd {
  readonly text: string;
  /** Calls that the client has to make. */
  readonly calls: readonly ChatToolCall[];
  readonly finish: FinishReason;
  readonly usage: CompletionUsage;
}

/** Returns the whole answer in the chat completions format. */
export function completion(head: ChatHead, end: ChatEnd): ChatCompletion {
  const hasCalls = end.calls.length > 0;
  const message = {
    role: "assistant" as const,
    content: hasCalls && end.text === "" ? null : end.text,
    refusal: null,
    ...(hasCalls ? { tool_calls: [...end.calls] } : {}),
  };
  return {
    id: head.id,
    object: "chat.completion",
    created: head.created,
    model: head.model,
    choices: [{ index: 0, message, finish_reason: end.finish, logprobs: null }],
    usage: end.usage,
    agent: head.agent,
  };
}
