/** The check of scheduled jobs. Touches the machine. */
import { type AgentServices } from "../../agent/create.ts";
import { createSkills, createJobService } from "../../app/wire-agent.ts";
import { createLog, redact } from "../../base/observe.ts";
import { zoneProblem } from "../../base/suggest.ts";
import { resolvePaths } from "../../config/home.ts";
import type { JobDefinition } from "../../cron/job/job.ts";
import { Jobs, type BrokenJob } from "../../cron/job/jobs.ts";
import type { PreflightDeps } from "../../cron/deps.ts";
import { readCronStatus, type CronStatus } from "../../cron/tick/status.ts";
import { platformsOf } from "../../deliver/address.ts";
import { systemClock } from "../../base/time.ts";
import { openModels } from "../../app/models.ts";
import type { LoadedConfig } from "../../config/config.ts";
import type { Store } from "../../store/store.ts";
import type { CliContext } from "../kit/context.ts";
import type { CheckResult } from "./finding.ts";
import { statuses } from "../../deliver/platform/status.ts";
import { findDatabase, withDatabase } from "../kit/database.ts";

/** What jobs need besides the store. */
interface JobNeeds {
  readonly deps: PreflightDeps;
  readonly skills: Pick<AgentServices["skills"], "find">;
  /** The working folder of jobs without their own. */
  readonly workspace: string;
  /** Platforms that are not ready. */
  readonly silentPlatforms: readonly string[];
  readonly isEnabled: boolean;
  readonly nowMs: number;
}

const MAX_CHECKED = 1_000;

export async function cron(loaded: LoadedConfig, context: CliContext): Promise<CheckResult> {
  const found = await findDatabase(context);
  let result: CheckResult = NO_JOBS;
  if (!found.exists) return result;
  await withDatabase(found, async (store) => {
    result = await checkJobs(store, await needsOf(loaded, context, store));
  });
  return result;
}

const NO_JOBS: CheckResult = { status: "ok", detail: "no jobs; create one with `agentd cron create`" };

/** Returns the most severe problem. */
export async function checkJobs(store: Store, needs: JobNeeds): Promise<CheckResult> {
  const jobs = new Jobs(store, { maxJobs: 0 });
  const [status, { jobs: all, broken }] = await Promise.all([readCronStatus(store, needs), jobs.list()]);
  if (status.jobs.all === 0) return NO_JOBS;
  const problems: string[] = [];
  for (const { id, definition, state } of all.slice(0, MAX_CHECKED)) {
    const problem = state === "paused" ? undefined : await findProblem(jobs, definition, needs);
    if (problem !== undefined) problems.push(`${redact(definition.name)} (${id}): ${redact(problem)}`);
  }
  return (
    brokenRows(broken) ??
    notTicking(status, needs) ??
    firstProblem(problems) ??
    late(status) ??
    clockAhead(status) ??
    summary(status)
  );
}

function brokenRows(broken: readonly BrokenJob[]): CheckResult | undefined {
  const [first] = broken;
  if (!first) return undefined;
  const detail = `the job ${redact(first.name)} (${first.id}) cannot be read${more(broken)}`;
  return {
    status: "fail",
    detail,
    fix: `Remove it with \`agentd cron remove ${first.id}\` and create it again.`,
  };
}

function notTicking({ state, jobs }: CronStatus, { isEnabled }: JobNeeds): CheckResult | undefined {
  const count = jobs.scheduled + jobs.error;
  if (state === "ticking" || count === 0) return undefined;
  const detail =
    state === "none"
      ? `no gateway is running, and ${count === 1 ? "one job is" : `${count} jobs are`} scheduled`
      : "the scheduler has stalled, so no job runs";
  const fix = isEnabled
    ? "Start `agentd gateway`. Its log says why a scheduler stalls."
    : "Set cron.enabled to true and start `agentd gateway`.";
  return { status: "warn", detail, fix };
}

function firstProblem(problems: readonly string[]): CheckResult | undefined {
  const [first] = problems;
  if (first === undefined) return undefined;
  const fix = "Provide what is missing, or change the job with `agentd cron edit`.";
  return { status: "warn", detail: first + more(problems), fix };
}

function late({ late: { count, named } }: CronStatus): CheckResult | undefined {
  const [first] = named;
  if (!first) return undefined;
  const detail = `${count === 1 ? "a job is" : `${count} jobs are`} late, first ${redact(first.name)} (${first.id})`;
  return {
    status: "warn",
    detail,
    fix: "See `agentd cron status`. cron.max_parallel_jobs may be too small.",
  };
}

function clockAhead({ corrected }: CronStatus): CheckResult | undefined {
  if (corrected === undefined) return undefined;
  const { atMs, count } = corrected;
  const jobs = count === 1 ? "a job was" : `${count} jobs were`;
  const detail = `the clock was ahead: ${jobs} scheduled too late, corrected at ${new Date(atMs).toISOString()}`;
  return { status: "warn", detail, fix: "Synchronize the clock of this machine with a time service." };
}

function summary({ jobs, failures, state }: CronStatus): CheckResult {
  const failed = failures.count === 0 ? "" : `, ${failures.count} failed in their last run`;
  const runs = state === "ticking" ? "; the scheduler is running" : "";
  return { status: "ok", detail: `${jobs.all} job${jobs.all === 1 ? "" : "s"}${failed}${runs}` };
}

async function findProblem(
  jobs: Jobs,
  definition: JobDefinition,
  needs: JobNeeds,
): Promise<string | undefined> {
  const { zone, skills, workdir, deliver, failureDeliver = "" } = definition;
  const problem = zoneProblem(zone) ?? (await jobs.findBlock(definition, needs.deps));
  if (problem !== undefined) return problem;
  for (const name of skills) {
    if (!(await needs.skills.find(name, workdir ?? needs.workspace)))
      return `The skill ${JSON.stringify(name)} does not exist.`;
  }
  const silent = platformsOf(`${deliver},${failureDeliver}`).find((name) =>
    needs.silentPlatforms.includes(name),
  );
  return silent === undefined ? undefined : `Its target ${silent} is not set up.`;
}

async function needsOf(loaded: LoadedConfig, context: CliContext, store: Store): Promise<JobNeeds> {
  const { config, env } = loaded;
  const { home, userHome } = context;
  const paths = resolvePaths({ config, env, home, userHome });
  const silent = createLog("error", () => {});
  const { catalog: models } = await openModels(config, env, silent);
  const service = createJobService({ config, paths }, { store, clock: systemClock, models, tools: () => [] });
  const platforms = await statuses(config, env);
  return {
    deps: {
      ...service,
      fallbacks: config.model.fallbacks,
      toolsets: { configured: config.agent.toolsets, tools: () => [] },
    },
    skills: createSkills(config, paths),
    workspace: paths.workspace,
    silentPlatforms: platforms.filter(({ status }) => status !== "ready").map(({ name }) => name),
    isEnabled: config.cron.enabled,
    nowMs: Date.now(),
  };
}

function more(all: readonly unknown[]): string {
  return all.length > 1 ? ` (and ${all.length - 1} more)` : "";
}
