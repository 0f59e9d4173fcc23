import type { RunToolCall } from "../../../generated/http/client/types.gen.ts";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import type { Span } from "../../base/observe/trace.ts";
import type { NewEvent } from "../../store/journal/journal.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import type { Questions, QuestionSubject } from "../question/questions.ts";
import type { CallOrder } from "./call-order.ts";
import type { Grants } from "../question/grants.ts";
import type { PolicyContext } from "../question/policy/policy.ts";
import type {
  FileAccess,
  SessionVariables,
  SubagentResult,
  SubagentTask,
  TodoList,
  Tool,
  ToolContext,
} from "./tool.ts";

/** What the tool calls of a run work with. */
export interface ToolCallScope {
  /** The run that calls. */
  readonly runId: string;
  readonly sessionId: string;
  /** `provider:model` of the run. */
  readonly model: string;
  /** Whose people are asked, and whose remembered approvals count: the run itself, or the top of its family. */
  readonly subject: QuestionSubject;
  readonly tools: ReadonlyMap<string, Tool>;
  readonly cwd: string;
  /** Reads the policy as it is now: people switch modes and approvals while a turn runs. */
  readonly policy: () => Promise<PolicyContext>;
  readonly answerable: boolean;
  /** Nobody can answer other questions than approvals. */
  readonly onlyApprovals: boolean;
  /** The question that the call waits for already, when its run was resumed. */
  readonly prior?: QuestionRow;
  /** Tools that the client runs. */
  readonly clientTools: ReadonlySet<string>;
  /** Takes a call that the client is to make. */
  readonly request: (call: RunToolCall) => void;
  readonly timeouts: QuestionTimeouts;
  /** `deny` refuses the call when nobody answers in time, `cancel` stops the whole run. */
  readonly onTimeout: "deny" | "cancel";
  readonly grants: Grants;
  readonly variables: SessionVariables;
  readonly questions: Questions;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly checkInput: (tool: Tool, input: unknown) => string | undefined;
  readonly complete: ToolContext["complete"];
  /** The sub-agents' runs become part of the trace that `traceparent` tells. */
  readonly delegate: (
    callId: string,
    tasks: readonly SubagentTask[],
    traceparent?: string,
  ) => Promise<readonly SubagentResult[]>;
  readonly todos: TodoList;
  readonly files: FileAccess | undefined;
  /** Of the calls of the run. */
  readonly order: CallOrder;
  readonly record: (event: NewEvent) => void;
  /** The call did something, be it nothing that is recorded. */
  readonly sign: () => void;
  /** Resolves when what was recorded so far is in the journal: what is written beside it may come next. */
  readonly recorded: () => Promise<void>;
  /** Called before a tool begins. Resolves when the journal holds its call, where another process goes by that. */
  readonly begins: () => Promise<void>;
  /** The run, then the call that is at work. */
  readonly span: Span;
  readonly stopRun: (reason: string) => void;
}

/** How long questions wait; 0 is without end. */
export interface QuestionTimeouts {
  readonly approvalMs: number;
  readonly clarifyMs: number;
  readonly passwordMs: number;
}
