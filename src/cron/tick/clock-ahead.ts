/** Corrects jobs that a clock ahead of the real time delayed, once the clock is right again. */
import type { Log } from "../../base/observe.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow } from "../../store/schema/tables.ts";
import { nextRunMs } from "../schedule/instants.ts";
import { isOver, toJob, type Job, upcomingOf, type Upcoming } from "../job/job.ts";
import { upcomingColumns } from "../job/moves.ts";
import { listJobsAhead } from "../queries.ts";

/** A time this far in the future was written by a clock that was ahead. */
export const AHEAD_MS = 60_000;
/** Retries of a run wait less. */
const MAX_RETRY_MS = 3_600_000;
const MINUTE_MS = 60_000;
const BATCH = 200;

/**
 * Moves jobs that were changed at a future time to the next instant of their schedules from now, when that is nearer. An
 * instant that has an occurrence does not run again. Resolves to how many jobs were due too late.
 */
export async function correctAhead(store: Store, log: Log): Promise<number> {
  const names: string[] = [];
  let after = "";
  for (;;) {
    const page = await store.write((tx) => correctPage(tx, after));
    names.push(...page.corrected);
    if (page.last === undefined) break;
    after = page.last;
  }
  if (names.length > 0) {
    log.warn("the clock was ahead: delayed jobs now run at the next time of their schedules", {
      count: names.length,
      jobs: names.slice(0, 5).join(", "),
    });
  }
  return names.length;
}

interface Page {
  /** Ids. */
  readonly corrected: readonly string[];
  /** The last id of the page; undefined on the last page. */
  readonly last: string | undefined;
}

async function correctPage(tx: Tx, after: string): Promise<Page> {
  const rows = await listJobsAhead(tx, { after, limitMs: tx.nowMs + AHEAD_MS, limit: BATCH });
  const corrected: string[] = [];
  for (const row of rows) if (await correct(tx, row)) corrected.push(row.id);
  return { corrected, last: rows.length < BATCH ? undefined : rows.at(-1)?.id };
}

/** Also sets the times in the future to now: they mark the rows to correct. */
async function correct(tx: Tx, row: CronJobRow): Promise<boolean> {
  const job = toJob(row);
  const next = job && nearerUpcoming(job, tx.nowMs);
  const past = (at: number) => Math.min(at, tx.nowMs);
  const columns: Partial<CronJobRow> = {
    ...(job && next ? upcomingColumns(job, next, tx.nowMs) : {}),
    lock_version: row.lock_version + 1,
    updated_at: tx.nowMs,
    created_at: past(row.created_at),
    last_run_at: row.last_run_at === null ? null : past(row.last_run_at),
  };
  const { id, lock_version: lockVersion } = row;
  return (
    (await tx.update("cron_jobs", { id, lock_version: lockVersion }, columns)) === 1 && next !== undefined
  );
}

/** Returns the next instants of a job that was changed by a clock that was ahead. Undefined: none is too late. Pure. */
export function nearerUpcoming(job: Job, nowMs: number): Upcoming | undefined {
  if (isOver(job.state)) return undefined;
  const { nextRunAtMs, manualAtMs, retryAtMs } = job;
  const after: Upcoming = {
    ...upcomingOf(job),
    nextRunAtMs: nextRunAtMs === undefined ? undefined : nearerInstant(job, nextRunAtMs, nowMs),
    manualAtMs: manualAtMs === undefined ? undefined : Math.min(manualAtMs, nowMs),
    retryAtMs: retryAtMs !== undefined && retryAtMs > nowMs + MAX_RETRY_MS ? nowMs : retryAtMs,
  };
  const isSame =
    after.nextRunAtMs === nextRunAtMs && after.manualAtMs === manualAtMs && after.retryAtMs === retryAtMs;
  return isSame ? undefined : after;
}

/** An interval keeps its phase. */
function nearerInstant({ definition: { schedule, zone } }: Job, atMs: number, nowMs: number): number {
  switch (schedule.kind) {
    case "once":
      return atMs;
    case "interval": {
      const periodMs = schedule.minutes * MINUTE_MS;
      return atMs - Math.max(0, Math.ceil((atMs - nowMs) / periodMs) - 1) * periodMs;
    }
    case "cron":
      return Math.min(atMs, nextRunMs(schedule, nowMs, zone) ?? atMs);
  }
}
