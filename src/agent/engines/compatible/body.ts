/** The request of a chat completion, as OpenAI-compatible servers take it. */
import { UnsupportedFunctionalityError } from "@ai-sdk/provider";
import type { AssistantModelMessage, ModelMessage, ToolModelMessage, UserModelMessage } from "ai";
import type { OutputFormat, ToolSpec } from "../../engine.ts";
import { knownEffort, type ModelCallRequest } from "../model-request.ts";

/** Returns the body as JSON text. Throws the SDK's UnsupportedFunctionalityError for a file of an unsupported type. */
export function toBody(request: ModelCallRequest): string {
  const { modelId, instructions, messages, settings, tools, toolChoice, format, provider } = request;
  const system = instructions === "" ? [] : [{ role: "system", content: instructions }];
  const rest = JSON.stringify({
    model: modelId,
    max_tokens: settings.maxOutputTokens,
    temperature: settings.temperature,
    top_p: settings.topP,
    response_format: format && toResponseFormat(format),
    stop: settings.stop,
    seed: settings.seed,
    reasoning_effort: knownEffort(settings.reasoningEffort),
    messages: [...system, ...messages.flatMap((message) => toWireMessages(message, provider.name))],
    tool_choice: tools.length === 0 ? undefined : toWireChoice(toolChoice),
    stream: true,
    stream_options: { include_usage: true },
  });
  return tools.length === 0 ? rest : `${rest.slice(0, -1)},"tools":[${tools.map(toolJson).join(",")}]}`;
}

interface KeptJson {
  readonly name: string;
  readonly description: string;
  readonly json: string;
}

/** Schemas outlive the turns that send them, and are most of the body of a short conversation. */
const kept = new WeakMap<ToolSpec["parameters"], KeptJson>();

function toolJson({ name, description, parameters }: ToolSpec): string {
  const known = kept.get(parameters);
  if (known?.name === name && known.description === description) return known.json;
  const json = JSON.stringify({ type: "function", function: { name, description, parameters } });
  kept.set(parameters, { name, description, json });
  return json;
}

function toWireChoice(choice: ModelCallRequest["toolChoice"]) {
  if (choice === undefined) return "auto";
  return choice === "required" ? choice : { type: "function", function: { name: choice.tool } };
}

function toResponseFormat({ schema, name = "response", description, isStrict = false }: OutputFormat) {
  if (!schema) return { type: "json_object" };
  return { type: "json_schema", json_schema: { schema, strict: isStrict, name, description } };
}

function toWireMessages(message: ModelMessage, provider: string): readonly object[] {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }];
    case "user":
      return [{ role: "user", content: toUserContent(message.content) }];
    case "assistant":
      return [toAssistant(message.content, provider)];
    case "tool":
      return toToolMessages(message.content);
  }
}

function toUserContent(content: UserModelMessage["content"]) {
  if (typeof content === "string") return content;
  const parts = content.filter((part) => part.type !== "text" || part.text !== "");
  const [first] = parts;
  return parts.length === 1 && first?.type === "text" ? first.text : parts.map(toWirePart);
}

type UserPart = Exclude<UserModelMessage["content"], string>[number];

function toWirePart(part: UserPart): object {
  if (part.type === "text") return { type: "text", text: part.text };
  if (part.type !== "file" || typeof part.data !== "string") throw unsupported(`parts of type ${part.type}`);
  const { mediaType, data, filename = "document.pdf" } = part;
  const url = `data:${mediaType};base64,${data}`;
  switch (mediaType.split("/", 1)[0]) {
    case "image":
      return { type: "image_url", image_url: { url } };
    case "video":
      return { type: "video_url", video_url: { url } };
    case "audio":
      return { type: "input_audio", input_audio: { data, format: audioFormat(mediaType) } };
  }
  if (mediaType !== "application/pdf") throw unsupported(`files of type ${mediaType}`);
  return { type: "file", file: { filename, file_data: url } };
}

const AUDIO_FORMATS: ReadonlyMap<string, string> = new Map([
  ["audio/wav", "wav"],
  ["audio/mp3", "mp3"],
  ["audio/mpeg", "mp3"],
]);

function audioFormat(mediaType: string): string {
  const format = AUDIO_FORMATS.get(mediaType);
  if (format === undefined) throw unsupported(`audio of type ${mediaType}`);
  return format;
}

function unsupported(functionality: string): UnsupportedFunctionalityError {
  return new UnsupportedFunctionalityError({ functionality });
}

function toAssistant(content: AssistantModelMessage["content"], provider: string): object {
  const parts = typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
  const textOf = (type: "text" | "reasoning") =>
    parts.map((part) => (part.type === type ? (part as { text: string }).text : "")).join("");
  const calls = parts.flatMap((part) => (part.type === "tool-call" ? [toWireCall(part, provider)] : []));
  const [text, reasoning] = [textOf("text"), textOf("reasoning")];
  return {
    role: "assistant",
    content: calls.length > 0 && text === "" ? null : text,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

type ToolCallPart = Extract<Exclude<AssistantModelMessage["content"], string>[number], { type: "tool-call" }>;

/** Google's models want the signature back that they sent with a call, also after a change of the provider. */
function toWireCall(
  { toolCallId: id, toolName: name, input, providerOptions }: ToolCallPart,
  provider: string,
) {
  const signature =
    providerOptions?.[metadataKey(provider)]?.["thoughtSignature"] ??
    providerOptions?.["google"]?.["thoughtSignature"];
  return {
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(input) },
    ...(signature ? { extra_content: { google: { thought_signature: String(signature) } } } : {}),
  };
}

/** Returns the name under which the data of a provider is stored; the part before the first dot is the SDK's rule. */
export function metadataKey(provider: string): string {
  return (provider.split(".", 1)[0] ?? "").trim();
}

function toToolMessages(content: ToolModelMessage["content"]): readonly object[] {
  return content.flatMap((part) => {
    if (part.type !== "tool-result") return [];
    const { output } = part;
    const text = output.type === "execution-denied" ? output.reason : "value" in output ? output.value : "";
    return [{ role: "tool", tool_call_id: part.toolCallId, content: text ?? "Tool call execution denied." }];
  });
}
