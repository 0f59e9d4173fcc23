import type { experimental_streamLanguageModelCall } from "ai";
import { createId } from "../../base/ids.ts";
import { zeroUsage, type EngineEvent, type ToolCall, type Usage } from "../engine.ts";
import type { AssistantPart, ProviderData } from "../message.ts";
import { headOf } from "../../base/text.ts";

type CallStream = Awaited<ReturnType<typeof experimental_streamLanguageModelCall>>["stream"];
type CallPart = CallStream extends AsyncIterable<infer P> ? P : never;

/** What one model call came to. */
export interface StepResult {
  readonly parts: readonly AssistantPart[];
  readonly calls: readonly ToolCall[];
  readonly text: string;
  readonly usage: Usage;
  /** Undefined: the stream ended without saying how. */
  readonly finish: string | undefined;
}

/** Roughly, in most languages. */
const BYTES_PER_TOKEN = 4;

/** Takes one model call's stream apart into events for people and parts for the transcript. */
export class StepReader {
  readonly #emit: (event: EngineEvent) => void;
  readonly #parts: AssistantPart[] = [];
  readonly #calls: ToolCall[] = [];
  #usage: Usage = { ...zeroUsage, modelCalls: 1 };
  #finish: string | undefined;
  #message: { id: string; text: string } | undefined;
  #messageData: ProviderData | undefined;
  #reasoning: { text: string; data: ProviderData | undefined } | undefined;
  #emitted = false;
  readonly #taken: Set<string>;
  #leftBytes: number;
  #seenBytes = 0;

  /** `taken` holds the ids of the turn's calls so far, and gets those of this one. */
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

  /** True once the answer has passed its limit: the rest is not taken, and it ends by length. */
  get isFull(): boolean {
    return this.#leftBytes < 0;
  }

  /** True once anything of this call was shown: it must not be made again. */
  get emitted(): boolean {
    return this.#emitted;
  }

  take(part: CallPart): void {
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
        throw part.error;
      default:
        return; // sources, files and metadata have no place in a transcript yet
    }
  }

  /** Closes what is open and hands over what there is; also for a call that was cut. */
  result(): StepResult {
    this.#closeReasoning();
    this.#closeMessage();
    const text = this.#parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    const [parts, calls] = [this.#parts, this.#calls];
    if (!this.isFull) return { parts, calls, text, usage: this.#usage, finish: this.#finish };
    // Nobody counted: the provider does at the end of its answer.
    const outputTokens = this.#usage.outputTokens || Math.ceil(this.#seenBytes / BYTES_PER_TOKEN);
    return { parts, calls, text, usage: { ...this.#usage, outputTokens }, finish: "length" };
  }

  /** As much of a piece as there is room for. */
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
    const { text, data } = this.#reasoning ?? { text: "", data: undefined };
    this.#reasoning = { text: text + delta, data: merged(data, provider) };
    if (delta !== "") this.#show({ type: "reasoning.delta", text: delta });
  }

  /** Reasoning without text may still carry what the provider wants back: signatures, encrypted content. */
  #closeReasoning(provider?: ProviderMetadata): void {
    const text = this.#reasoning?.text ?? "";
    const data = merged(this.#reasoning?.data, provider);
    this.#reasoning = undefined;
    if (text === "" && !data) return;
    if (text !== "") this.#show({ type: "reasoning.end", text });
    this.#parts.push({ type: "reasoning", text, ...(data ? { provider: data } : {}) });
  }

  #call(part: Extract<CallPart, { type: "tool-call" }>): void {
    if (part.providerExecuted) return;
    const callId = this.#unique(part.toolCallId);
    const call = { callId, tool: part.toolName, input: part.input as unknown };
    const problem = part.invalid === true ? { invalid: invalidText(part.error, part.toolName) } : {};
    this.#emitted = true;
    const data = merged(undefined, part.providerMetadata);
    this.#parts.push({ type: "tool_call", ...call, ...(data ? { provider: data } : {}) });
    this.#calls.push({ ...call, ...problem });
  }

  /** Some servers number the calls of each answer anew, or give them all one name. */
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

type ProviderMetadata = Readonly<Record<string, unknown>> | undefined;

/** Providers tell what they want back at the start of a part, in the middle (signatures) or at its end. */
function merged(known: ProviderData | undefined, more: ProviderMetadata): ProviderData | undefined {
  if (more === undefined) return known;
  const added = Object.entries(more as ProviderData);
  return {
    ...known,
    ...Object.fromEntries(added.map(([name, data]) => [name, { ...known?.[name], ...data }])),
  };
}

/** The SDK wraps the schema's own complaint; the innermost message is the one that helps the model. */
function invalidText(error: unknown, tool: string): string {
  let at = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  if (at instanceof SyntaxError) return `The arguments of ${tool} are not valid JSON.`;
  return at instanceof Error ? headOf(at.message, 1000) : `The arguments of ${tool} are not valid.`;
}

type SdkUsage = Extract<CallPart, { type: "model-call-end" }>["usage"];

function toUsage(usage: SdkUsage, toolCalls: number): Usage {
  return {
    inputTokens: usage.inputTokens ?? 0,
    outputTokens: usage.outputTokens ?? 0,
    cachedInputTokens: usage.inputTokenDetails.cacheReadTokens ?? 0,
    cacheWriteTokens: usage.inputTokenDetails.cacheWriteTokens ?? 0,
    reasoningTokens: usage.outputTokenDetails.reasoningTokens ?? 0,
    modelCalls: 1,
    toolCalls,
  };
}
