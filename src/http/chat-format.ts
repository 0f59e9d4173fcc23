import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatDelta,
  ChatToolCall,
  CompletionUsage,
  FinishReason,
  RunUsage,
  ToolProgress,
} from "../../generated/http/client/types.gen.ts";

/** What all parts of one answer have in common. */
export interface ChatHead {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  readonly agent: { readonly run_id: string; readonly session_id: string };
}

export interface ChatEnd {
  readonly text: string;
  /** Calls that the client is to make. */
  readonly calls: readonly ChatToolCall[];
  readonly finish: FinishReason;
  readonly usage: CompletionUsage;
}

export function completion(head: ChatHead, end: ChatEnd): ChatCompletion {
  const asks = end.calls.length > 0;
  const message = {
    role: "assistant" as const,
    content: asks && end.text === "" ? null : end.text,
    refusal: null,
    ...(asks ? { tool_calls: [...end.calls] } : {}),
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

export function chunk(
  head: ChatHead,
  delta: ChatDelta,
  finish: FinishReason | null = null,
): ChatCompletionChunk {
  return {
    id: head.id,
    object: "chat.completion.chunk",
    created: head.created,
    model: head.model,
    choices: [{ index: 0, delta, finish_reason: finish }],
  };
}

/** The chunk without choices that carries the usage, as `stream_options.include_usage` asks for. */
export function usageChunk(head: ChatHead, usage: CompletionUsage): ChatCompletionChunk {
  return { ...chunk(head, {}), choices: [], usage };
}

export function progressChunk(head: ChatHead, tool: ToolProgress): ChatCompletionChunk {
  return { ...chunk(head, {}), choices: [], agent: { ...head.agent, tool } };
}

export function toCompletionUsage(usage: RunUsage): CompletionUsage {
  return {
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.total_tokens,
    prompt_tokens_details: {
      cached_tokens: usage.cached_input_tokens,
      cache_write_tokens: usage.cache_write_tokens,
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
  };
}

/** Why the model stopped, in this format's words. A turn cut by its step limit reads as cut by length. */
export function finishReason(stop: "end" | "length" | "max_steps" | "refusal" | "tool_calls"): FinishReason {
  if (stop === "end") return "stop";
  if (stop === "tool_calls") return "tool_calls";
  return stop === "refusal" ? "content_filter" : "length";
}
