/** What the agent of a job may use. Pure. */
import type { JobDefinition } from "../job/job.ts";
import type { CronSettings } from "../settings.ts";

/** The tools that make and change jobs. */
const SCHEDULING = "cron";
/** Nobody is there to answer. */
const ASKING = "clarify";

type OfJob = Pick<JobDefinition, "toolsets">;
type Rules = Pick<CronSettings, "toolsets" | "allowAgentScheduling">;

/** Those of the job, else those of all jobs, else all; never those that ask, and no scheduling unless it is allowed. */
export function jobToolsets(job: OfJob, rules: Rules, offered: readonly string[]): readonly string[] {
  const wanted = job.toolsets ?? rules.toolsets ?? offered;
  return wanted.filter((name) => name !== ASKING && (name !== SCHEDULING || rules.allowAgentScheduling));
}

/** Names that stand for nothing here. */
export function unknownToolsets(
  job: OfJob,
  { toolsets }: Pick<Rules, "toolsets">,
  offered: readonly string[],
): readonly string[] {
  return (job.toolsets ?? toolsets ?? []).filter((name) => !offered.includes(name));
}
