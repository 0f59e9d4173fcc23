/** What `agentd doctor` says of scheduled jobs. Touches the machine. */
import { createSkills, createJobService } from "../../app/wire-agent.ts";
import type { Skills } from "../../agent/skills/skills.ts";
import { createLog } from "../../base/observe/log.ts";
import { redact } from "../../base/observe/redact.ts";
import { zoneProblem } from "../../base/zone.ts";
import { resolvePaths } from "../../config/paths.ts";
import type { JobDefinition } from "../../cron/job/job.ts";
import { Jobs, type BrokenJob } from "../../cron/job/jobs.ts";
import { findBlock, type PreflightDeps } from "../../cron/run/preflight.ts";
import { readCronStatus, type CronStatus } from "../../cron/tick/status.ts";
import { platformsOf } from "../../deliver/address.ts";
import { systemClock } from "../../base/clock.ts";
import { createCatalog, findProviders } from "../../app/models.ts";
import type { LoadedConfig } from "../../config/config.ts";
import type { Store } from "../../store/store.ts";
import type { CliContext } from "../kit/context.ts";
import type { Verdict } from "./finding.ts";
import { statuses } from "../platforms/status.ts";
import { findDatabase, withDatabase } from "../kit/database.ts";

/** What jobs need besides the store. */
export interface JobNeeds {
  readonly deps: PreflightDeps;
  readonly skills: Pick<Skills, "find">;
  /** Where jobs work that have no folder of their own. */
  readonly workspace: string;
  /** Names of platforms that messages cannot go out to as things stand. */
  readonly silentPlatforms: readonly string[];
  readonly isEnabled: boolean;
  readonly nowMs: number;
}

const MAX_CHECKED = 1_000;

export async function cron(loaded: LoadedConfig, context: CliContext): Promise<Verdict> {
  const found = await findDatabase();
  let verdict: Verdict = NO_JOBS;
  if (!found.exists) return verdict;
  await withDatabase(found, async (store) => {
    verdict = await cronVerdict(store, await needsOf(loaded, context, store));
  });
  return verdict;
}

const NO_JOBS: Verdict = { status: "ok", detail: "no jobs; `agentd cron create` makes one" };

/** The first of what is wrong, the worst before the rest. */
export async function cronVerdict(store: Store, needs: JobNeeds): Promise<Verdict> {
  const [status, { jobs, broken }] = await Promise.all([
    readCronStatus(store, needs),
    new Jobs(store, { maxJobs: 0 }).list(),
  ]);
  if (status.jobs.all === 0) return NO_JOBS;
  const problems: string[] = [];
  for (const { id, definition, state } of jobs.slice(0, MAX_CHECKED)) {
    const problem = state === "paused" ? undefined : await findProblem(definition, needs);
    if (problem !== undefined) problems.push(`${redact(definition.name)} (${id}): ${redact(problem)}`);
  }
  return (
    brokenRows(broken) ??
    stillness(status, needs) ??
    complaint(problems) ??
    late(status) ??
    clockAhead(status) ??
    standing(status)
  );
}

function brokenRows(broken: readonly BrokenJob[]): Verdict | undefined {
  const [first] = broken;
  if (!first) return undefined;
  const detail = `the job ${redact(first.name)} (${first.id}) cannot be read${more(broken)}`;
  return {
    status: "fail",
    detail,
    fix: `Remove it with \`agentd cron remove ${first.id}\`, and make it anew.`,
  };
}

function stillness({ state, jobs }: CronStatus, { isEnabled }: JobNeeds): Verdict | undefined {
  const count = jobs.scheduled + jobs.error;
  if (state === "ticking" || count === 0) return undefined;
  const detail =
    state === "none"
      ? `no gateway looks for jobs, and ${count === 1 ? "one is" : `${count} are`} scheduled`
      : "the scheduler has stalled: no job runs";
  const fix = isEnabled
    ? "Start `agentd gateway`; its log says why a scheduler stalls."
    : "Set cron.enabled to true, and start `agentd gateway`.";
  return { status: "warn", detail, fix };
}

function complaint(problems: readonly string[]): Verdict | undefined {
  const [first] = problems;
  if (first === undefined) return undefined;
  const fix = "Put what is missing in its place, or change the job with `agentd cron edit`.";
  return { status: "warn", detail: first + more(problems), fix };
}

function late({ late: { count, named } }: CronStatus): Verdict | undefined {
  const [first] = named;
  if (!first) return undefined;
  const detail = `${count === 1 ? "a job is" : `${count} jobs are`} late, first ${redact(first.name)} (${first.id})`;
  return {
    status: "warn",
    detail,
    fix: "`agentd cron status` says more; perhaps cron.max_parallel_jobs is too small.",
  };
}

function clockAhead({ corrected }: CronStatus): Verdict | undefined {
  if (corrected === undefined) return undefined;
  const { atMs, count } = corrected;
  const jobs = count === 1 ? "a job was" : `${count} jobs were`;
  const detail = `the clock had been ahead: ${jobs} due too late, and corrected at ${new Date(atMs).toISOString()}`;
  return { status: "warn", detail, fix: "See that the machine's clock is kept by a time service." };
}

function standing({ jobs, failures, state }: CronStatus): Verdict {
  const failed = failures.count === 0 ? "" : `, ${failures.count} did not end well the last time`;
  const runs = state === "ticking" ? "; the scheduler runs" : "";
  return { status: "ok", detail: `${jobs.all} job${jobs.all === 1 ? "" : "s"}${failed}${runs}` };
}

async function findProblem(definition: JobDefinition, needs: JobNeeds): Promise<string | undefined> {
  const { zone, skills, workdir, deliver, failureDeliver = "" } = definition;
  const problem = zoneProblem(zone) ?? (await findBlock(needs.deps, definition));
  if (problem !== undefined) return problem;
  for (const name of skills) {
    if (!(await needs.skills.find(name, workdir ?? needs.workspace)))
      return `There is no skill ${JSON.stringify(name)}.`;
  }
  const silent = platformsOf(`${deliver},${failureDeliver}`).find((name) =>
    needs.silentPlatforms.includes(name),
  );
  return silent === undefined ? undefined : `It answers by ${silent}, which is not set up.`;
}

async function needsOf(loaded: LoadedConfig, context: CliContext, store: Store): Promise<JobNeeds> {
  const { config, env } = loaded;
  const { home, userHome } = context;
  const paths = resolvePaths({ config, env, home, userHome });
  const silent = createLog("error", () => {});
  const models = createCatalog(config, await findProviders(config, env, silent));
  const service = createJobService({ config, paths }, { store, clock: systemClock, models, tools: () => [] });
  const platforms = await statuses(config, env);
  return {
    deps: { ...service, fallbacks: config.model.fallbacks, toolsets: () => config.agent.toolsets },
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
