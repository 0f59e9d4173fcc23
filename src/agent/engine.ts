/** The contract of engines, which call a model, and the messages that they exchange. */
import type { ProviderFailure, ToolEndCode } from "../../generated/http/client/types.gen.ts";
import type { Span } from "../base/observe.ts";
import type { ModelRef } from "./model.ts";
import type { Usage } from "./usage/usage.ts";

/** JSON as the answer of a turn. Without `schema`: any JSON object. */
export interface OutputFormat {
  readonly name?: string;
  readonly description?: string;
  readonly schema?: Readonly<Record<string, unknown>>;
  /** Whether the provider itself must enforce the schema, which some schemas do not allow. */
  readonly isStrict?: boolean;
}

/**
 * The contract of an engine. An engine turns messages into events by calling a model and, through the ports,
 * tools. It knows nothing of sessions, storage, approvals or wires.
 *
 * An engine
 * - MUST NOT throw or reject for anything a provider, a tool or the signal does: it reports by the returned {@link TurnEnd}.
 * - MUST emit events in the order things happened, and MUST pair message.start with message.end, even when cut.
 * - MUST call `ports.callTool` exactly once for each tool call the model makes, in parallel within a step, and MUST
 *   wait for all of them before the next step; an unknown tool or bad arguments are passed, too.
 * - MUST call `ports.saveStep` after each step with the messages that the step added, complete: an assistant message
 *   with tool calls comes together with the answers to all of them, so a transcript never dangles.
 * - MUST NOT let a call run whose answer ended by the length limit or a content filter, since its arguments may be cut:
 *   it is passed with `invalid`. After the length limit the model continues if steps are left, else the turn ends.
 * - MUST end with stop `tool_calls` after a step in which a call was answered with status `pending`: the client makes it.
 * - MUST end with stop `end` after a step in which an answer says `endsTurn`: the agent asked in the conversation.
 * - MUST take steering text with `ports.takeSteers` before each model call and add it as user messages.
 * - MUST stop soon after `signal` aborts: the running model call is cut, the text so far is saved with
 *   `interrupted: true`, calls without an answer get one with status `aborted`, and the end says `aborted`.
 * - MUST await `ports.drain`, if there is one and it returns a promise, before it reads more of an answer.
 * - MUST NOT retry a model call once it emitted anything for that call.
 * - MUST ask `ports.admit`, if there is one, before each model call; a refusal ends the turn with `budget_exceeded` and it.
 * - MUST pass the usage of each model call through `ports.price`, if there is one.
 * - MUST call `ports.compact`, if there is one, before a model call whose context would be above `compactAtTokens`, and
 *   once a turn after a provider refused a context as too long; it continues with the messages it gets, and without any
 *   the end says `context_too_long`. Steering text that is not saved yet stays behind them.
 * - MUST NOT show text of an answer without the `outputFormat`, except that of a provider that enforces it itself.
 * - MUST bound what one answer may hold, and end a longer one as the length limit does.
 * - MUST continue with the next of `fallbacks` when a model is unavailable and nothing was emitted for the call, and report it.
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
  /** What the answer that ends the turn must be. Absent: any text. */
  readonly outputFormat?: OutputFormat;
  /** Names of the tools that the client calls: their arguments are the client's to check. */
  readonly clientTools?: readonly string[];
  readonly settings: ModelSettings;
  readonly maxSteps: number;
  /** Estimate above which the conversation is compacted. Absent: never automatically. */
  readonly compactAtTokens?: number;
  readonly ports: TurnPorts;
  readonly signal: AbortSignal;
  /** Parent span of the model calls. Absent: they are not traced. */
  readonly span?: Span;
}

/** Sampling settings a request may carry; absent ones are the provider's defaults. */
export interface ModelSettings {
  readonly temperature?: number;
  readonly topP?: number;
  readonly maxOutputTokens?: number;
  readonly stop?: readonly string[];
  readonly seed?: number;
  readonly reasoningEffort?: string;
}

/** A tool as the model sees it. `parameters` is a JSON Schema of type object. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/**
 * Whether answers must call a tool, or which one, until one of the client's is called; that ends the turn. An answer in
 * words ends the turn, too: not every model obeys. Absent: the model decides.
 */
export type ToolChoice = "required" | { readonly tool: string };

export interface TurnPorts {
  emit(event: EngineEvent): void;
  /** Evaluates, runs and reports one call. Never rejects. */
  callTool(call: ToolCall): Promise<ToolAnswer>;
  takeSteers(): readonly string[];
  saveStep(step: { readonly messages: readonly Message[]; readonly usage: Usage }): void;
  /**
   * Returns what to await before more of an answer is read, while much of what was emitted is not stored yet; undefined
   * otherwise. So a fast model waits for the store, and memory does not grow with the answer. Never rejects.
   */
  drain?(): Promise<void> | undefined;
  /** Returns why the model may not be called; undefined when it may. */
  admit?(model: ModelRef): Refusal | undefined;
  /** Returns the usage of a call with its cost. */
  price?(model: ModelRef, usage: Usage): Usage;
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
  /** How long the call took; absent: it was not made here. */
  readonly durationMs?: number;
  /** The turn ends after this step. */
  readonly endsTurn?: true;
}

