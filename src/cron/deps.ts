import type { AgentDeps } from "../agent/deps.ts";
import type { Skills } from "../agent/skills/skills.ts";
import type { RunScheduler } from "../agent/run/scheduler.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Homes } from "../deliver/address.ts";
import type { Store } from "../store/store.ts";
import type { RunEnds } from "./run/trigger.ts";
import type { CronSettings } from "./settings.ts";

/** Dependencies of the scheduler. */
export interface CronDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly runs: Pick<RunScheduler, "submit" | "draining">;
  readonly models: AgentDeps["models"];
  /** Names of the models that replace one that cannot be reached. */
  readonly fallbacks?: readonly string[];
  readonly skills: Pick<Skills, "find">;
  readonly settings: CronSettings;
  /** Home channels of the platforms. */
  readonly homes: Homes;
  /** Returns the names of all toolsets, including those of MCP servers and embedders. */
  readonly toolsets: () => readonly string[];
  /** Working directory of jobs that name none. */
  readonly workspace: string;
  /** `<home>/scripts`, absolute. */
  readonly scriptsFolder: string;
  /** `<home>/cron/output`, absolute. */
  readonly outputFolder: string;
  /** Names of extra environment variables that scripts get. */
  readonly envPassthrough: readonly string[];
  readonly ends: RunEnds;
  /** Absent when metrics are off. */
  readonly metrics?: CronMetrics;
  /** Owner of the sessions of the runs. */
  readonly owner: string;
}

/** Counters of the scheduler. */
export interface CronMetrics {
  /** A run started in this process `seconds` after it was due. */
  began(seconds: number): void;
  /** An occurrence that started in this process ended. */
  ended(status: string): void;
}
