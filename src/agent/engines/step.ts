import type { experimental_streamLanguageModelCall } from "ai";
import { createId, headOf } from "../../base/text.ts";
import { zeroUsage, type Usage } from "../usage/usage.ts";
import type { EngineEvent, ToolCall, AssistantPart, ProviderData } from "../engine.ts";

type CallStream = Awaited<ReturnType<typeof experimental_streamLanguageModelCall>>["stream"];
type CallPart = CallStream extends AsyncIterable<infer P> ? P : never;

type ProviderMetadata = Readonly<Record<string, unknown>> | undefined;

/** What a step reads of an answer, in the SDK's words. */
type ReadPart =
  | {
      readonly type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end";
      readonly providerMetadata?: ProviderMetadata;
    }
  | {
      readonly type: "text-delta" | "reasoning-delta";
      readonly text: string;
      readonly providerMetadata?: ProviderMetadata;
    }
  | {
      readonly type: "tool-input-start";
      readonly toolName: string;
      readonly providerExecuted?: boolean | undefined;
    }
  | { readonly type: "tool-input-delta"; readonly delta: string }
  | ToolCallPart
  | {
      readonly type: "model-call-end";
      readonly finishReason: string;
      readonly rawFinishReason: string | undefined;
      readonly usage: StepUsage;
    }
  | { readonly type: "error"; readonly error: unknown };

interface ToolCallPart {
  readonly type: "tool-call";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
  readonly invalid?: boolean | undefined;
  /** Why the call is invalid. */
  readonly error?: unknown;
  readonly providerExecuted?: boolean | undefined;
  readonly providerMetadata?: ProviderMetadata;
}

/** Undefined: the provider did not count. */
interface StepUsage {
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly inputTokenDetails: {
    readonly cacheReadTokens: number | undefined;
    readonly cacheWriteTokens?: number | undefined;
  };
  readonly outputTokenDetails: { readonly reasoningTokens: number | undefined };
}

/** A part of an answer. Steps ignore the other parts of the SDK: the transcript does not store them yet. */
export type StepPart = ReadPart | { readonly type: Exclude<CallPart["type"], ReadPart["type"]> };

/** The result of one model call. */
export interface StepResult {
  readonly parts: readonly AssistantPart[];
  readonly calls: readonly ToolCall[];
  readonly text: string;
  readonly usage: Usage;
  /** Undefined when the stream ended without a finish reason. */
  readonly finish: string | undefined;
}

/** Rough average over most languages. */
const BYTES_PER_TOKEN = 4;

/** Splits one model call's stream into events for clients and parts for the transcript. */
export class StepReader {
  readonly #emit: (event: EngineEvent) => void;
  readonly #parts: AssistantPart[] = [];
  readonly #calls: ToolCall[] = [];
  #usage: Usage = { ...zeroUsage, modelCalls: 1 };
  #finish: string | undefined;
  #message: { id: string; text: string } | undefined;
  #messageData: ProviderData | undefined;
  #reasoning: { readonly id: string; text: string; data: ProviderData | undefined } | undefined;
  #emitted = false;
  readonly #taken: Set<string>;
  #leftBytes: number;
  #seenBytes = 0;

  /** `taken` holds the call ids of the turn so far and receives those of this call. */
  constructor(
    emit: (event: EngineEvent) => void,
    {
      taken = new Set(),
      maxBytes = Number.POSITIVE_INFINITY,
    }: { taken?: Set<string>; maxBytes?: number } = {},
  ) {
    this.#emit = emit;
    this.#taken = taken;
    this.#leftBytes = maxBytes;
  }

  /** True once the answer exceeded its limit: the rest is dropped, and the answer ends by length. */
  get isFull(): boolean {
    return this.#leftBytes < 0;
  }

  /** True once a part of this call was emitted: the call must not be repeated. */
  get emitted(): boolean {
    return this.#emitted;
  }

  take(part: StepPart): void {
    switch (part.type) {
      case "text-start":
        this.#closeMessage();
        this.#messageData = merged(undefined, part.providerMetadata);
        return;
      case "text-delta":
        this.#messageData = merged(this.#messageData, part.providerMetadata);
        return this.#text(this.#within(part.text));
      case "text-end":
        return this.#closeMessage(part.providerMetadata);
      case "reasoning-start":
        this.#closeReasoning();
        return this.#reason("", part.providerMetadata);
      case "reasoning-delta":
        return this.#reason(this.#within(part.text), part.providerMetadata);
      case "reasoning-end":
        return this.#closeReasoning(part.providerMetadata);
      case "tool-input-start":
        // Not a part of the answer yet: the call may be repeated.
        if (part.providerExecuted !== true) this.#emit({ type: "tool.generating", tool: part.toolName });
        return;
      case "tool-input-delta":
        this.#within(part.delta);
        return;
      case "tool-call":
        return this.#call(part);
      case "model-call-end":
        this.#finish =
          part.finishReason === "other" && part.rawFinishReason === undefined ? undefined : part.finishReason;
        this.#usage = toUsage(part.usage, this.#calls.length);
        return;
      case "error":
        if (!isWordsInsteadOfCall(part.error)) throw part.error;
        this.#finish = part.error.finishReason;
        return;
      default:
        return;
    }
  }

