import type { ProviderFailure, ToolEndCode } from "../../generated/http/client/types.gen.ts";
import type { Span } from "../base/observe/trace.ts";
import type { Message, ToolStatus } from "./message.ts";

/**
 * The contract of an engine. An engine turns messages into events by calling a model and, through the ports,
 * tools. It knows nothing of sessions, storage, approvals or wires.
 *
 * An engine
 * - MUST NOT throw or reject for anything a provider, a tool or the signal does: it reports by the returned {@link TurnEnd}.
 * - MUST emit events in the order things happened, and MUST pair message.start with message.end, also when cut.
 * - MUST call `ports.callTool` exactly once for each tool call the model makes, in parallel within a step, and MUST
 *   wait for all of them before the next step; an unknown tool or bad arguments are passed, too.
 * - MUST call `ports.saveStep` after each step with the messages that the step added, complete: an assistant message
 *   with tool calls comes together with the answers to all of them, so a transcript never dangles.
 * - MUST NOT let a call run whose answer ended by the length limit or a content filter, since its arguments may be cut:
 *   it is passed with `invalid`. After the length limit the model continues if steps are left, else the turn ends.
 * - MUST end with stop `tool_calls` after a step in which a call was answered with status `pending`: the client makes it.
 * - MUST take steering text with `ports.takeSteers` before each model call and add it as user messages.
 * - MUST stop soon after `signal` aborts: the running model call is cut, the text so far is saved with
 *   `interrupted: true`, calls without an answer get one with status `aborted`, and the end says `aborted`.
 * - MUST NOT retry a model call once it emitted anything for that call.
 * - MUST ask `ports.admit`, if there is one, before each model call; a text ends the turn with `budget_exceeded` and it.
 * - MUST call `ports.compact`, if there is one, before a model call whose context would be above `compactAtTokens`, and
 *   once a turn after a provider refused a context as too long; it goes on with the messages it gets, and without any
 *   the end says `context_too_long`. Steering text that is not saved yet stays behind them.
 * - MUST bound what one answer may hold, and end a longer one as the length limit does.
 * - MUST go on with the next of `fallbacks` when a model is unavailable and nothing was emitted for the call, and report it.
 */
export interface Engine {
  readonly name: string;
  runTurn(turn: EngineTurn): Promise<TurnEnd>;
}

export interface EngineTurn {
  readonly runId: string;
  readonly model: ModelRef;
  /** Fallback models, in order, each for when the one before is unavailable. */
  readonly fallbacks?: readonly ModelRef[];
  readonly instructions: string;
  /** The conversation so far, the new prompt last. */
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly toolChoice?: ToolChoice;
  readonly settings: ModelSettings;
  readonly maxSteps: number;
  /** Estimate above which the conversation is compacted. Absent: never automatically. */
  readonly compactAtTokens?: number;
  readonly ports: TurnPorts;
  readonly signal: AbortSignal;
  /** Parent span of the model calls. Absent: they are not traced. */
  readonly span?: Span;
}

/** `id` is the provider's own model name. */
export interface ModelRef {
  readonly provider: string;
  readonly id: string;
}

/** A tool as the model sees it. `parameters` is a JSON Schema of type object. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** Whether the first answer of the turn must call a tool, or which one. Absent: the model decides. */
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
  /** Evaluates, runs and reports one call. Never rejects. */
  callTool(call: ToolCall): Promise<ToolAnswer>;
  takeSteers(): readonly string[];
  saveStep(step: { readonly messages: readonly Message[]; readonly usage: Usage }): void;
  /** Returns why no model may be called; undefined when one may. */
  admit?(): string | undefined;
  /**
   * Shortens the conversation; `saved` holds its saved messages, so that they are not read again from the store. Resolves
   * to the new conversation, undefined when nothing could be left out. Rejects when the turn was stopped meanwhile.
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
  /** Why the call failed; absent: it succeeded, or the client makes it. */
  readonly code?: ToolEndCode;
  /** The reason that a person gave for a denial. */
  readonly reason?: string;
}

/** An answer of the server, not of the client. */
export type SettledAnswer = ToolAnswer & { readonly status: Exclude<ToolStatus, "pending"> };

export type EngineEvent =
  | { readonly type: "message.start"; readonly messageId: string }
  | { readonly type: "message.delta"; readonly messageId: string; readonly text: string }
  | { readonly type: "message.end"; readonly messageId: string; readonly text: string }
  | { readonly type: "reasoning.delta"; readonly text: string }
  | { readonly type: "reasoning.end"; readonly text: string }
  /** A notice for people that is no failure: a retry, a fallback. */
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
  /** Set with stop `error`. `retryAfterSeconds` is the provider's request, `failure` the kind of failure. */
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
