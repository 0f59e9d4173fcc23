import type {
  ChatCompletionRequest,
  ChatMessage,
  ChatToolChoice,
} from "../../../generated/http/client/types.gen.ts";
import type { ModelSettings } from "../../agent/engine.ts";
import type { AssistantPart, Message } from "../../agent/message.ts";
import type { Prompt } from "../../agent/run/prompt.ts";
import { ServiceError } from "../../base/errors.ts";
import {
  attachTo,
  parseArguments,
  splitContent,
  textContent,
  type PendingAttachments,
} from "../prompt/content.ts";
import type { HttpRequest } from "../edge/contract.ts";
import {
  approvals,
  checkCount,
  checkText,
  checkToolsets,
  clientTools,
  requestedModel,
  requestedWebhook,
  sessionAddress,
} from "../prompt/options.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";

/** A chat completions request, translated for the agent. */
export interface ChatRequest {
  readonly prompt: Prompt;
  /** The model name that the client sent. Answers repeat it. */
  readonly modelName: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly includeProgress: boolean;
  readonly showReasoning: boolean;
  readonly cancelOnDisconnect: boolean;
}

export type ChatHttpRequest = HttpRequest<"createChatCompletion", HttpContext>;

/** Translates a request that fits the schema. Rejects unsupported parameters, and what the schema cannot express. */
export async function toChatRequest(request: ChatHttpRequest, deps: HttpDeps): Promise<ChatRequest> {
  const { body, headers } = request;
  refuseUnsupported(body);
  checkCount(body.messages.length, "messages", deps);
  const address = sessionAddress(request.ctx.identity, headers, body.agent?.session_id);
  const model = requestedModel({ header: headers["x-agent-model"], body: body.model }, deps);
  return {
    prompt: {
      address,
      seed: { source: "http" },
      kind: "chat",
      input: await toInput(request, deps),
      ...requestedWebhook(body.agent?.webhook, "agent.webhook", deps),
      ...(model ? { model } : {}),
      ...(body.metadata ? { metadata: body.metadata } : {}),
    },
    modelName: body.model ?? deps.settings.modelName,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    includeProgress: body.stream_options?.include_progress === true || headers["x-agent-progress"] === "1",
    showReasoning: deps.settings.showReasoning,
    cancelOnDisconnect: body.agent?.on_disconnect !== "continue",
  };
}

async function toInput(request: ChatHttpRequest, deps: HttpDeps): Promise<Prompt["input"]> {
  const { body, signal, ctx } = request;
  const toolsets = checkToolsets(body.agent?.toolsets, "agent.toolsets", deps);
  const tools = clientTools(
    (body.tools ?? []).map((tool) => tool.function),
    toChoice(body.tool_choice),
  );
  const { instructions, opening, prompt } = await split(body.messages, deps, signal);
  return {
    opening,
    prompt,
    settings: modelSettings(body),
    ...(ctx.traceparent === undefined ? {} : { traceparent: ctx.traceparent }),
    ...approvals(body.agent?.approval_mode),
    ...tools,
    ...(body.agent?.on_disconnect === "continue" ? { isDetached: true as const } : {}),
    ...(instructions === "" ? {} : { instructions }),
    ...(toolsets ? { toolsets } : {}),
  };
}

function toChoice(choice: "none" | "auto" | "required" | ChatToolChoice | null | undefined) {
  return typeof choice === "object" && choice !== null ? choice.function : (choice ?? undefined);
}

function refuseUnsupported(body: ChatCompletionRequest): void {
  const refuse = (param: string, what: string): never => {
    throw new ServiceError("unsupported_parameter", what, { param });
  };
  if ((body.n ?? 1) !== 1) refuse("n", "n must be 1. The agent gives one answer.");
  const format = body.response_format?.type;
  if (format !== undefined && format !== "text") {
    refuse("response_format", `response_format ${JSON.stringify(format)} is not supported; use "text".`);
  }
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
}> {
  const instructions: string[] = [];
  const conversation: Message[] = [];
  const attached: PendingAttachments[] = [];
  for (const [index, message] of messages.entries()) {
    const param = `messages[${index}].content`;
    const { text, sources } = contentOf(message, param);
    checkText(text, param, deps);
    if (sources.length > 0) attached.push({ at: conversation.length, sources });
    if (message.role === "system" || message.role === "developer") instructions.push(text);
    else conversation.push(toMessage(message, text, conversation));
  }
  await attachTo(conversation, attached, { maxBytes: deps.settings.maxBodyBytes, signal });
  const start = conversation.findLastIndex((message) => message.role === "assistant") + 1;
  const prompt = conversation.slice(start);
  if (prompt.length === 0) {
    const what = "The last message must come from the user or a tool. The agent answers it.";
    throw new ServiceError("invalid_request", what, { param: "messages" });
  }
  return { instructions: instructions.join("\n\n"), opening: conversation.slice(0, start), prompt };
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
  return "unknown";
}
