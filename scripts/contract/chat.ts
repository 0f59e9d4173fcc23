/** Maps the events of a run to chat chunks. Copied into generated/http: the server streams them, the client resumes. */
import type {
  ChatCompletionChunk,
  ChatDelta,
  ChatToolCall,
  CompletionUsage,
  FinishReason,
  RunEvent,
  RunUsage,
  ToolProgress,
} from "../../generated/http/client/types.gen.ts";

/** The fields that every chunk of one answer repeats. */
export interface ChatHead {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  readonly agent: { readonly run_id: string; readonly session_id: string };
}

export interface ChunkOptions {
  readonly includeUsage: boolean;
  readonly includeProgress: boolean;
  readonly showReasoning: boolean;
  /** Whether the answer must have a format: a refusal is then a field of its own. */
  readonly hasFormat?: boolean;
}

/** Makes the chunks of one answer, event by event. A failed run has no chunk: the caller reports it. */
export class ChatChunks {
  readonly #head: ChatHead;
  readonly #options: ChunkOptions;
  #messageId: string | undefined;
  #calls = 0;

  constructor(head: ChatHead, options: ChunkOptions) {
    this.#head = head;
    this.#options = options;
  }

  /** Returns the chunk that precedes all events. */
  first(): ChatCompletionChunk {
    return { ...this.#chunk({ role: "assistant", content: "" }), agent: this.#head.agent };
  }

  /** Returns the chunks of one event. An empty line separates messages, as in an answer that is not streamed. */
  of(event: RunEvent): readonly ChatCompletionChunk[] {
    switch (event.event) {
      case "message.delta": {
        const gap = this.#messageId !== undefined && this.#messageId !== event.message_id ? "\n\n" : "";
        this.#messageId = event.message_id;
        return [this.#chunk({ content: gap + event.delta })];
      }
      case "reasoning.delta":
        return this.#options.showReasoning ? [this.#chunk({ reasoning_content: event.delta })] : [];
      case "tool.started":
      case "tool.completed":
        return this.#options.includeProgress ? [this.#progress(event)] : [];
      case "tool.requested":
        return [this.#chunk({ tool_calls: [{ index: this.#calls++, ...toolCall(event) }] })];
      case "run.completed":
        return this.#end(event);
      default:
        return [];
    }
  }

  #end(event: Extract<RunEvent, { event: "run.completed" }>): readonly ChatCompletionChunk[] {
    const refusal = this.#options.hasFormat ? refusalOf(event) : undefined;
    const last =
      refusal === undefined
        ? [this.#chunk({}, finishReason(event.stop))]
        : [this.#chunk({ refusal }), this.#chunk({}, "stop")];
    if (!this.#options.includeUsage) return last;
    return [...last, { ...this.#chunk({}), choices: [], usage: toCompletionUsage(event.usage) }];
  }

  #progress(event: ToolEvent): ChatCompletionChunk {
    return { ...this.#chunk({}), choices: [], agent: { ...this.#head.agent, tool: toolProgress(event) } };
  }

  #chunk(delta: ChatDelta, finish: FinishReason | null = null): ChatCompletionChunk {
    const { id, created, model } = this.#head;
    const choices = [{ index: 0, delta, finish_reason: finish }];
    return { id, object: "chat.completion.chunk", created, model, choices };
  }
}

/** Returns a call that the client has to make. */
export function toolCall(event: Extract<RunEvent, { event: "tool.requested" }>): ChatToolCall {
  const { tool_call_id: id, tool: name, arguments: json } = event;
  return { id, type: "function", function: { name, arguments: json } };
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

/** Returns why the model refused to answer; undefined when it did not. */
export function refusalOf(event: Extract<RunEvent, { event: "run.completed" }>): string | undefined {
  return event.stop === "refusal" ? event.output || "The model refused to answer." : undefined;
}

type Stop = Extract<RunEvent, { event: "run.completed" }>["stop"];

/** Returns why the model stopped. A run that reached its step limit counts as `length`. */
export function finishReason(stop: Stop): FinishReason {
  if (stop === "end") return "stop";
  if (stop === "tool_calls") return stop;
  return stop === "refusal" ? "content_filter" : "length";
}

type ToolEvent = Extract<RunEvent, { event: "tool.started" | "tool.completed" }>;

function toolProgress(event: ToolEvent): ToolProgress {
  const call = { tool: event.tool, tool_call_id: event.tool_call_id };
  if (event.event === "tool.started") {
    const label = event.preview === undefined ? {} : { label: event.preview };
    return { ...call, ...label, type: "tool.started", status: "running" };
  }
  return {
    ...call,
    type: "tool.completed",
    status: event.error ? "failed" : "completed",
    duration_ms: Math.round(event.duration * 1000),
  };
}
