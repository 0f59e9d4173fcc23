import { isRecord } from "../../base/json/schema.ts";
import type { AssistantContent, ModelMessage, ToolContent } from "ai";
import type { AssistantMessage, AssistantPart, Message, ToolMessage } from "../message.ts";
import { toUserMessage } from "./user-prompt.ts";

/** The transcript in the model SDK's form. Instructions among the messages come back apart: they stand first. */
export function toPrompt(messages: readonly Message[]): {
  readonly instructions: readonly string[];
  readonly messages: ModelMessage[];
} {
  const instructions = messages.flatMap((message) => (message.role === "system" ? [message.text] : []));
  return { instructions, messages: toModelMessages(messages) };
}

/**
 * Strict providers refuse a tool call without its answer and an answer without its call. Transcripts of ours have
 * neither, but those that clients send may: a missing answer is stated as such, a stray one is left out, and so is an
 * assistant that says nothing.
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

/** Thoughts alone, as an answer that was cut leaves them, are no message to a provider. */
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

/** Arguments that did not parse are kept as text, but providers take back objects only. */
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

/** What a client was to do it may tell later, also after more was said; until an id comes again. */
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
