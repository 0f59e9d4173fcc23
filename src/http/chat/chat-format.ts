import type {
  ChatCompletion,
  ChatToolCall,
  CompletionUsage,
  FinishReason,
} from "../../../generated/http/client/types.gen.ts";
import type { ChatHead } from "../../client/chat-chunks.ts";

export interface ChatEnd {
  readonly text: string;
  /** Calls that the client is to make. */
  readonly calls: readonly ChatToolCall[];
  readonly finish: FinishReason;
  readonly usage: CompletionUsage;
}

/** The whole answer in the chat completions format. */
export function completion(head: ChatHead, end: ChatEnd): ChatCompletion {
  const questions = end.calls.length > 0;
  const message = {
    role: "assistant" as const,
    content: questions && end.text === "" ? null : end.text,
    refusal: null,
    ...(questions ? { tool_calls: [...end.calls] } : {}),
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
