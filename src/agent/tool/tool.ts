import type {
  ClarifyQuestion,
  CommandExit,
  FileChange,
  Todo,
  ToolEndCode,
  ToolKind,
} from "../../../generated/http/client/types.gen.ts";
import { redactValue } from "../../base/observe/redact.ts";
import type { ToolSpec } from "../engine.ts";
import type { Message } from "../message.ts";

/**
 * A tool the agent may call. `run` does the work and resolves to what the model reads.
 *
 * A tool
 * - MUST bound what it reads, writes, prints and waits for, and say so in its text when a bound cut something.
 * - MUST stop, with the processes it started, when `context.signal` aborts.
 * - throws {@link ToolError} for what the model can mend (a missing file, an ambiguous patch); anything else is a bug.
 */
export interface Tool extends ToolSpec {
  /** Which named set it belongs to. */
  readonly toolset: string;
  /** What it does, as people sort it; absent means other. */
  readonly kind?: ToolKind;
  /** What the policy looks at, worked out from checked input; see src/agent/question/policy/policy.ts. */
  inspect(input: never, context: { readonly cwd: string }): ToolIntent;
  /** What a call would change in files, for people to judge it by; throws where that cannot be told. */
  preview?(input: never, context: ToolPreviewContext): Promise<readonly FileChange[]>;
  run(input: never, context: ToolContext): Promise<string | ToolOutput>;
}

export type ToolPreviewContext = Pick<ToolContext, "cwd" | "files" | "signal">;

/** What a call came to: the text that the model reads, and what people see beside it. */
export interface ToolOutput {
  readonly text: string;
  readonly changes?: readonly FileChange[];
  readonly todos?: readonly Todo[];
  /** Of a command that ran to its end. */
  readonly exit?: CommandExit;
  /** Why a command that ran did not do what it was called for. */
  readonly code?: "command_failed" | "timed_out";
}

export interface ToolContext {
  readonly callId: string;
  readonly runId: string;
  readonly sessionId: string;
  /** Whose session it is. */
  readonly owner: string;
  /** `provider:model` that called. */
  readonly model: string;
  /** Absolute path; relative paths in the input resolve against it. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** Live output for people; may be called often, is merged and capped downstream. */
  progress(text: string): void;
  /** Asks people, who see the question inside this call. */
  readonly questions: Questions;
  /** The variables of the home that commands of this session see. */
  readonly variables: SessionVariables;
  /** Asks a model once, without tools; what it uses counts to the run. Throws ToolError when it fails. */
  complete(prompt: Completion): Promise<string>;
  /** Gives tasks to sub-agents of this run; resolves when all have ended. Throws ToolError beyond the limits. */
  delegate(tasks: readonly SubagentTask[]): Promise<readonly SubagentResult[]>;
  readonly todos: TodoList;
  /** The session's files as an editor has them; absent: they are on the disk alone. */
  readonly files?: FileAccess;
}

/**
 * Files as the program has them in which people edit them: what it shows may not be saved yet. Paths are absolute, with
 * links followed. All of it is bounded in time and size.
 */
export interface FileAccess {
  /** The text as it is being edited; undefined where the program cannot tell, and the disk is right. Never rejects. */
  read(path: string, signal: AbortSignal): Promise<string | undefined>;
  /** Whether the program writes this file; it is not for the disk then, whatever comes of it. */
  writes(path: string): boolean;
  /** Writes the text and saves it. Throws ToolError when that failed. */
  write(path: string, text: string, signal: AbortSignal): Promise<void>;
}

/** The plan of a session. */
export interface TodoList {
  read(): Promise<readonly Todo[]>;
  write(todos: readonly Todo[]): Promise<void>;
}

/** What a sub-agent is to do; it knows nothing else of the conversation. */
export interface SubagentTask {
  readonly goal: string;
  readonly context?: string;
  /** Narrows the tools of the run that delegates. */
  readonly toolsets?: readonly string[];
  /** `model` or `provider:model`. */
  readonly model?: string;
}

export interface SubagentResult {
  readonly subagentId: string;
  readonly status: "completed" | "failed" | "cancelled" | "interrupted";
  /** Its answer, or why it has none. */
  readonly text: string;
  readonly durationSeconds: number;
}

