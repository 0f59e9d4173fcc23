/** Jobs that were put off by a clock ahead of the time: found once the clock is right again. */
import type { Log } from "../../base/observe/log.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow } from "../../store/schema/tables.ts";
import { nextRunMs } from "../schedule/instants.ts";
import { isOver, toJob, type Job } from "../job/job.ts";
import { upcomingColumns } from "../job/moves.ts";
import { upcomingOf, type Upcoming } from "../schedule/upcoming.ts";

/** What was written so much later than now was written by another clock. */
export const AHEAD_MS = 60_000;
/** Waits between tries of a run are shorter. */
const MAX_RETRY_MS = 3_600_000;
const MINUTE_MS = 60_000;
const BATCH = 200;

/**
 * Takes jobs that were changed at a time that is yet to come to the next instant of their schedules from now, where that
 * is nearer. An instant that is on record does not run again. Resolves to how many jobs were due too late.
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
    log.warn("the clock was ahead: jobs were due too late, and are due at the next time of their schedules", {
      count: names.length,
      jobs: names.slice(0, 5).join(", "),
    });
  }
  return names.length;
}

interface Page {
  /** Ids. */
  readonly corrected: readonly string[];
  /** The last id that was looked at; undefined: there are no more. */
  readonly last: string | undefined;
}

async function correctPage(tx: Tx, after: string): Promise<Page> {
  const limitMs = tx.nowMs + AHEAD_MS;
  const rows = await tx.db
    .selectFrom("cron_jobs")
    .selectAll()
    .where("id", ">", after)
    .where((row) =>
      row.or([
        row("updated_at", ">", limitMs),
        row("last_run_at", ">", limitMs),
        row("created_at", ">", limitMs),
      ]),
    )
    .orderBy("id")
    .limit(BATCH)
    .execute();
  const corrected: string[] = [];
  for (const row of rows) if (await correct(tx, row)) corrected.push(row.id);
  return { corrected, last: rows.length < BATCH ? undefined : rows.at(-1)?.id };
}

/** The times that lie ahead are set to now, too: they are what such a row is known by. */
async function correct(tx: Tx, row: CronJobRow): Promise<boolean> {
  const job = toJob(row);
  const next = job && nearerUpcoming(job, tx.nowMs);
  const past = (at: number) => Math.min(at, tx.nowMs);
  const columns: Partial<CronJobRow> = {
    ...(job && next ? upcomingColumns(job, next, tx.nowMs) : {}),
    revision: row.revision + 1,
    updated_at: tx.nowMs,
    created_at: past(row.created_at),
    last_run_at: row.last_run_at === null ? null : past(row.last_run_at),
  };
  const { id, revision } = row;
  return (await tx.update("cron_jobs", { id, revision }, columns)) === 1 && next !== undefined;
}

/** What is next for a job that was changed by a clock ahead. Undefined: nothing of it is too late. Pure. */
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

/** An interval keeps its beat. */
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
