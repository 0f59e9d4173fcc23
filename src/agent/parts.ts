import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { Store } from "../store/store.ts";
import type { Asks } from "./ask.ts";
import type { Engine } from "./engine.ts";
import type { ModelCatalog } from "./model.ts";
import type { PolicyMode } from "./policy.ts";
import type { Grants } from "./grants.ts";
import type { QuestionTimeouts } from "./tool-scope.ts";
import type { Tool } from "./tool.ts";
import type { VariableShares } from "./session-variables.ts";

/** What the agent room is built from. */
export interface AgentParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly engine: Engine;
  readonly models: ModelCatalog;
  readonly tools: readonly Tool[];
  readonly asks: Asks;
  readonly grants: Grants;
  readonly variables: VariableShares;
  /** Undefined when the input fits the tool's schema, else what does not. */
  readonly checkInput: (tool: Tool, input: unknown) => string | undefined;
  readonly settings: AgentSettings;
}

export interface AgentSettings {
  readonly instructions: string;
  /** Absolute path where tools work unless the session has its own. */
  readonly workspace: string;
  /** The user's home and agentd's own home, for the policy. */
  readonly userHome: string;
  readonly agentHome: string;
  readonly maxSteps: number;
  /** 0: no limit. */
  readonly runTimeoutMs: number;
  readonly policyMode: PolicyMode;
  readonly questionTimeouts: QuestionTimeouts;
  readonly onApprovalTimeout: "deny" | "cancel";
  readonly whenBusy: BusyMode;
  /** Prompts that may wait in one session. */
  readonly maxQueuePerSession: number;
  /** Runs at work at once in this process; 0: no limit. */
  readonly maxConcurrentRuns: number;
}

/** What a prompt to a busy session does. interrupt: it stops the turn at work and runs next. */
export type BusyMode = "queue" | "reject" | "steer" | "interrupt";
