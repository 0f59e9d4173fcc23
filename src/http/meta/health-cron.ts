/** The jobs of the clock in the health report. Pure. */
import type { HealthCheck } from "../../../generated/http/client/types.gen.ts";
import { redact } from "../../base/observe/redact.ts";
import type { CronStats } from "../deps.ts";

/** A server that has just started looks for jobs within so long. */
const START_MS = 10_000;

/** `uptimeMs`: how long the server has run. */
export function checkCron(serviceStats: CronStats, { uptimeMs }: { readonly uptimeMs: number }): HealthCheck {
  const { isEnabled, state, lastTickAtMs, jobs, broken, late, next, open, failures, corrected } =
    serviceStats;
  const figures = {
    enabled: isEnabled,
    scheduler: state,
    last_tick_at: iso(lastTickAtMs),
    next_due_at: iso(next?.dueAtMs),
    late: late.count,
    late_since: iso(late.oldestDueAtMs),
    scheduled: jobs.scheduled,
    paused: jobs.paused,
    completed: jobs.completed,
    missed: jobs.missed,
    error: jobs.error,
    broken,
    at_work: open,
    failing: failures.count,
  };
  if (!isEnabled) {
    const detail = "This server runs no jobs: cron.enabled is false.";
    return { status: "ok", ...figures, detail };
  }
  const isStarting = uptimeMs < START_MS;
  const lasting = isStarting ? [] : [stateProblem(state), lateProblem(late)];
  const problems = [...lasting, brokenProblem(broken)].filter((problem) => problem !== undefined);
  // Over by now, so that it makes nothing unready.
  const notes = [correctedNote(corrected)].filter((note) => note !== undefined);
  const detail = [...problems, ...notes].join(" ");
  return {
    status: problems.length === 0 ? "ok" : "degraded",
    ...figures,
    ...(detail === "" ? {} : { detail }),
  };
}

function correctedNote(corrected: CronStats["corrected"]): string | undefined {
  if (corrected === undefined) return undefined;
  const { atMs, count } = corrected;
  const jobs = count === 1 ? "a job was" : `${count} jobs were`;
  return `The clock had been ahead: ${jobs} due too late, and set to the next time of the schedule at ${iso(atMs)}.`;
}

function stateProblem(state: CronStats["state"]): string | undefined {
  if (state === "ticking") return undefined;
  const what = state === "none" ? "No scheduler looks for jobs." : "The scheduler has stalled: no job runs.";
  return `${what} The server log says why.`;
}

function lateProblem({ count, named }: CronStats["late"]): string | undefined {
  if (count === 0) return undefined;
  const names = named.map(({ id, name }) => `${redact(name)} (${id})`).join(", ");
  const more = count > named.length ? ` and ${count - named.length} more` : "";
  return `${count === 1 ? "A job is" : `${count} jobs are`} late: ${names}${more}.`;
}

function brokenProblem(broken: number): string | undefined {
  if (broken === 0) return undefined;
  return `${broken === 1 ? "A job" : `${broken} jobs`} cannot be read; \`agentd doctor\` names what to remove.`;
}

function iso(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString();
}
