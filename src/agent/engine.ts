import type { ProviderFailure, ToolEndCode } from "../../generated/http/client/types.gen.ts";
import type { Span } from "../base/observe/trace.ts";
import type { Message, ToolStatus } from "./message.ts";

/**
 * What any agent core must offer. An engine turns messages into events by calling a model and, through the ports,
 * tools. It knows nothing of sessions, storage, approvals or wires.
 *
 * An engine
 * - MUST NOT throw or reject for anything a provider, a tool or the signal does: it reports by the returned {@link TurnEnd}.
 * - MUST emit events in the order things happened, and MUST pair message.start with message.end, also when cut.
 * - MUST call `ports.callTool` exactly once for each tool call the model makes, in parallel within a step, and MUST
 *   wait for all of them before the next step; an unknown tool or bad arguments are handed over all the same.
 * - MUST call `ports.saveStep` after each step with the messages that the step added, complete: an assistant message
 *   with tool calls comes together with the answers to all of them, so a transcript never dangles.
 * - MUST NOT let a call run whose answer ended by the length limit or a content filter, since its arguments may be cut:
 *   it is handed over with `invalid`. After the length limit the model goes on if steps are left, else the turn ends.
 * - MUST end with stop `tool_calls` after a step in which a call was answered with status `pending`: somebody else makes it.
 * - MUST take steering text with `ports.takeSteers` before each model call and add it as user messages.
 * - MUST stop soon after `signal` aborts: the running model call is cut, the text so far is saved with
 *   `interrupted: true`, calls without an answer get one with status `aborted`, and the end says `aborted`.
 * - MUST NOT retry a model call once it emitted anything for that call.
 * - MUST ask `ports.admit`, if there is one, before each model call; a text ends the turn with `budget_exceeded` and it.
 * - MUST call `ports.compact`, if there is one, before a model call whose context would be above `compactAtTokens`, and
 *   once a turn after a provider refused a context as too long; it goes on with the messages it gets, and without any
 *   the end says `context_too_long`. Steering text that is not saved yet stays behind them.
 * - MUST bound what one answer may hold, and end a longer one as the length limit does.
 * - MUST go on with the next of `fallbacks` when a model is out of order and nothing was emitted for the call, and say so.
 */
export interface Engine {
  readonly name: string;
  runTurn(turn: EngineTurn): Promise<TurnEnd>;
}

export interface EngineTurn {
  readonly runId: string;
  readonly model: ModelRef;
  /** Models that take over, in order, when the one before is out of order. */
  readonly fallbacks?: readonly ModelRef[];
  readonly instructions: string;
  /** The conversation so far, the new prompt last. */
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly toolChoice?: ToolChoice;
  readonly settings: ModelSettings;
  readonly maxSteps: number;
  /** Above this estimate the conversation is to be compacted. Absent: never by itself. */
  readonly compactAtTokens?: number;
  readonly ports: TurnPorts;
  readonly signal: AbortSignal;
  /** What the model calls are part of. Absent: they are not traced. */
  readonly span?: Span;
}

/** `id` is the provider's own model name. */
export interface ModelRef {
  readonly provider: string;
  readonly id: string;
}

/** What the model sees of a tool. `parameters` is a JSON Schema of type object. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** Whether the first answer of the turn must call a tool, or which one. Absent: as the model likes. */
export type ToolChoice = "required" | { readonly tool: string };

/** Sampling settings a request may carry; absent ones are the provider's defaults. */
export interface ModelSettings {
  readonly temperature?: number;
  readonly topP?: number;
  readonly maxOutputTokens?: number;
  readonly stop?: readonly string[];
  readonly seed?: number;
  readonly reasoningEffort?: string;
}

export interface TurnPorts {
  emit(event: EngineEvent): void;
  /** Decides, asks, runs and reports one call. Never rejects. */
  callTool(call: ToolCall): Promise<ToolAnswer>;
  takeSteers(): readonly string[];
  saveStep(step: { readonly messages: readonly Message[]; readonly usage: Usage }): void;
  /** Undefined when a model may be called; else why not. */
  admit?(): string | undefined;
  /**
   * Makes the conversation shorter; `saved` is what of it was saved, so that long texts are not read again from the store.
   * Resolves to all of the new one, undefined when nothing could be left out. Rejects when the turn was stopped meanwhile.
   */
  compact?(
    reason: "near_limit" | "overflow",
    saved: readonly Message[],
  ): Promise<readonly Message[] | undefined>;
}

export interface ToolCall {
  readonly callId: string;
  readonly tool: string;
  readonly input: unknown;
  /** Set when the model's arguments did not parse or did not fit the schema; the call is answered with it. */
  readonly invalid?: string;
}

export interface ToolAnswer {
  readonly status: ToolStatus;
  /** What the model reads. */
  readonly text: string;
  /** Why the call did not do what it was called for; absent: it did, or the client makes it. */
  readonly code?: ToolEndCode;
  /** What somebody said with a denial. */
  readonly reason?: string;
}

/** An answer that the server gave itself. */
export type SettledAnswer = ToolAnswer & { readonly status: Exclude<ToolStatus, "pending"> };

export type EngineEvent =
  | { readonly type: "message.start"; readonly messageId: string }
  | { readonly type: "message.delta"; readonly messageId: string; readonly text: string }
  | { readonly type: "message.end"; readonly messageId: string; readonly text: string }
  | { readonly type: "reasoning.delta"; readonly text: string }
  | { readonly type: "reasoning.end"; readonly text: string }
  /** Something a person should know that is no failure: a retry, a fallback. */
  | { readonly type: "notice"; readonly text: string };

export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedInputTokens: number;
  readonly cacheWriteTokens: number;
  readonly reasoningTokens: number;
  readonly modelCalls: number;
  readonly toolCalls: number;
}

export type StopReason = "end" | "length" | "max_steps" | "refusal" | "tool_calls" | "aborted" | "error";

export interface TurnEnd {
  readonly stop: StopReason;
  /** Text of the last assistant message. */
  readonly text: string;
  readonly usage: Usage;
  /** Set with stop `error`. `retryAfterSeconds` is what the provider asked for, `failure` what kind of failure it was. */
  readonly error?: {
    readonly code:
      | "provider_error"
      | "agent_timeout"
      | "agent_incomplete"
      | "model_not_found"
      | "budget_exceeded"
      | "context_too_long"
      | "internal_error";
    readonly message: string;
    readonly retryAfterSeconds?: number;
    readonly failure?: ProviderFailure;
  };
}

export const zeroUsage: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  modelCalls: 0,
  toolCalls: 0,
};

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cachedInputTokens: a.cachedInputTokens + b.cachedInputTokens,
    cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    modelCalls: a.modelCalls + b.modelCalls,
    toolCalls: a.toolCalls + b.toolCalls,
  };
}
