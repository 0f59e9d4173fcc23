/** Reads the chunks of a streamed chat completion as the parts of an answer. */
import { InvalidResponseDataError } from "@ai-sdk/provider";
import type { StreamingToolCallTracker } from "@ai-sdk/provider-utils";
import type { StepPart } from "../step.ts";
import { metadataKey } from "./body.ts";
import {
  type Chunk,
  type ChunkUsage,
  type ContentPart,
  type Delta,
  parseChunk,
  type ToolCallDelta,
} from "./chunk.ts";
import { toStreamError } from "./errors.ts";
import { type CallParser } from "./tool-call.ts";

interface AnswerOptions {
  /** Name of the provider. */
  readonly provider: string;
  readonly take: (part: StepPart) => void;
  readonly parseCall: CallParser;
}

/** The beginning of a call whose name has not arrived. */
interface UnnamedCall {
  id: string | null;
  arguments: string;
  extra: ToolCallDelta["extra_content"];
}

type Tracker = StreamingToolCallTracker<ToolCallDelta>;

/** Passes on the parts of one answer. It reads them as the model SDK does, so that both give the same transcript. */
export class AnswerReader {
  readonly #options: AnswerOptions;
  /** The kind of text that is open. */
  #open: "text" | "reasoning" | undefined;
  #finish: string | undefined;
  #hasRefusal = false;
  #usage: ChunkUsage | undefined;
  #tracker: Tracker | undefined;
  readonly #unnamed = new Map<number, UnnamedCall>();
  readonly #named = new Set<number>();

  constructor(options: AnswerOptions) {
    this.#options = options;
  }

  /**
   * Reads the data of a frame. Throws when the provider reports a failure or sends something else. A returned promise
   * must be awaited before the next frame is read.
   */
  read(data: string): Promise<void> | undefined {
    if (data === "[DONE]") return undefined;
    const chunk = parseChunk(data);
    const { error } = chunk;
    if (error !== undefined && error !== null) throw toStreamError(error);
    const calls = chunk.choices?.[0]?.delta?.tool_calls ?? [];
    if (calls.length === 0 || this.#tracker) return void this.#chunk(chunk);
    return this.#loadTracker().then(() => this.#chunk(chunk));
  }

  /** Ends the answer. Throws when the provider gave no reason for its end. */
  end(): void {
    const { take } = this.#options;
    this.#close();
    for (const [index, { id, arguments: text }] of this.#unnamed)
      this.#tracker?.processDelta({ index, id, function: { arguments: text } });
    this.#tracker?.flush();
    const rawFinishReason = this.#finish;
    if (rawFinishReason === undefined) {
      const message = "Response stream ended without a finish reason.";
      throw new InvalidResponseDataError({ data: undefined, message });
    }
    const finishReason = toFinishReason(rawFinishReason, this.#hasRefusal);
    take({ type: "model-call-end", finishReason, rawFinishReason, usage: toUsage(this.#usage) });
  }

  #chunk({ choices = [], usage }: Chunk): void {
    if (usage) this.#usage = usage;
    const [choice] = choices;
    // Kept for the end: many servers send the last piece of the answer, such as a refusal, in the same chunk.
    this.#finish = choice?.finish_reason ?? this.#finish;
    if (choice?.delta) this.#delta(choice.delta);
  }

  #delta({ reasoning_content: thoughts, reasoning, content, refusal, tool_calls: calls }: Delta): void {
    this.#piece("reasoning", thoughts ?? reasoning ?? "");
    if (typeof content === "string") this.#piece("text", content);
    else for (const part of content ?? []) this.#contentPart(part);
    if (typeof refusal === "string" && refusal !== "") {
      this.#hasRefusal = true;
      this.#piece("text", refusal);
    }
    if (!calls || calls.length === 0) return;
    if (this.#open === "reasoning") this.#close();
    for (const call of calls) this.#call(call);
  }

  #contentPart({ type, text, thinking }: ContentPart): void {
    if (type === "text" && typeof text === "string") this.#piece("text", text);
    if (type === "thinking" && Array.isArray(thinking)) this.#piece("reasoning", thoughtsOf(thinking));
  }

  #piece(kind: "text" | "reasoning", text: string): void {
    if (text === "") return;
    const { take } = this.#options;
    if (this.#open !== kind) {
      this.#close();
      this.#open = kind;
      take({ type: `${kind}-start` });
    }
    take({ type: `${kind}-delta`, text });
  }

  #close(): void {
    if (this.#open) this.#options.take({ type: `${this.#open}-end` });
    this.#open = undefined;
  }

  /** Some servers send the name of a call after the beginning of its arguments. */
  #call(delta: ToolCallDelta): void {
    const { index, id = null, function: called, extra_content: extra } = delta;
    if (index === undefined || index === null || this.#named.has(index))
      return this.#tracker?.processDelta(delta);
    const begun = this.#unnamed.get(index) ?? { id: null, arguments: "", extra: null };
    begun.id ??= id;
    begun.extra ??= extra;
    begun.arguments += called.arguments ?? "";
    this.#unnamed.set(index, begun);
    const { name } = called;
    if (name === undefined || name === null) return;
    this.#unnamed.delete(index);
    this.#named.add(index);
    this.#tracker?.processDelta({
      index,
      id: begun.id,
      function: { name, arguments: begun.arguments },
      extra_content: begun.extra,
    });
  }

  /** The SDK's tracker knows how servers mix up ids, indexes and names. It is loaded with the first call. */
  async #loadTracker(): Promise<void> {
    const { StreamingToolCallTracker: TrackerClass } = await import("@ai-sdk/provider-utils");
    const { take, parseCall, provider } = this.#options;
    const enqueue: ConstructorParameters<typeof TrackerClass>[0]["enqueue"] = (part) => {
      if (part?.type === "tool-call") take(parseCall(part));
      else if (part?.type === "tool-input-start" || part?.type === "tool-input-delta") take(part);
    };
    this.#tracker = new TrackerClass(
      { enqueue },
      {
        extractMetadata: ({ extra_content: extra }: ToolCallDelta) => {
          const thoughtSignature = extra?.google?.thought_signature;
          return thoughtSignature ? { [metadataKey(provider)]: { thoughtSignature } } : undefined;
        },
        buildToolCallProviderMetadata: (metadata) => metadata,
      },
    );
  }
}

function thoughtsOf(thinking: readonly unknown[]): string {
  const texts = (thinking as readonly ({ type?: unknown; text?: unknown } | null)[]).map((thought) =>
    thought?.type === "text" && typeof thought.text === "string" ? thought.text : "",
  );
  return texts.join("");
}

const FINISH_REASONS: ReadonlyMap<string, string> = new Map([
  ["stop", "stop"],
  ["length", "length"],
  ["content_filter", "content-filter"],
  ["function_call", "tool-calls"],
  ["tool_calls", "tool-calls"],
]);

/** OpenAI reports a refusal as a complete answer. */
function toFinishReason(raw: string, hasRefusal: boolean): string {
  return raw === "stop" && hasRefusal ? "content-filter" : (FINISH_REASONS.get(raw) ?? "other");
}

function toUsage(usage: ChunkUsage | undefined) {
  return {
    inputTokens: usage && (usage.prompt_tokens ?? 0),
    outputTokens: usage && (usage.completion_tokens ?? 0),
    inputTokenDetails: { cacheReadTokens: usage?.prompt_tokens_details?.cached_tokens ?? undefined },
    outputTokenDetails: { reasoningTokens: usage?.completion_tokens_details?.reasoning_tokens ?? undefined },
  };
}
