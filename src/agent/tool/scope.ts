import type { RunToolCall, FileChange } from "../../../generated/http/client/types.gen.ts";
import type { Clock } from "../../base/time.ts";
import { type Log, type Span, redactValue } from "../../base/observe.ts";
import type { NewEvent } from "../../store/journal/journal.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import type { Grants } from "../question/grants.ts";
import type { PolicyContext } from "../question/policy/policy.ts";
import type { Questions, QuestionSubject } from "../question/questions.ts";
import type {
  FileAccess,
  SessionVariables,
  SubagentResult,
  SubagentTask,
  TodoList,
  Tool,
  ToolContext,
} from "./tool.ts";

/** Dependencies and state of a run's tool calls. */
export interface ToolCallScope {
  readonly runId: string;
  readonly sessionId: string;
  /** `provider:model` of the run. */
  readonly model: string;
  /** Who is asked, and whose remembered approvals apply: the run itself, or the run at the top of its family. */
  readonly subject: QuestionSubject;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly cwd: string;
  /** Reads the current policy: people switch modes and approvals while a run works. */
  readonly policy: () => Promise<PolicyContext>;
  readonly answerable: boolean;
  /** True when the run can ask for approvals only. */
  readonly onlyApprovals: boolean;
  /** The open question of this call, when its run was resumed. */
  readonly prior?: QuestionRow;
  readonly clientTools: ReadonlySet<string>;
  /** Takes a call that the client must answer. */
  readonly request: (call: RunToolCall) => void;
  readonly timeouts: QuestionTimeouts;
  /** `deny` refuses the call when no answer arrives in time; `cancel` stops the whole run. */
  readonly onTimeout: "deny" | "cancel";
  readonly grants: Grants;
  readonly variables: SessionVariables;
  readonly questions: Questions;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly checkInput: (tool: Tool, input: unknown) => string | undefined;
  readonly complete: ToolContext["complete"];
  /** Runs sub-agents as part of the trace `traceparent`. */
  readonly delegate: (
    callId: string,
    tasks: readonly SubagentTask[],
    traceparent?: string,
  ) => Promise<readonly SubagentResult[]>;
  readonly todos: TodoList;
  readonly chooseMode: ToolContext["chooseMode"];
  readonly files: FileAccess | undefined;
  readonly order: CallOrder;
  readonly record: (event: NewEvent) => void;
  /** Reports activity of the call, even when nothing is recorded. */
  readonly keepAlive: () => void;
  /** Resolves when the journal holds everything recorded so far, so that dependent rows may be written. */
  readonly recorded: () => Promise<void>;
  /** Called before a tool runs. Resolves when the journal holds the call, for processes that rely on it. */
  readonly beforeRun: () => Promise<void>;
  /** The run's span, then the span of the current call. */
  readonly span: Span;
  readonly stopRun: (reason: string) => void;
  /** Ends the turn when the calls of this step are answered: no further model call is made. */
  readonly endTurn?: () => void;
}

/** How long questions wait; 0 means without limit. */
export interface QuestionTimeouts {
  readonly approvalMs: number;
  readonly clarifyMs: number;
  readonly passwordMs: number;
}

/** The position of one call among calls that were made together. */
export interface CallPosition {
  /** Resolves when every earlier call has released its position. */
  readonly reached: Promise<void>;
  /** Idempotent. */
  release(): void;
}

/** Reports calls that a model makes together in the model's order, however long each inspection takes. */
export class CallOrder {
  #last: Promise<void> = Promise.resolve();

  next(): CallPosition {
    const { promise: released, resolve } = Promise.withResolvers<void>();
    const reached = this.#last;
    this.#last = reached.then(() => released);
    return { reached, release: resolve };
  }
}

/** Limit of the texts of all files of a call: the event is stored and sent to every client. */
const MAX_TEXTS_CHARACTERS = 1_048_576;

/** Returns a call's file changes for people, redacted. Files beyond the limit keep their diff but not their texts. */
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

/** Limit of the diffs of all files of a question: it is stored and sent to every client. */
const MAX_DIFF_CHARACTERS = 65_536;

/** Returns the changes without the files' texts. Null texts, which mark new and deleted files, stay. */
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
