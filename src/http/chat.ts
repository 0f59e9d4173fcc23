import type {
  ChatCompletion,
  ChatCompletionRequest,
  ChatMessage,
  ChatStreamFrame,
  ChatToolCall,
  CompletionUsage,
  FinishReason,
  RunEvent,
} from "../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../generated/http/contract.gen.ts";
import {
  ChatChunks,
  finishReason,
  refusalOf,
  toCompletionUsage,
  toolCall,
  type ChatHead,
  type ChunkOptions,
} from "../../generated/http/chat.gen.ts";
import type { AssistantPart, Message, ModelSettings } from "../agent/engine.ts";
import { type Prompt, toRunEvent } from "../agent/run/run.ts";
import { findSession, nameOfId, type SessionAddress } from "../agent/session/session.ts";
import { ServiceError } from "../base/errors.ts";
import type { HttpContext, HttpDeps } from "./deps.ts";
import { errorEnvelope } from "./edge/answer.ts";
import type { HttpRequest, HttpResponse } from "./edge/contract.ts";
import {
  approvals,
  attachTo,
  checkCount,
  checkText,
  checkToolsets,
  clientTools,
  outputFormat,
  parseArguments,
  requestedModel,
  requestedWebhook,
  sessionAddress,
  withKey,
  splitContent,
  textContent,
  type PendingAttachments,
  type RequestedChoice,
} from "./prompt/fields.ts";
import { restoreOwnCalls } from "./prompt/own-calls.ts";
import {
  failedAnswer,
  failureOf,
  idempotencyOf,
  openAnswer,
  runHeaders,
  shuttingDown,
  startRun,
  stopWhenGone,
  type EventGroups,
} from "./prompt/submission.ts";
import { UNKNOWN_TOOL, type UnmatchedResult } from "./responses/input-items.ts";

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
  const options = answerOptions(chat);
  if (!chat.stream) return collect(head, started.events, { headers, options }).finally(stopWatching);
  const opened = await openAnswer(started.events, deps.clock);
  if (opened.failure) return failedAnswer(opened.failure, { headers, toolRan: false, event: opened.end });
  return { status: 200, headers, stream: frames(head, opened.events, options) };
}

interface AnswerOptions extends ChunkOptions {
  readonly numbersFrames: boolean;
}

/** Separate from the request, whose messages a stream would hold to its end. */
function answerOptions(chat: ChatRequest): AnswerOptions {
  const { includeUsage, includeProgress, showReasoning, hasFormat, numbersFrames } = chat;
  return { includeUsage, includeProgress, showReasoning, hasFormat, numbersFrames };
}

/** Returns the whole answer when the run ends. */
async function collect(
  head: ChatHead,
  groups: EventGroups,
  { headers, options }: { readonly headers: ReturnType<typeof runHeaders>; readonly options: AnswerOptions },
): Promise<HttpResponse<"createChatCompletion">> {
  const texts: string[] = [];
  const reasoning: string[] = [];
  const calls: ChatToolCall[] = [];
  let toolRan = false;
  const answerOf = (event: RunEvent): HttpResponse<"createChatCompletion"> | undefined => {
    if (event.event === "message.completed" && event.text !== "") texts.push(event.text);
    if (event.event === "reasoning.completed" && options.showReasoning) reasoning.push(event.text);
    if (event.event === "tool.started") toolRan = true;
    if (event.event === "tool.requested") calls.push(toolCall(event));
    if (event.event === "run.completed") {
      const usage = toCompletionUsage(event.usage);
      const refusal = options.hasFormat ? refusalOf(event) : undefined;
      const end: ChatEnd = {
        text: texts.join("\n\n"),
        reasoning: reasoning.join("\n\n"),
        refusal: refusal ?? null,
        calls,
        finish: refusal === undefined ? finishReason(event.stop) : "stop",
        usage,
      };
      return { status: 200, headers, body: completion(head, end) };
    }
    const failure = failureOf(event);
    return failure && failedAnswer(failure, { headers, toolRan, event });
  };
  for await (const group of groups) {
    for (const event of group) {
      const answer = answerOf(toRunEvent(event));
      if (answer) return answer;
    }
  }
  throw shuttingDown();
}

/** Streams the answer. With `numbersFrames`, a frame has the number of its run event. */
async function* frames(
  head: ChatHead,
  events: AsyncIterable<RunEvent>,
  options: AnswerOptions,
): AsyncGenerator<SseMessage<ChatStreamFrame>> {
  const chunks = new ChatChunks(head, options);
  yield { data: chunks.first() };
  for await (const event of events) {
    const made = chunks.of(event);
    for (const [index, data] of made.entries()) {
      yield options.numbersFrames && index === made.length - 1 ? { data, id: String(event.seq) } : { data };
    }
    const failure = made.length === 0 ? failureOf(event) : undefined;
    if (failure) yield { data: errorEnvelope(failure) };
  }
}

