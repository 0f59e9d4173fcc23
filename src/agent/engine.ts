/** The contracts of the agent: engines that call a model, the messages that they exchange, and tools that a model calls. */
import type {
  ProviderFailure,
  ToolEndCode,
  ClarifyQuestion,
  CommandExit,
  FileChange,
  Todo,
  ToolKind,
  ToolImage,
} from "../../generated/http/client/types.gen.ts";
import type { Span } from "../base/observe.ts";

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

/** What model calls used. Input includes what was read from a cache, and what was written to it. */
export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedInputTokens: number;
  readonly cacheWriteTokens: number;
  readonly reasoningTokens: number;
  readonly modelCalls: number;
  readonly toolCalls: number;
  /** In billionths of a US dollar. */
  readonly costNano: number;
  /** Input and output of calls whose price is unknown. */
  readonly unpricedTokens: number;
}

/** What the model calls of a run used. */
export interface Usage extends ModelUsage {
  /** The part that other models than the run's own used, by `provider:model`. */
  readonly others?: Readonly<Record<string, ModelUsage>>;
}

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

export const zeroUsage: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  modelCalls: 0,
  toolCalls: 0,
  costNano: 0,
  unpricedTokens: 0,
};

export function addUsage(a: Usage, b: Usage): Usage {
  const sum = addCounts(a, b);
  if (!a.others || !b.others) {
    const others = a.others ?? b.others;
    return others ? { ...sum, others } : sum;
  }
  const others: Record<string, ModelUsage> = { ...a.others };
  for (const [model, used] of Object.entries(b.others)) {
    others[model] = addCounts(others[model] ?? zeroUsage, used);
  }
  return { ...sum, others };
}

/** Returns the usage by model, that of the run's own model first. */
export function usageByModel(
  usage: Usage | undefined,
  own: string,
): readonly (readonly [model: string, usage: ModelUsage | undefined])[] {
  if (!usage?.others) return [[own, usage]];
  const others = Object.entries(usage.others);
  const rest = others.reduce<ModelUsage>((left, [, used]) => addCounts(left, used, -1), usage);
  return [[own, rest], ...others];
}

