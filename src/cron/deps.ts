import type { AgentDeps } from "../agent/deps.ts";
import type { Skills } from "../agent/skills/skills.ts";
import type { RunScheduler } from "../agent/run/scheduler.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Homes } from "../deliver/address.ts";
import type { Store } from "../store/store.ts";
import type { CronMetrics } from "./metrics.ts";
import type { RunEnds } from "./run/run-ends.ts";
import type { CronSettings } from "./settings.ts";

/** What the scheduler is built from. */
export interface CronDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly runs: Pick<RunScheduler, "submit" | "draining">;
  readonly models: AgentDeps["models"];
  /** Names of models that take over while the chosen one cannot be reached. */
  readonly fallbacks?: readonly string[];
  readonly skills: Pick<Skills, "find">;
  readonly settings: CronSettings;
  /** Home channels of the platforms. */
  readonly homes: Homes;
  /** Names of the sets of tools that there are, those of servers and embedders included. */
  readonly toolsets: () => readonly string[];
  /** Where jobs work that have no folder of their own. */
  readonly workspace: string;
  /** `<home>/scripts`, absolute. */
  readonly scriptsFolder: string;
  /** `<home>/cron/output`, absolute. */
  readonly outputFolder: string;
  /** Names of variables that scripts get besides the usual. */
  readonly envPassthrough: readonly string[];
  /** Tells of the ends of occurrences whose runs end in this process. */
  readonly ends: RunEnds;
  /** Absent: metrics are off. */
  readonly metrics?: CronMetrics;
  /** Whose sessions the runs are in. */
  readonly owner: string;
}
