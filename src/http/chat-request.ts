import type {
  ChatCompletionRequest,
  ChatMessage,
  MessageContent,
} from "../../generated/http/client/types.gen.ts";
import type { ModelRef, ModelSettings } from "../agent/engine.ts";
import type { AssistantPart, Message } from "../agent/message.ts";
import type { Prompt } from "../agent/prompt.ts";
import { ServiceError } from "../base/errors.ts";
import type { HttpRequest } from "./contract.ts";
import type { HttpContext, HttpRoom } from "./room.ts";
import { sessionAddress } from "./session.ts";

/** A chat completions request in the agent's terms. */
export interface ChatRequest {
  readonly prompt: Prompt;
  /** The model as the client named it; answers repeat it. */
  readonly modelName: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly includeProgress: boolean;
  readonly cancelOnDisconnect: boolean;
}

export type ChatHttpRequest = HttpRequest<"createChatCompletion", HttpContext>;

/** Reads a request that fits the schema; refuses what the schema cannot see and what is not supported. */
export function toChatRequest(request: ChatHttpRequest, room: HttpRoom): ChatRequest {
  const { body, headers } = request;
  refuseUnsupported(body);
  checkSizes(body.messages, room);
  const address = sessionAddress(request.ctx.identity, headers, body.agent?.session_id);
  const model = requestedModel(body, headers["x-agent-model"], room);
  const toolsets = checkToolsets(body.agent?.toolsets, room);
  const { instructions, opening, prompt } = split(body.messages);
  return {
    prompt: {
      address,
      seed: { source: "http" },
      kind: "chat",
      input: {
        opening,
        prompt,
        settings: modelSettings(body),
        // Nothing on this surface can answer a question yet: what needs leave is denied with its reason.
        answerable: false,
        ...(instructions === "" ? {} : { instructions }),
        ...(toolsets ? { toolsets } : {}),
      },
      ...(model ? { model } : {}),
      ...(body.metadata ? { metadata: body.metadata } : {}),
    },
    modelName: body.model ?? room.settings.modelName,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    includeProgress: body.stream_options?.include_progress === true || headers["x-agent-progress"] === "1",
    cancelOnDisconnect: body.agent?.on_disconnect !== "continue",
  };
}

function refuseUnsupported(body: ChatCompletionRequest): void {
  const refuse = (param: string, what: string): never => {
    throw new ServiceError("unsupported_parameter", what, { param });
  };
  if ((body.n ?? 1) !== 1) refuse("n", "n must be 1: the agent gives one answer.");
  if (body.tools && body.tools.length > 0) {
    refuse("tools", "tools must be empty: the agent brings its own tools. agent.toolsets narrows them.");
  }
  const format = body.response_format?.type;
  if (format !== undefined && format !== "text") {
    refuse("response_format", `response_format ${JSON.stringify(format)} is not supported; use "text".`);
  }
}

function checkSizes(messages: readonly ChatMessage[], room: HttpRoom): void {
  const { maxMessages, maxTextBytes } = room.settings;
  if (messages.length > maxMessages) {
    const what = `messages has ${messages.length} entries; the limit is ${maxMessages} (limits.max_messages).`;
    throw new ServiceError("invalid_request", what, { param: "messages" });
  }
  for (const [index, message] of messages.entries()) {
    const bytes = byteLength(textOfContent(message.content ?? "", `messages[${index}].content`));
    if (bytes <= maxTextBytes) continue;
    const param = `messages[${index}].content`;
    const what = `${param} has ${bytes} bytes of text; the limit is ${maxTextBytes} (limits.max_text_bytes).`;
    throw new ServiceError("string_above_max_length", what, { param });
  }
}

/** UTF-8 length; text that is far from the limit in UTF-16 units needs no count. */
function byteLength(text: string): number {
  return text.length * 3 < 65_536 ? text.length : new TextEncoder().encode(text).length;
}

/** Header before body before session before default; an explicit header must resolve, a body may be a habit. */
function requestedModel(
  body: ChatCompletionRequest,
  header: string | undefined,
  { models, settings }: HttpRoom,
): ModelRef | undefined {
  if (header !== undefined) {
    const found = models.resolve(header);
    if (!found) throw modelNotFound(header, "X-Agent-Model");
    return found;
  }
  if (body.model === undefined || body.model === settings.modelName) return undefined;
  const found = models.resolve(body.model);
  if (!found && settings.unknownModel === "reject") throw modelNotFound(body.model, "model");
  return found;
}

function modelNotFound(name: string, param: string): ServiceError {
  return new ServiceError(
    "model_not_found",
    `No configured provider has a model ${JSON.stringify(name)}. Use \`provider:model\` or leave it out.`,
    { param },
  );
}

function checkToolsets(
  asked: readonly string[] | undefined,
  { settings }: HttpRoom,
): readonly string[] | undefined {
  for (const [index, name] of (asked ?? []).entries()) {
    if (settings.toolsets.includes(name)) continue;
    const what = `${JSON.stringify(name)} is not a toolset of this server: ${settings.toolsets.join(", ")}.`;
    throw new ServiceError("invalid_request", what, { param: `agent.toolsets[${index}]` });
  }
  return asked;
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

/** Instructions, the conversation so far, and what comes after the last answer: the prompt. */
function split(messages: readonly ChatMessage[]): {
  readonly instructions: string;
  readonly opening: readonly Message[];
  readonly prompt: readonly Message[];
} {
  const instructions: string[] = [];
  const talk: Message[] = [];
  for (const [index, message] of messages.entries()) {
    const text = textOfContent(message.content ?? "", `messages[${index}].content`);
    if (message.role === "system" || message.role === "developer") instructions.push(text);
    else talk.push(toMessage(message, text, talk));
  }
  const lastAnswer = talk.findLastIndex((message) => message.role === "assistant" || message.role === "tool");
  const prompt = talk.slice(lastAnswer + 1);
  if (prompt.length === 0) {
    const what = "The last message must come from the user: it is what the agent answers.";
    throw new ServiceError("invalid_request", what, { param: "messages" });
  }
  return { instructions: instructions.join("\n\n"), opening: talk.slice(0, lastAnswer + 1), prompt };
}

type Spoken = Exclude<ChatMessage, { role: "system" } | { role: "developer" }>;

function toMessage(message: Spoken, text: string, before: readonly Message[]): Message {
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

function parseArguments(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return { arguments: json }; // an earlier model's broken call is history, not an error of this request
  }
}

function textOfContent(content: MessageContent, path: string): string {
  if (typeof content === "string") return content;
  const texts = content.map((part, index) => {
    if ((part.type === "text" || part.type === "input_text") && typeof part.text === "string")
      return part.text;
    const param = `${path}[${index}]`;
    const what = `${param} has the type ${JSON.stringify(part.type)}; only text parts are supported.`;
    throw new ServiceError("invalid_content_part", what, { param });
  });
  return texts.join("");
}