function addCounts(a: ModelUsage, b: ModelUsage, times = 1): ModelUsage {
  return {
    inputTokens: a.inputTokens + times * b.inputTokens,
    outputTokens: a.outputTokens + times * b.outputTokens,
    cachedInputTokens: a.cachedInputTokens + times * b.cachedInputTokens,
    cacheWriteTokens: a.cacheWriteTokens + times * b.cacheWriteTokens,
    reasoningTokens: a.reasoningTokens + times * b.reasoningTokens,
    modelCalls: a.modelCalls + times * b.modelCalls,
    toolCalls: a.toolCalls + times * b.toolCalls,
    costNano: a.costNano + times * b.costNano,
    unpricedTokens: a.unpricedTokens + times * b.unpricedTokens,
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

/** `id` is the provider's own model name. */
export interface ModelRef {
  readonly provider: string;
  readonly id: string;
}

/** Returns `provider:model`, the form in which models are stored and shown. */
export function formatModel(ref: ModelRef): string {
  return `${ref.provider}:${ref.id}`;
}

/** Parses a stored `provider:model`. */
export function parseModel(name: string): ModelRef {
  const [provider = "", ...id] = name.split(":");
  return { provider, id: id.join(":") };
}

/** The built-in model that needs neither key nor network. */
export const DEMO_MODEL: ModelRef = { provider: "demo", id: "demo" };

/** A provider as pickers show it. */
export interface ListedProvider {
  readonly name: string;
  readonly type: string;
  /** In the form in which models are stored and shown. */
  readonly models: readonly string[];
  readonly hasKey: boolean;
  readonly isDefault: boolean;
}

/** Whether a provider is usable: it has a key or needs none. */
export function isReady({ type, hasKey }: ListedProvider): boolean {
  return hasKey || type === "openai_compatible";
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
}

/** pending: the client makes the call; its answer follows as another message of the same call. */
export type ToolStatus = "ok" | "error" | "denied" | "aborted" | "pending";

/** Returns the visible text of a message. */
export function textOf(message: Message): string {
  if (message.role !== "assistant") return message.text;
  return message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** A message of the transcript and its permanent number. */
export interface NumberedMessage {
  readonly seq: number;
  readonly message: Message;
}

/**
 * A tool that the agent may call. `run` does the work and resolves to what the model reads.
 *
 * A tool
 * - MUST limit what it reads, writes, prints and waits for, and say in its text when a limit cut something.
 * - MUST stop, with the processes it started, when `context.signal` aborts.
 * - throws {@link ToolError} for what the model can fix (a missing file, an ambiguous patch); any other error is a bug.
 */
export interface Tool extends ToolSpec {
  /** The named set to which it belongs. */
  readonly toolset: string;
  /** Category for people. Default: other. */
  readonly kind?: ToolKind;
  /** The MCP server that runs it. */
  readonly server?: string;
  /** Returns what the policy evaluates, derived from validated input; see src/agent/question/policy/policy.ts. */
  inspect(input: never, context: { readonly cwd: string }): ToolIntent;
  /** Returns what a call would change in files, for people who decide about it. Throws when that is unknown. */
  preview?(input: never, context: ToolPreviewContext): Promise<readonly FileChange[]>;
  run(input: never, context: ToolContext): Promise<string | ToolOutput>;
}

export type ToolPreviewContext = Pick<ToolContext, "cwd" | "files" | "signal">;

/** The result of a call: the text for the model, and what people see in addition. */
export interface ToolOutput {
  readonly text: string;
  readonly changes?: readonly FileChange[];
  readonly todos?: readonly Todo[];
  /** Images for people; the model reads only {@link text}. */
  readonly images?: readonly ToolImage[];
  /** Set when a command ran to its end. */
  readonly exit?: CommandExit;
  /** Why a command that ran failed. */
  readonly code?: "command_failed" | "timed_out";
}

export interface ToolContext {
  readonly callId: string;
  readonly runId: string;
  readonly sessionId: string;
  readonly owner: string;
  /** `provider:model` that made the call. */
  readonly model: string;
  /** Absolute path; relative paths in the input resolve against it. */
  readonly cwd: string;
  /** Further absolute folders of the session, which the client added. */
  readonly roots?: readonly string[];
  /** The files and folders that the policy decided about, by {@link ToolIntent}. Absent: the call has none. */
  readonly approvedPaths?: readonly string[];
  /** The session is in plan mode: nothing may be changed. */
  readonly isPlanning: boolean;
  readonly signal: AbortSignal;
  /** Reports live output for people. May be called often: output is merged and capped downstream. */
  progress(text: string): void;
  /** Asks people, who see the question as part of this call. */
  readonly questions: Questions;
  /** Variables of the home that this session's commands may see. */
  readonly variables: SessionVariables;
  /** Calls a model once, without tools; its usage counts towards the run. Throws ToolError when it fails. */
  complete(prompt: Completion): Promise<string>;
  /** Runs tasks as sub-agents of this run. Resolves when all have ended. Throws ToolError beyond the limits. */
  delegate(tasks: readonly SubagentTask[]): Promise<readonly SubagentResult[]>;
  readonly todos: TodoList;
  /** Changes the mode of the session, from the next call on. MUST be what the user chose. */
  chooseMode(mode: "ask" | "accept_edits"): Promise<void>;
  /** The session's files as an editor has them. Absent: the files are only on disk. */
  readonly files?: FileAccess;
}

/**
 * Files as an editor has them, including unsaved changes. Paths are absolute, with links resolved. Every call is
 * bounded in time and size.
 */
export interface FileAccess {
  /** Returns the text in the editor; undefined when the disk has the current text. Never rejects. */
  read(path: string, signal: AbortSignal): Promise<string | undefined>;
  /** Returns whether the editor writes this file. If so, the tool must not write it to disk. */
  writes(path: string): boolean;
  /** Writes the text and saves it. Throws ToolError on failure. */
  write(path: string, text: string, signal: AbortSignal): Promise<void>;
}

/** A session's plan. */
export interface TodoList {
  read(): Promise<readonly Todo[]>;
  write(todos: readonly Todo[]): Promise<void>;
}

/** A sub-agent's task; the sub-agent sees nothing else of the conversation. */
export interface SubagentTask {
  readonly goal: string;
  readonly context?: string;
  /** Narrows the tools of the parent run. */
  readonly toolsets?: readonly string[];
  /** `model` or `provider:model`. */
  readonly model?: string;
}

export interface SubagentResult {
  readonly subagentId: string;
  readonly status: "completed" | "failed" | "cancelled" | "interrupted";
  /** Its answer, or the reason why it has none. */
  readonly text: string;
  readonly durationSeconds: number;
}

/** Questions that a tool may ask people. Each waits for its answer and ends with the call. */
export interface Questions {
  /**
   * Returns answers by question id, "" for a skipped one. Throws ToolError when the question cannot be asked or is not
   * answered.
   */
  clarify(questions: readonly ClarifyQuestion[]): Promise<Readonly<Record<string, string>>>;
  /** Returns a password for `command`, or undefined. The caller MUST pass it to that command alone and not store it. */
  sudo(command: string): Promise<string | undefined>;
  /** Asks for a variable and stores it in the home. The tool never sees the value. */
  secret(wanted: { readonly prompt: string; readonly envVar: string }): Promise<"stored" | "skipped">;
}

/** Variables that this session's commands may see. All other secrets are withheld from commands. */
export interface SessionVariables {
  /** Returns whether the variable is set in the environment or the home. */
  has(name: string): boolean;
  /** Lets this session's commands see the variable from now on. */
  share(name: string): void;
  /** Returns the shared variables that are set. */
  shared(): Readonly<Record<string, string>>;
}

export interface Completion {
  readonly instructions: string;
  readonly messages: readonly Message[];
  /** `model` or `provider:model`. Default: the run's model. */
  readonly model?: string;
}

/** What a call is about to do, in terms for the policy and for people. */
export interface ToolIntent {
  readonly kind: "command" | "file" | "network" | "tool";
  /** One line for people, such as `Run: ls -la`. */
  readonly title: string;
  readonly command?: string;
  /** The text that runs for `command` and its absolute working folder. Absent: the command itself, in the workspace. */
  readonly script?: { readonly text: string; readonly folder: string };
  /** For kind command: it runs in the sandbox. */
  readonly sandbox?: {
    readonly network: boolean;
    /** Hosts that it wants to reach and that need approval. */
    readonly hosts: readonly string[];
    /** Further folders that it wants to change; those outside the workspace need approval. They are in `writes`, too. */
    readonly folders?: readonly string[];
  };
  readonly reads?: readonly string[];
  readonly writes?: readonly string[];
  /**
   * For kind network: every host that the call reads from, when it only reads. Absent or empty: unknown, which requires
   * approval.
   */
  readonly hosts?: readonly string[];
  /** For kind tool: what a remembered approval covers, when the tool's name may come to mean another tool. */
  readonly identity?: string;
  /**
   * For kind tool: `none` when it affects only the conversation and the agent's own records (plans, questions, skills;
   * also sub-agents and processes, whose actions are evaluated separately); `own` when it stops what the agent started.
   * Absent: unknown, which requires approval.
   */
  readonly effect?: "none" | "own" | "unknown";
}

/** A failure that the model reads and can act on. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly code: ToolEndCode;

  constructor(message: string, { code = "failed" }: { readonly code?: ToolEndCode } = {}) {
    super(message);
    this.code = code;
  }
}

/** Declares a tool with its input type; validation against `parameters` guarantees that type at run time. */
export function defineTool<Input>(tool: {
  readonly name: string;
  readonly toolset: string;
  readonly kind?: ToolKind;
  readonly server?: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  inspect(input: Input, context: { readonly cwd: string }): ToolIntent;
  preview?(input: Input, context: ToolPreviewContext): Promise<readonly FileChange[]>;
  run(input: Input, context: ToolContext): Promise<string | ToolOutput>;
}): Tool {
  return tool as unknown as Tool;
}
