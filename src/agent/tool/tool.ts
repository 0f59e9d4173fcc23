/** The contract of tools: what the agent may call, and what a call gets. */
import type {
  ToolEndCode,
  ClarifyQuestion,
  CommandExit,
  FileChange,
  Todo,
  ToolKind,
  ToolImage,
} from "../../../generated/http/client/types.gen.ts";
import type { Message, ToolSpec } from "../engine.ts";

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

// Parts of the JSON Schemas of tools

type Schema = Readonly<Record<string, unknown>>;

/** Returns the schema of an object with these properties and no others. */
export const closedObject = (properties: Schema, required: readonly string[] = []): Schema => ({
  type: "object",
  additionalProperties: false,
  ...(required.length > 0 ? { required } : {}),
  properties,
});

/** Returns the schema of a text that is not empty. */
export const nonEmptyText = (maxLength: number, description?: string): Schema => ({
  type: "string",
  minLength: 1,
  maxLength,
  ...(description === undefined ? {} : { description }),
});

/** Returns the schema of a text that may be empty. */
export const freeText = (maxLength: number, description: string): Schema => ({
  type: "string",
  maxLength,
  description,
});

export const integer = (minimum: number, maximum: number, description: string): Schema => ({
  type: "integer",
  minimum,
  maximum,
  description,
});

export const flag = (description: string): Schema => ({ type: "boolean", description });