export interface ChatEnd {
  readonly text: string;
  /** Empty without any, or when it is not shown. */
  readonly reasoning: string;
  /** Why the model refused to answer in the requested format. */
  readonly refusal: string | null;
  /** Calls that the client has to make. */
  readonly calls: readonly ChatToolCall[];
  readonly finish: FinishReason;
  readonly usage: CompletionUsage;
}

/** Returns the whole answer in the chat completions format. */
function completion(head: ChatHead, end: ChatEnd): ChatCompletion {
  const hasCalls = end.calls.length > 0;
  const isSilent = end.text === "" && (hasCalls || end.refusal !== null);
  const message = {
    role: "assistant" as const,
    content: isSilent ? null : end.text,
    refusal: end.refusal,
    ...(end.reasoning === "" ? {} : { reasoning_content: end.reasoning }),
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

/** A chat completions request, translated for the agent. */
export interface ChatRequest {
  readonly prompt: Prompt;
  /** The model name that the client sent. Answers repeat it. */
  readonly modelName: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly includeProgress: boolean;
  readonly showReasoning: boolean;
  /** Whether the answer must have a format, and a refusal is then a field of its own. */
  readonly hasFormat: boolean;
  /** Whether the client wants the numbers of the events, to resume at the events of the run. */
  readonly numbersFrames: boolean;
  readonly cancelOnDisconnect: boolean;
}

export type ChatHttpRequest = HttpRequest<"createChatCompletion", HttpContext>;

/** Translates a request that fits the schema. Rejects unsupported parameters, and what the schema cannot express. */
async function toChatRequest(request: ChatHttpRequest, deps: HttpDeps): Promise<ChatRequest> {
  const { body, headers } = request;
  refuseUnsupported(body);
  checkCount(body.messages.length, "messages", deps);
  const address = sessionAddress(request.ctx.identity, headers, body.agent?.session_id);
  const model = requestedModel({ header: headers["x-agent-model"], body: body.model }, deps);
  return {
    prompt: {
      address,
      ...withKey(request.ctx),
      seed: { source: "http" },
      kind: "chat",
      input: await toInput(request, address, deps),
      ...requestedWebhook(body.agent?.webhook, "agent.webhook", deps),
      ...(model ? { model } : {}),
      ...(body.metadata ? { metadata: body.metadata } : {}),
    },
    modelName: body.model ?? deps.settings.modelName,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    includeProgress: body.stream_options?.include_progress === true || headers["x-agent-progress"] === "1",
    showReasoning: deps.settings.showReasoning,
    hasFormat: body.response_format != null && body.response_format.type !== "text",
    // A run that ends with its connection cannot be resumed, and some clients fail on other lines than data.
    numbersFrames: body.agent?.on_disconnect === "continue",
    cancelOnDisconnect: body.agent?.on_disconnect !== "continue",
  };
}

async function toInput(
  request: ChatHttpRequest,
  address: SessionAddress,
  deps: HttpDeps,
): Promise<Prompt["input"]> {
  const { body, signal, ctx } = request;
  const toolsets = checkToolsets(body.agent?.toolsets, "agent.toolsets", deps);
  const tools = clientTools(
    (body.tools ?? []).map((tool) => tool.function),
    toChoice(body.tool_choice),
  );
  const { response_format: format } = body;
  const { instructions, opening, prompt, unmatched } = await split(body.messages, deps, signal);
  await checkResults(unmatched, address, deps);
  const hasResults = body.messages.some(({ role }) => role === "tool");
  const isWhole = address.name === undefined && address.key === undefined;
  return {
    opening:
      isWhole && hasResults ? await restoreOwnCalls(opening, address.owner, deps.agent.sessions) : opening,
    prompt,
    settings: modelSettings(body),
    ...(ctx.traceparent === undefined ? {} : { traceparent: ctx.traceparent }),
    ...approvals(body.agent?.approval_mode),
    ...tools,
    ...outputFormat(format && { ...format.json_schema, type: format.type }, "response_format"),
    ...(body.agent?.on_disconnect === "continue" ? { isDetached: true as const } : {}),
    ...(instructions === "" ? {} : { instructions }),
    ...(toolsets ? { toolsets } : {}),
  };
}

function toChoice(choice: ChatCompletionRequest["tool_choice"]): RequestedChoice | undefined {
  if (typeof choice !== "object" || choice === null) return choice ?? undefined;
  if (choice.type === "function") return choice.function;
  const { mode, tools } = choice.allowed_tools;
  return { mode, allowed: tools.map((tool) => tool.function.name) };
}

function refuseUnsupported(body: ChatCompletionRequest): void {
  const refuse = (param: string, what: string): never => {
    throw new ServiceError("unsupported_parameter", what, { param });
  };
  if ((body.n ?? 1) !== 1) refuse("n", "n must be 1. The agent gives one answer.");
  const { functions } = body as { readonly functions?: unknown };
  if (functions != null)
    refuse("functions", "functions is no longer supported. Send the functions as tools.");
}

function modelSettings(body: ChatCompletionRequest): ModelSettings {
  const maxOutputTokens = body.max_completion_tokens ?? body.max_tokens;
  const stop = typeof body.stop === "string" ? [body.stop] : body.stop;
  return {
    ...(body.temperature == null ? {} : { temperature: body.temperature }),
    ...(body.top_p == null ? {} : { topP: body.top_p }),
    ...(maxOutputTokens == null ? {} : { maxOutputTokens }),
    ...(stop == null ? {} : { stop }),
    ...(body.seed == null ? {} : { seed: body.seed }),
    ...(body.reasoning_effort == null ? {} : { reasoningEffort: body.reasoning_effort }),
  };
}

/** Splits the messages into instructions, earlier messages, and the prompt: everything after the last answer. */
async function split(
  messages: readonly ChatMessage[],
  deps: HttpDeps,
  signal: AbortSignal,
): Promise<{
  readonly instructions: string;
  readonly opening: readonly Message[];
  readonly prompt: readonly Message[];
  readonly unmatched: readonly UnmatchedResult[];
}> {
  const instructions: string[] = [];
  const conversation: Message[] = [];
  const attached: PendingAttachments[] = [];
  const unmatched: UnmatchedResult[] = [];
  for (const [index, message] of messages.entries()) {
    const param = `messages[${index}].content`;
    const { text, sources } = contentOf(message, param);
    checkText(text, param, deps);
    if (sources.length > 0) attached.push({ at: conversation.length, sources });
    if (message.role === "system" || message.role === "developer") instructions.push(text);
    else conversation.push(toMessage(message, text, conversation));
    const added = conversation.at(-1);
    if (message.role === "tool" && added?.role === "tool" && added.tool === UNKNOWN_TOOL) {
      unmatched.push({ callId: message.tool_call_id, param: `messages[${index}].tool_call_id` });
    }
  }
  await attachTo(conversation, attached, { maxBytes: deps.settings.maxBodyBytes, signal });
  if (isUnfinished(conversation)) conversation.push({ role: "user", text: GO_ON });
  const start = conversation.findLastIndex((message) => message.role === "assistant") + 1;
  const prompt = conversation.slice(start);
  if (prompt.length === 0) {
    const what = "The last message must come from the user or a tool. The agent answers it.";
    throw new ServiceError("invalid_request", what, { param: "messages" });
  }
  const opening = conversation.slice(0, start);
  return { instructions: instructions.join("\n\n"), opening, prompt, unmatched };
}

const GO_ON = "Continue your last answer exactly where it stopped. Do not repeat any of it.";

/** Returns true when the last message is the start of an answer, which clients send to have it continued. */
function isUnfinished(conversation: readonly Message[]): boolean {
  const last = conversation.at(-1);
  if (last?.role !== "assistant" || !conversation.some(({ role }) => role === "user")) return false;
  return last.parts.length > 0 && last.parts.every(({ type }) => type === "text");
}

/** Rejects results of calls that neither the messages nor the session know. ServiceError `invalid_request`. */
async function checkResults(
  results: readonly UnmatchedResult[],
  address: SessionAddress,
  { store, agent }: HttpDeps,
): Promise<void> {
  if (results.length === 0) return;
  const session = await findSession(store, address);
  const pending = session && (await agent.sessions.reads.pendingClientCalls(session.id));
  for (const { callId, param } of results) {
    if (pending?.has(callId)) continue;
    const what = `${param} is ${JSON.stringify(callId)}, and no such call is in messages or pending in the session.`;
    throw new ServiceError("invalid_request", what, { param });
  }
}

function contentOf(message: ChatMessage, param: string) {
  const content = message.content ?? "";
  return message.role === "user"
    ? splitContent(content, param)
    : { text: textContent(content, param), sources: [] };
}

type ConversationMessage = Exclude<ChatMessage, { role: "system" } | { role: "developer" }>;

function toMessage(message: ConversationMessage, text: string, before: readonly Message[]): Message {
  if (message.role === "user") return { role: "user", text, ...(message.name ? { name: message.name } : {}) };
  if (message.role === "tool") {
    const callId = message.tool_call_id;
    return { role: "tool", callId, tool: calledTool(before, callId), status: "ok", text };
  }
  const parts: AssistantPart[] = text === "" ? [] : [{ type: "text", text }];
  for (const call of message.tool_calls ?? []) {
    const { name, arguments: json } = call.function;
    parts.push({ type: "tool_call", callId: call.id, tool: name, input: parseArguments(json) });
  }
  return { role: "assistant", parts };
}

function calledTool(before: readonly Message[], callId: string): string {
  for (const message of before) {
    if (message.role !== "assistant") continue;
    for (const part of message.parts)
      if (part.type === "tool_call" && part.callId === callId) return part.tool;
  }
  return UNKNOWN_TOOL;
}
