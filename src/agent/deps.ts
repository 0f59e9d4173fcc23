import type { Clock } from "../base/time.ts";
import type { Log } from "../base/observe.ts";
import type { Store } from "../store/store.ts";
import type { Questions } from "./question/questions.ts";
import type { BudgetLimits, KeyLimits } from "./usage/budgets.ts";
import type { Prices, ModelCatalog } from "./model.ts";
import type { AgentTracing } from "./usage/spans.ts";
import type { Engine } from "./engine.ts";
import type { Tool } from "./tool/tool.ts";
import type { Usage } from "./usage/usage.ts";
import type { PolicyMode } from "./question/policy/policy.ts";
import type { Grants } from "./question/grants.ts";
import type { AttachedClients, VariableShares } from "./session/session.ts";
import type { RunTrigger, BusyMode } from "./run/run.ts";
import type { QuestionTimeouts } from "./tool/scope.ts";

/** The dependencies of the agent. */
export interface AgentDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly engine: Engine;
  readonly models: ModelCatalog;
  /** Returns the current tools; those of MCP servers change. */
  readonly tools: () => readonly Tool[];
  /** Resolves when the tools pending at start are ready, or have timed out. */
  readonly toolsSettled: () => Promise<void>;
  /** Returns texts for the instructions of a turn in `cwd`: its context files and the available skills. */
  readonly briefing: (cwd: string) => Promise<readonly string[]>;
  /** Returns notices for people before a turn, such as an MCP server that cannot be reached. */
  readonly notices: () => readonly string[];
  /** Resources that clients attach to the sessions they have open. */
  readonly clients: AttachedClients;
  readonly switches: Switches;
  readonly questions: Questions;
  readonly grants: Grants;
  readonly variables: VariableShares;
  /** Returns how the input violates the tool's schema; undefined when it fits. */
  readonly checkInput: (tool: Tool, input: unknown) => string | undefined;
  readonly settings: AgentSettings;
  readonly prices: Prices;
  /** Limits of the API keys. Absent: no keys are limited. */
  readonly keyLimits?: KeyLimits;
  /** Absent: runs are not traced. */
  readonly tracing?: AgentTracing;
  /** Called for each run that ended in this process, after the commit. For metrics; it MUST NOT throw. */
  readonly runEnded?: (end: {
    readonly kind: string;
    readonly status: string;
    /** `provider:model` of the run. */
    readonly model: string;
    /** Undefined: it used nothing. */
    readonly usage: Usage | undefined;
  }) => void;
  /** The trigger of runs from webhooks and scheduled jobs. */
  readonly trigger?: RunTrigger;
}

/** Switches for all sessions, which may change while the process runs. */
export interface Switches {
  /** True: no approvals at all. */
  yolo: boolean;
  /** What a host's prompt to a busy session does; absent: the configured mode. */
  whenBusy?: BusyMode;
}

export interface AgentSettings {
  readonly instructions: string;
  /** Absolute path where tools work unless the session has its own. */
  readonly workspace: string;
  /** Further absolute folders that any client may choose for a session. */
  readonly workspaceRoots: readonly string[];
  /** The user's home and agentd's own home, for the policy. */
  readonly userHome: string;
  readonly agentHome: string;
  readonly maxSteps: number;
  /** 0: no limit. */
  readonly runTimeoutMs: number;
  readonly policyMode: PolicyMode;
  /** Commands run in a sandbox of the operating system. Default false. */
  readonly isSandboxed?: boolean;
  /** `approvals.allow`: prefixes of commands that require no approval. */
  readonly allowedCommands: readonly string[];
  readonly questionTimeouts: QuestionTimeouts;
  readonly onApprovalTimeout: "deny" | "cancel";
  readonly whenBusy: BusyMode;
  /** Prompts that may wait in one session. */
  readonly maxQueuePerSession: number;
  /** Most concurrent runs in this process, without sub-agents; 0: no limit. */
  readonly maxConcurrentRuns: number;
  readonly reasoningEffort: string | undefined;
  /** Fallback models, by name, for when the chosen one cannot be reached. */
  readonly fallbacks: readonly string[];
  readonly budget: BudgetLimits;
  readonly compression: CompressionSettings;
  readonly delegation: DelegationSettings;
  readonly titles: "model" | "prompt" | "off";
}

export interface CompressionSettings {
  /** Share of the context that triggers automatic compression; undefined: never. */
  readonly threshold: number | undefined;
  /** Number of newest messages that compression keeps. */
  readonly keepMessages: number;
  /** Model that writes the summary; undefined: the session's model. */
  readonly model: string | undefined;
}

export interface DelegationSettings {
  readonly maxDepth: number;
  /** Most concurrent sub-agents of one call. */
  readonly maxConcurrent: number;
  readonly maxTasks: number;
  readonly maxSteps: number;
  /** 0: no limit of its own. */
  readonly tokenBudget: number;
  readonly model: string | undefined;
}
