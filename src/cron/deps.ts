import { type AgentServices } from "../agent/create.ts";
import type { Agent } from "../agent/agent.ts";
import type { Clock } from "../base/time.ts";
import type { Log } from "../base/observe.ts";
import type { Homes } from "../deliver/address.ts";
import type { Store } from "../store/store.ts";

import type { Config } from "../../generated/config/types.gen.ts";
import { machineZone } from "../base/suggest.ts";

/** The toolsets of the agent. */
export interface OfferedToolsets {
  /** Configured toolsets count while their servers are still starting, or have no tools yet. */
  readonly configured: readonly string[];
  /** Includes the tools of MCP servers and embedders. */
  readonly tools: () => readonly { readonly toolset: string }[];
}

/** Dependencies of the scheduler. */
export interface CronDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly runs: Pick<Agent["runs"], "submit" | "draining">;
  readonly models: Agent["deps"]["models"];
  /** Names of the models that replace one that cannot be reached. */
  readonly fallbacks?: readonly string[];
  readonly skills: Pick<AgentServices["skills"], "find" | "load">;
  readonly settings: CronSettings;
  /** Home channels of the platforms. */
  readonly homes: Homes;
  readonly toolsets: OfferedToolsets;
  /** Working directory of jobs that name none. */
  readonly workspace: string;
  /** `<home>/scripts`, absolute. */
  readonly scriptsFolder: string;
  /** `<home>/cron/output`, absolute. */
  readonly outputFolder: string;
  /** Names of extra environment variables that scripts get. */
  readonly envPassthrough: readonly string[];
  readonly ends: OccurrenceEnds;
  /** Absent when metrics are off. */
  readonly metrics?: CronMetrics;
}

/** What the check of a job needs. */
export type PreflightDeps = Pick<
  CronDeps,
  "models" | "fallbacks" | "scriptsFolder" | "settings" | "toolsets"
>;

/** Lets the scheduler of a process wait for the ends of occurrences. */
export interface OccurrenceEnds {
  /** Resolves when the occurrence has ended, in this process or in another one. */
  wait(occurrenceId: string): Promise<void>;
  resolve(occurrenceId: string): void;
}

/** Counters of the scheduler. */
export interface CronMetrics {
  /** A run started in this process `seconds` after it was due. */
  began(seconds: number): void;
  /** An occurrence that started in this process ended. */
  ended(status: string): void;
}

/** The configuration of cron, with the names and units of this module. */
export interface CronSettings {
  readonly isEnabled: boolean;
  /** IANA time zone of jobs that name none. */
  readonly zone: string;
  readonly maxParallelJobs: number;
  readonly maxJobs: number;
  readonly catchUpMissed: boolean;
  readonly wrapResponse: boolean;
  readonly silentMatch: "contains" | "line";
  readonly allowAgentScheduling: boolean;
  /** Undefined: the toolsets of the agent. */
  readonly toolsets: readonly string[] | undefined;
  /** 0 turns the limit off. */
  readonly inactivityMs: number;
  readonly scriptTimeoutMs: number;
  readonly runTokenBudget: number | undefined;
  readonly keepOutputs: number;
}

export function cronSettings({ cron, timezone }: Pick<Config, "cron" | "timezone">): CronSettings {
  return {
    isEnabled: cron.enabled,
    // On demand: the first use of Intl costs more than ten milliseconds, which would slow every start.
    get zone() {
      return timezone ?? machineZone();
    },
    maxParallelJobs: cron.max_parallel_jobs,
    maxJobs: cron.max_jobs,
    catchUpMissed: cron.catch_up_missed,
    wrapResponse: cron.wrap_response,
    silentMatch: cron.silent_match,
    allowAgentScheduling: cron.allow_agent_scheduling,
    toolsets: cron.toolsets,
    inactivityMs: cron.inactivity_seconds * 1000,
    scriptTimeoutMs: cron.script_timeout_seconds * 1000,
    runTokenBudget: cron.run_token_budget,
    keepOutputs: cron.keep_outputs,
  };
}

/** Dependencies for creating and changing jobs, in any process. */
export type JobService = Pick<
  CronDeps,
  "store" | "clock" | "settings" | "models" | "toolsets" | "workspace" | "scriptsFolder" | "outputFolder"
> & {
  /** More absolute folders that the agent may choose as the working directory of a job. */
  readonly workspaceRoots?: readonly string[];
};

/** What the HTTP API needs besides, to check jobs as the scheduler will. */
export type JobApi = JobService &
  Pick<CronDeps, "fallbacks"> & {
    readonly skills: Pick<AgentServices["skills"], "list">;
    /** Folder of the home's skills, absolute. */
    readonly skillsFolder: string;
    /** Returns why platforms cannot send, a clause for each that is not ready. */
    readonly targetProblems: (names: readonly string[]) => Promise<readonly string[]>;
  };