/** An answer of the server, not of the client. */
export type SettledAnswer = ToolAnswer & { readonly status: Exclude<ToolStatus, "pending"> };

export type EngineEvent =
  | { readonly type: "message.start"; readonly messageId: string }
  | { readonly type: "message.delta"; readonly messageId: string; readonly text: string }
  | { readonly type: "message.end"; readonly messageId: string; readonly text: string }
  | { readonly type: "reasoning.delta"; readonly messageId: string; readonly text: string }
  | { readonly type: "reasoning.end"; readonly text: string }
  /** The model begins to write a call of this tool. */
  | { readonly type: "tool.generating"; readonly tool: string }
  /** A notice for people that is not a failure: a retry, a fallback. */
  | { readonly type: "notice"; readonly text: string };

/** Why no model may be called. */
export interface Refusal {
  readonly message: string;
  /** Set when one may be called later. */
  readonly retryAfterSeconds?: number;
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

/** One model call without tools that leaves no trace in the journal or transcript. */
interface CompletionRequest {
  readonly runId: string;
  readonly model: ModelRef;
  readonly instructions: string;
  readonly messages: readonly Message[];
  readonly settings?: EngineTurn["settings"];
  readonly signal: AbortSignal;
  readonly span?: Span;
  readonly keepAlive?: () => void;
  readonly price?: TurnPorts["price"];
}

/** Calls a model once. Never rejects for a provider's failure: the result says how it ended. */
export function completeOnce(engine: Engine, request: CompletionRequest): Promise<TurnEnd> {
  const { settings = {}, keepAlive = () => {}, price, ...turn } = request;
  return engine.runTurn({
    ...turn,
    settings,
    tools: [],
    maxSteps: 1,
    ports: {
      emit: keepAlive,
      callTool: async () => ({ status: "error", text: "No tools are available." }),
      takeSteers: () => [],
      saveStep: () => {},
      ...(price ? { price } : {}),
    },
  });
}

/** The transcript's own message form: what is stored, compressed and handed to any engine. JSON throughout. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** Instructions that came with a request. */
export interface SystemMessage {
  readonly role: "system";
  readonly text: string;
}

export interface UserMessage {
  readonly role: "user";
  readonly text: string;
  readonly name?: string;
  /** Absent: a prompt. steer: added to a running turn. summary: replaces older messages. */
  readonly origin?: "steer" | "summary";
  /** Images and files of the message. */
  readonly attachments?: readonly Attachment[];
}

export interface Attachment {
  readonly type: "image" | "file";
  /** Sniffed, such as `image/png`. */
  readonly mediaType: string;
  readonly name?: string;
  /** Base64. */
  readonly data: string;
}

export interface AssistantMessage {
  readonly role: "assistant";
  readonly parts: readonly AssistantPart[];
  /** True when the turn was cut before the message was complete. */
  readonly interrupted?: boolean;
}

export type AssistantPart =
  | {
      readonly type: "text";
      readonly text: string;
      /** Message id of its deltas. */
      readonly id?: string;
      readonly provider?: ProviderData;
    }
  | {
      readonly type: "reasoning";
      readonly text: string;
      /** Message id of its deltas. */
      readonly id?: string;
      readonly provider?: ProviderData;
    }
  | {
      readonly type: "tool_call";
      readonly callId: string;
      readonly tool: string;
      readonly input: unknown;
      readonly provider?: ProviderData;
    };

/** What a provider wants to see again unchanged with a part: signatures, encrypted reasoning. Opaque to us. */
export type ProviderData = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** The answer to one tool call. Every tool_call part is followed by exactly one of these before the next turn. */
export interface ToolMessage {
  readonly role: "tool";
  readonly callId: string;
  readonly tool: string;
  readonly status: ToolStatus;
  readonly text: string;
  /** Why the call failed. */
  readonly code?: ToolEndCode;
  /** The reason that a person gave for a denial. */
  readonly reason?: string;
  /** How long the call took; absent: it was not made here, or is older than this field. */
  readonly durationMs?: number;
}

/** pending: the client makes the call; its answer follows as another message of the same call. */
export type ToolStatus = "ok" | "error" | "denied" | "aborted" | "pending";

/** A message of the transcript and its permanent number. */
export interface NumberedMessage {
  readonly seq: number;
  readonly message: Message;
}

/** A message and its run; null without one. */
export interface TranscriptRow extends NumberedMessage {
  readonly runId: string | null;
}