/** What a tool may ask people. Each waits for its answer, and ends with the call. */
export interface Questions {
  /** Answers by the id of their question; "" for one that was skipped. Throws ToolError when nobody can or does answer. */
  clarify(questions: readonly ClarifyQuestion[]): Promise<Readonly<Record<string, string>>>;
  /** A password for `command`, undefined when there is none. It MUST go to that command alone and be kept nowhere. */
  sudo(command: string): Promise<string | undefined>;
  /** Asks for a variable and stores it in the home; the value itself is told to nobody. */
  secret(wanted: { readonly prompt: string; readonly envVar: string }): Promise<"stored" | "skipped">;
}

/** Secrets are kept from commands; these are the ones that this session's commands get all the same. */
export interface SessionVariables {
  /** Whether the variable is set, in the environment or the home. */
  has(name: string): boolean;
  /** From now on commands of this session see the variable. */
  share(name: string): void;
  /** What is shared and set. */
  shared(): Readonly<Record<string, string>>;
}

export interface Completion {
  readonly instructions: string;
  readonly messages: readonly Message[];
  /** `model` or `provider:model`; absent: the run's own. */
  readonly model?: string;
}

/** What a call is about to do, in terms that policy and people understand. */
export interface ToolIntent {
  readonly kind: "command" | "file" | "network" | "tool";
  /** One line for people, such as `Run: ls -la`. */
  readonly title: string;
  readonly command?: string;
  /** What runs for `command`, and the absolute folder it begins in; absent: the command itself, in the workspace. */
  readonly script?: { readonly text: string; readonly folder: string };
  readonly reads?: readonly string[];
  readonly writes?: readonly string[];
  /** For kind network: every host that it reads from, and only reads. Absent or empty: not known, which asks. */
  readonly hosts?: readonly string[];
  /** For kind tool: what leave that is kept covers, where the tool's name may come to mean another tool. */
  readonly identity?: string;
  /**
   * For kind tool: `none` when it does nothing beyond the conversation and what the agent itself keeps (plans,
   * questions, skills; sub-agents and processes too, as what they do was or will be judged by itself); `own` when it
   * ends what the agent itself began. Absent is unknown, which asks.
   */
  readonly effect?: "none" | "own" | "unknown";
}

/** A failure the model should read and can act on. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly code: ToolEndCode;

  constructor(message: string, { code = "failed" }: { readonly code?: ToolEndCode } = {}) {
    super(message);
    this.code = code;
  }
}

/** Declares a tool with its input type; the schema in `parameters` is what holds the model to that type. */
export function defineTool<Input>(tool: {
  readonly name: string;
  readonly toolset: string;
  readonly kind?: ToolKind;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  inspect(input: Input, context: { readonly cwd: string }): ToolIntent;
  preview?(input: Input, context: ToolPreviewContext): Promise<readonly FileChange[]>;
  run(input: Input, context: ToolContext): Promise<string | ToolOutput>;
}): Tool {
  return tool as unknown as Tool;
}

/** Texts of all files of a call together: an event is stored, and sent to everybody who follows. */
const MAX_TEXTS_CHARACTERS = 1_048_576;

/** What a call changes in files as people see it, redacted. Files for whose texts there is no room have their diff. */
export function shownChanges(changes: readonly FileChange[]): FileChange[] {
  let left = MAX_TEXTS_CHARACTERS;
  const bounded = changes.map((change) => {
    const { old_text: before, new_text: after, ...others } = change;
    left -= (before?.length ?? 0) + (after?.length ?? 0);
    if (left >= 0) return change;
    return { ...others, size: Math.max(Buffer.byteLength(before ?? ""), Buffer.byteLength(after ?? "")) };
  });
  return redactValue(bounded) as FileChange[];
}

/** Diffs of all files of a question together: it is stored, and sent to everybody who may answer. */
const MAX_DIFF_CHARACTERS = 65_536;

/** Returns the changes without the texts of the files; null texts of new and deleted files stay. */
export function diffsOf(changes: readonly FileChange[]): FileChange[] {
  let left = MAX_DIFF_CHARACTERS;
  return changes.map(({ path, old_text: before, new_text: after, diff, omitted, size }) => {
    left -= diff.length;
    return {
      path,
      ...(before === null ? { old_text: null } : {}),
      ...(after === null ? { new_text: null } : {}),
      ...(left < 0 ? { diff: "", omitted: "large" as const } : { diff, ...(omitted ? { omitted } : {}) }),
      ...(size === undefined ? {} : { size }),
    };
  });
}
