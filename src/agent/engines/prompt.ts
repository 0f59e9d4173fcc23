import type { AssistantContent, ModelMessage, ToolContent, UserModelMessage } from "ai";
import type {
  AssistantMessage,
  AssistantPart,
  Attachment,
  Message,
  ToolMessage,
  UserMessage,
} from "../engine.ts";
import { isRecord } from "../../base/data.ts";
import { fileText } from "../attachments/attachment.ts";

/** Converts the transcript to the model SDK's form. Returns system messages separately, because they go first. */
export function toPrompt(messages: readonly Message[]): {
  readonly instructions: readonly string[];
  readonly messages: ModelMessage[];
} {
  const instructions = messages.flatMap((message) => (message.role === "system" ? [message.text] : []));
  return { instructions, messages: toModelMessages(messages) };
}

/**
 * Converts messages for strict providers, which refuse a tool call without its answer and an answer without its call.
 * Only transcripts from clients contain such: a missing answer becomes an error, and a stray answer or an empty
 * assistant message is omitted.
 */
export function toModelMessages(messages: readonly Message[]): ModelMessage[] {
  const out: ModelMessage[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "user") out.push(toUserMessage(message));
    if (message.role !== "assistant") continue;
    if (isSilent(message)) continue;
    out.push({ role: "assistant", content: message.parts.map(toPart) });
    const answers = answersTo(message, messages.slice(index + 1));
    if (answers.length > 0) out.push({ role: "tool", content: answers });
  }
  return out;
}

/** Returns whether a message has only reasoning, as an interrupted answer may; providers refuse such a message. */
function isSilent({ parts }: AssistantMessage): boolean {
  return parts.every((part) => part.type === "reasoning" || (part.type === "text" && part.text === ""));
}

type Part = Exclude<AssistantContent, string>[number];

function toPart(part: AssistantPart): Part {
  const own = part.provider === undefined ? {} : { providerOptions: part.provider as never };
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text, ...own };
    case "reasoning":
      return { type: "reasoning", text: part.text, ...own };
    case "tool_call":
      return {
        type: "tool-call",
        toolCallId: part.callId,
        toolName: part.tool,
        input: toInput(part.input),
        ...own,
      };
  }
}

/** Arguments that did not parse are stored as text, but providers accept only objects. */
function toInput(input: unknown): unknown {
  return isRecord(input) ? input : {};
}

function answersTo(message: AssistantMessage, later: readonly Message[]): ToolContent {
  const next = later.findIndex(({ role }) => role === "assistant");
  const near = next < 0 ? later : later.slice(0, next);
  return message.parts.flatMap((part) => {
    if (part.type !== "tool_call") return [];
    const isAnswer = (other: Message): other is ToolMessage =>
      other.role === "tool" && other.callId === part.callId;
    const first = near.find(isAnswer);
    const answer = first?.status === "pending" ? (lateAnswer(part.callId, later) ?? first) : first;
    return [
      {
        type: "tool-result" as const,
        toolCallId: part.callId,
        toolName: part.tool,
        output: toOutput(answer),
      },
    ];
  });
}

/** Returns a client's later answer, even after further messages, unless the id was used again. */
function lateAnswer(callId: string, later: readonly Message[]): ToolMessage | undefined {
  for (const message of later) {
    if (message.role === "tool" && message.callId === callId && message.status !== "pending") return message;
    if (message.role !== "assistant") continue;
    if (message.parts.some((part) => part.type === "tool_call" && part.callId === callId)) return undefined;
  }
  return undefined;
}

function toOutput(answer: ToolMessage | undefined) {
  if (!answer) return { type: "error-text" as const, value: "The call was not answered." };
  if (answer.status === "ok") return { type: "text" as const, value: answer.text };
  if (answer.status === "denied") return { type: "execution-denied" as const, reason: answer.text };
  return { type: "error-text" as const, value: answer.text };
}

type UserPart = Exclude<UserModelMessage["content"], string>[number];

/**
 * Converts a user's message to the model SDK's form. Images and files that providers accept become parts; text files
 * become text; other files are only mentioned. The SDK has no field for a name, so it prefixes the text.
 */
function toUserMessage({ text, name, attachments = [] }: UserMessage): UserModelMessage {
  const prefixed = name === undefined || name === "" ? text : `${name.replaceAll(/\s+/g, " ")}: ${text}`;
  const parts = attachments.map(toUserPart);
  if (parts.length === 0) return { role: "user", content: prefixed };
  // Some providers refuse an empty text.
  const first: readonly UserPart[] = prefixed === "" ? [] : [{ type: "text", text: prefixed }];
  return { role: "user", content: [...first, ...parts] };
}

function toUserPart(attachment: Attachment): UserPart {
  const { type, mediaType, data, name } = attachment;
  const filename = name === undefined ? {} : { filename: name };
  if (type === "image" || FILE_TYPES.test(mediaType)) return { type: "file", mediaType, data, ...filename };
  if (TEXT_TYPES.test(mediaType)) return { type: "text", text: fileText(attachment) };
  const label = name === undefined ? "A file" : `The file ${JSON.stringify(name)}`;
  return {
    type: "text",
    text: `[${label} of type ${mediaType} is attached, but its content cannot be shown.]`,
  };
}

/** Types that more than one provider accepts; a provider that does not returns an error. */
const FILE_TYPES = /^(?:image\/|audio\/|video\/|application\/pdf$)/;
const TEXT_TYPES =
  /^(?:text\/|application\/(?:json|xml|yaml|toml|javascript|typescript|x-sh|x-yaml|sql)\b|[^;]+\+(?:json|xml|yaml)\b)/;