  /** Closes open parts and returns the result, even for an interrupted call. */
  result(): StepResult {
    this.#closeReasoning();
    this.#closeMessage();
    const text = this.#parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    const [parts, calls] = [this.#parts, this.#calls];
    if (!this.isFull) return { parts, calls, text, usage: this.#usage, finish: this.#finish };
    // An estimate: the provider counts only at the end of its answer.
    const outputTokens = this.#usage.outputTokens || Math.ceil(this.#seenBytes / BYTES_PER_TOKEN);
    return { parts, calls, text, usage: { ...this.#usage, outputTokens }, finish: "length" };
  }

  /** Returns as much of a piece as the limit allows. */
  #within(piece: string): string {
    const bytes = Buffer.byteLength(piece);
    const left = this.#leftBytes;
    this.#leftBytes -= bytes;
    if (bytes <= left) {
      this.#seenBytes += bytes;
      return piece;
    }
    const { read, written } = new TextEncoder().encodeInto(piece, new Uint8Array(Math.max(0, left)));
    this.#seenBytes += written;
    return piece.slice(0, read);
  }

  #text(delta: string): void {
    if (delta === "") return;
    if (!this.#message) {
      this.#closeReasoning();
      this.#message = { id: createId("msg"), text: "" };
      this.#show({ type: "message.start", messageId: this.#message.id });
    }
    this.#message.text += delta;
    this.#show({ type: "message.delta", messageId: this.#message.id, text: delta });
  }

  #closeMessage(provider?: ProviderMetadata): void {
    const message = this.#message;
    const data = merged(this.#messageData, provider);
    this.#message = undefined;
    this.#messageData = undefined;
    if (!message) return;
    this.#show({ type: "message.end", messageId: message.id, text: message.text });
    this.#parts.push({ type: "text", ...message, ...(data ? { provider: data } : {}) });
  }

  #reason(delta: string, provider?: ProviderMetadata): void {
    const { id, text, data } = this.#reasoning ?? { id: createId("msg"), text: "", data: undefined };
    this.#reasoning = { id, text: text + delta, data: merged(data, provider) };
    if (delta !== "") this.#show({ type: "reasoning.delta", messageId: id, text: delta });
  }

  /** Reasoning without text may still carry data that the provider needs back: signatures, encrypted content. */
  #closeReasoning(provider?: ProviderMetadata): void {
    const reasoning = this.#reasoning;
    this.#reasoning = undefined;
    const data = merged(reasoning?.data, provider);
    const { text = "", id } = reasoning ?? {};
    if (text === "" && !data) return;
    if (text !== "") this.#show({ type: "reasoning.end", text });
    const shown = text === "" || id === undefined ? {} : { id };
    this.#parts.push({ type: "reasoning", text, ...shown, ...(data ? { provider: data } : {}) });
  }

  #call(part: ToolCallPart): void {
    if (part.providerExecuted) return;
    const callId = this.#unique(part.toolCallId);
    const call = { callId, tool: part.toolName, input: part.input };
    const problem = part.invalid === true ? { invalid: invalidText(part.error, part.toolName) } : {};
    this.#emitted = true;
    const data = merged(undefined, part.providerMetadata);
    this.#parts.push({ type: "tool_call", ...call, ...(data ? { provider: data } : {}) });
    this.#calls.push({ ...call, ...problem });
  }

  /** Some servers restart the numbering of calls in each answer, or give all calls the same id. */
  #unique(id: string): string {
    const unique = id === "" || this.#taken.has(id) ? createId("call") : id;
    this.#taken.add(unique);
    return unique;
  }

  #show(event: EngineEvent): void {
    this.#emitted = true;
    this.#emit(event);
  }
}

/** Some servers ignore the choice of a tool. What the model says instead is its answer. */
function isWordsInsteadOfCall(error: unknown): error is Error & { readonly finishReason: string } {
  return error instanceof Error && error.name === "AI_ToolChoiceViolationError";
}

/** Providers send the data they need back at the start, in the middle (signatures) or at the end of a part. */
function merged(previous: ProviderData | undefined, more: ProviderMetadata): ProviderData | undefined {
  if (more === undefined) return previous;
  const added = Object.entries(more as ProviderData);
  return {
    ...previous,
    ...Object.fromEntries(added.map(([name, data]) => [name, { ...previous?.[name], ...data }])),
  };
}

/** The SDK wraps the schema's error; the innermost message helps the model most. */
function invalidText(error: unknown, tool: string): string {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  if (at instanceof SyntaxError) return `The arguments of ${tool} are not valid JSON.`;
  return at instanceof Error ? headOf(at.message, 1000) : `The arguments of ${tool} are not valid.`;
}

function toUsage(usage: StepUsage, toolCalls: number): Usage {
  return {
    inputTokens: usage.inputTokens ?? 0,
    outputTokens: usage.outputTokens ?? 0,
    cachedInputTokens: usage.inputTokenDetails.cacheReadTokens ?? 0,
    cacheWriteTokens: usage.inputTokenDetails.cacheWriteTokens ?? 0,
    reasoningTokens: usage.outputTokenDetails.reasoningTokens ?? 0,
    modelCalls: 1,
    toolCalls,
    costNano: 0,
    unpricedTokens: 0,
  };
}
