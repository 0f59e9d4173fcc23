import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Store } from "../store/store.ts";
import type { Questions } from "./question/questions.ts";
import type { BudgetLimits } from "./usage/budget.ts";
import type { Engine } from "./engine.ts";
import type { AgentTracing } from "./usage/span.ts";
import type { ModelCatalog } from "./model.ts";
import type { PolicyMode } from "./question/policy/policy.ts";
import type { Grants } from "./question/permission.ts";
import type { KeyLimits } from "./run/concurrency.ts";
import type { AttachedClients, VariableShares } from "./session/live-sessions.ts";
import type { RunTrigger } from "./notify/run-trigger.ts";
import type { QuestionTimeouts } from "./tool/scope.ts";
import type { Tool } from "./tool/tool.ts";

/** What the agent room is built from. */
export interface AgentDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly engine: Engine;
  readonly models: ModelCatalog;
  /** The tools there are now; those of servers come and go. */
  readonly tools: () => readonly Tool[];
  /** Resolves when tools that were still coming at start are there, or are not waited for any longer. */
  readonly toolsSettled: () => Promise<void>;
  /** Texts for the instructions of a turn in `cwd`: what its files say of it, which skills there are. */
  readonly briefing: (cwd: string) => Promise<readonly string[]>;
  /** What people should know before a turn, such as a server of tools that cannot be reached. */
  readonly notices: () => readonly string[];
  /** What programs lend to the sessions that they have open. */
  readonly clients: AttachedClients;
  readonly switches: Switches;
  readonly questions: Questions;
  readonly grants: Grants;
  readonly variables: VariableShares;
  /** Undefined when the input fits the tool's schema, else what does not. */
  readonly checkInput: (tool: Tool, input: unknown) => string | undefined;
  readonly settings: AgentSettings;
  /** Of the keys of the API. Absent: nobody comes by a key. */
  readonly keyLimits?: KeyLimits;
  /** Absent: runs are not traced. */
  readonly tracing?: AgentTracing;
  /** Told of each run that ended in this process, after its end is committed. For figures; it MUST NOT throw. */
  readonly runEnded?: (kind: string, status: string) => void;
  /** Of runs that a webhook or a scheduled job asked for. */
  readonly trigger?: RunTrigger;
}

/** What can be switched while the process runs, for all of its sessions. */
export interface Switches {
  /** True: no approvals at all. */
  yolo: boolean;
  /** What a prompt of a host to a busy session does; absent: as it is configured. */
  whenBusy?: BusyMode;
}

export interface AgentSettings {
  readonly instructions: string;
  /** Absolute path where tools work unless the session has its own. */
  readonly workspace: string;
  /** Further folders, absolute, that a session may work in whoever asks for it. */
  readonly workspaceRoots: readonly string[];
  /** The user's home and agentd's own home, for the policy. */
  readonly userHome: string;
  readonly agentHome: string;
  readonly maxSteps: number;
  /** 0: no limit. */
  readonly runTimeoutMs: number;
  readonly policyMode: PolicyMode;
  /** `approvals.allow`: the words with which commands begin that need no approval. */
  readonly allowedCommands: readonly string[];
  readonly questionTimeouts: QuestionTimeouts;
  readonly onApprovalTimeout: "deny" | "cancel";
  readonly whenBusy: BusyMode;
  /** Prompts that may wait in one session. */
  readonly maxQueuePerSession: number;
  /** Runs at work at once in this process, sub-agents not counted; 0: no limit. */
  readonly maxConcurrentRuns: number;
  readonly reasoningEffort: string | undefined;
  /** Names of models that take over while the chosen one cannot be reached. */
  readonly fallbacks: readonly string[];
  readonly budget: BudgetLimits;
  readonly compression: CompressionSettings;
  readonly delegation: DelegationSettings;
  readonly titles: "model" | "prompt" | "off";
}

export interface CompressionSettings {
  /** Share of the context at which a conversation is compressed by itself; undefined: never. */
  readonly threshold: number | undefined;
  /** Newest messages that stay as they are. */
  readonly keepMessages: number;
  /** Writes the summary; undefined: the session's model. */
  readonly model: string | undefined;
}

export interface DelegationSettings {
  readonly maxDepth: number;
  /** Sub-agents of one call at work at once. */
  readonly maxConcurrent: number;
  readonly maxTasks: number;
  readonly maxSteps: number;
  /** 0: no limit of its own. */
  readonly tokenBudget: number;
  readonly model: string | undefined;
}

/** What a prompt to a busy session does. interrupt: it stops the turn at work and runs next. */
export type BusyMode = "queue" | "reject" | "steer" | "interrupt";
