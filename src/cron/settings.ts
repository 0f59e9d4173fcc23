import type { Config } from "../../generated/config/types.gen.ts";
import { machineZone } from "../base/zone.ts";

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
    zone: timezone ?? machineZone(),
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
