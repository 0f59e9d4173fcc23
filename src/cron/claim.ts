import { createId } from "../base/ids.ts";
import type { Store, Tx } from "../store/store.ts";
import type { CronJobRow, OccurrenceRow } from "../store/tables.ts";
import { judgeDue, type DueVerdict } from "./due.ts";
import { toJob, type Job } from "./job.ts";
import { outputFileName } from "./output-name.ts";
import type { CronSettings } from "./settings.ts";
import { dueAtMs, type Upcoming } from "./upcoming.ts";

/** How long a process may be silent before others take its claims over. Renewed at a third of it. */
export const CLAIM_MS = 60_000;

/** An occurrence that this process has in hand, with its job as it was when it was claimed. */
export interface Claimed {
  readonly occurrence: OccurrenceRow;
  readonly job: Job;
}

/**
 * Decides about one due job, inside `tx`, and writes the decision: the job moves on to its next instant before anything
 * runs, so that no crash makes it run twice. Undefined when nothing is to run: it was not due, somebody was faster, its
 * instants were missed, or its run before is still at work.
 */
export async function claimDue(
  tx: Tx,
  jobId: string,
  { store, settings }: { readonly store: Store; readonly settings: Pick<CronSettings, "catchUpMissed"> },
): Promise<Claimed | undefined> {
  const row = await tx.find("cron_jobs", { id: jobId });
  if (!row || row.due_at === null || row.due_at > tx.nowMs) return undefined;
  const job = toJob(row);
  if (!job) return breakJob(tx, row);
  const verdict = judgeDue(job, { nowMs: tx.nowMs, catchUpMissed: settings.catchUpMissed });
  const isBusy =
    verdict.run !== undefined && job.definition.overlap === "skip" && (await isAtWork(tx, jobId));
  if (!(await advance(tx, { row, job, verdict, isBusy }))) return undefined;
  if (verdict.missed) await tx.insert("occurrences", [missedRow(tx, job, verdict.missed)]);
  if (!verdict.run) return undefined;
  const occurrence = occurrenceRow(tx, { store, job, run: verdict.run, isBusy });
  await tx.insert("occurrences", [occurrence]);
  return isBusy ? undefined : { occurrence, job };
}

/** A row that cannot be read runs nothing, and does not stop the others. */
async function breakJob(tx: Tx, row: CronJobRow): Promise<undefined> {
  const broken = { state: "error", due_at: null, last_error: "The job's definition cannot be read." };
  await tx.update("cron_jobs", { id: row.id, revision: row.revision }, broken);
  return undefined;
}

async function isAtWork(tx: Tx, jobId: string): Promise<boolean> {
  return (await tx.find("occurrences", { job_id: jobId, ended_at: null })) !== undefined;
}

async function advance(
  tx: Tx,
  about: {
    readonly row: CronJobRow;
    readonly job: Job;
    readonly verdict: DueVerdict;
    readonly isBusy: boolean;
  },
): Promise<boolean> {
  const { row, job, verdict, isBusy } = about;
  const { after, run } = verdict;
  const counts = run?.cause === "schedule" && !isBusy;
  const begins = run !== undefined && !isBusy;
  const ends = !begins && after.state === "scheduled" && isNothingLeft(after);
  const columns: Partial<CronJobRow> = {
    state: ends ? "completed" : after.state,
    next_run_at: after.nextRunAtMs ?? null,
    manual_at: after.manualAtMs ?? null,
    retry_at: after.retryAtMs ?? null,
    due_at: dueAtMs(job, after, tx.nowMs) ?? null,
    revision: row.revision + 1,
    repeat_done: row.repeat_done + (counts ? 1 : 0),
    updated_at: tx.nowMs,
    ...(begins ? { last_run_at: tx.nowMs } : {}),
    ...(after.state === "missed" ? { last_status: "missed" } : {}),
  };
  return (await tx.update("cron_jobs", { id: row.id, revision: row.revision }, columns)) === 1;
}

const isNothingLeft = ({ nextRunAtMs, manualAtMs, retryAtMs }: Upcoming): boolean =>
  nextRunAtMs === undefined && manualAtMs === undefined && retryAtMs === undefined;

function occurrenceRow(
  tx: Tx,
  about: {
    readonly store: Store;
    readonly job: Job;
    readonly run: NonNullable<DueVerdict["run"]>;
    readonly isBusy: boolean;
  },
): OccurrenceRow {
  const { store, job, run, isBusy } = about;
  const lease = isBusy ? {} : { lease_owner: store.owner, lease_until: tx.nowMs + CLAIM_MS };
  const { cause, scheduledAtMs, timing } = run;
  return {
    ...newRow(tx, job),
    scheduled_at: scheduledAtMs,
    cause,
    timing,
    status: isBusy ? "skipped" : "claimed",
    reason: isBusy ? "The run before was still at work." : null,
    ended_at: isBusy ? tx.nowMs : null,
    output_file: isBusy ? null : outputFileName({ atMs: tx.nowMs, zone: job.definition.zone, cause }),
    ...lease,
  };
}

function missedRow(
  tx: Tx,
  job: Job,
  { fromMs, untilMs, count }: NonNullable<DueVerdict["missed"]>,
): OccurrenceRow {
  return {
    ...newRow(tx, job),
    scheduled_at: fromMs,
    cause: "schedule",
    timing: "late",
    status: "missed",
    reason: "No process was there to run it in time.",
    covers_until: untilMs,
    covers_count: count,
    ended_at: tx.nowMs,
  };
}

function newRow(
  tx: Tx,
  { id, definition }: Job,
): Omit<OccurrenceRow, "scheduled_at" | "cause" | "timing" | "status"> {
  return {
    id: createId("occ", tx.nowMs),
    job_id: id,
    job_name: definition.name,
    reason: null,
    covers_until: null,
    covers_count: 1,
    lease_owner: null,
    lease_until: null,
    claimed_at: tx.nowMs,
    started_at: null,
    ended_at: null,
    run_id: null,
    session_id: null,
    output_file: null,
    delivery_status: null,
    delivery_error: null,
  };
}
