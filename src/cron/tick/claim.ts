import { createId } from "../../base/text.ts";
import { type Log, redact } from "../../base/observe.ts";
import { isRetryable, isUnavailable } from "../../store/tx/group.ts";
import { leaseFor, UNLEASED } from "../../store/tx/tx.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow, OccurrenceRow } from "../../store/schema/tables.ts";
import {
  toJob,
  type Job,
  formatSchedule,
  dueAtMs,
  REPAIR_MS,
  type Upcoming,
  recordJob,
  recordOccurrence,
} from "../job/job.ts";
import {
  keptOutput,
  OUTPUT_TARGET,
  outputFileName,
  missedText,
  planOccurrence,
  type PlanOptions,
} from "../run/result.ts";
import { listUpcomingJobs, lockDueJobs } from "../queries.ts";
import { evaluateDue, MAX_COUNTED, type DueDecision, type DueRun } from "../schedule/due.ts";
import type { CronSettings } from "../deps.ts";

/** How long a claim lasts without a renewal. Renewed after a third of it. */
export const CLAIM_MS = 60_000;

/** An occurrence that this process runs, with its job as it was when it was claimed. */
export interface Claimed {
  readonly occurrence: OccurrenceRow;
  readonly job: Job;
}

/** The result of one round of claims. */
export interface ClaimRound {
  readonly claimed: readonly Claimed[];
  /** Rows that record instants which will not run. */
  readonly missed: readonly OccurrenceRow[];
  /** Number of jobs that were decided, including those that run nothing. */
  readonly decided: number;
  /** The store's time. */
  readonly nowMs: number;
}

export interface ClaimRequest {
  readonly store: Store;
  readonly settings: Pick<CronSettings, "catchUpMissed">;
  readonly planOptions: PlanOptions;
  /** Most jobs to decide. */
  readonly limit: number;
  /** This job only. */
  readonly jobId?: string;
  /** Jobs that come due later are not claimed. */
  readonly untilMs?: number;
}

/**
 * Runs one round of {@link claimDue} in a transaction. When the database refuses a row, the jobs are claimed one by one and
 * only that row is left out.
 */
export async function claimRound(request: ClaimRequest, log: Log): Promise<ClaimRound> {
  try {
    return await claimIn(request);
  } catch (error) {
    if (isUnavailable(error)) throw error;
    return claimOneByOne(request, log);
  }
}

function claimIn(request: ClaimRequest): Promise<ClaimRound> {
  return request.store.write((tx) => claimDue(tx, request));
}

async function claimOneByOne(request: ClaimRequest, log: Log): Promise<ClaimRound> {
  const { store } = request;
  const rounds: ClaimRound[] = [];
  for (const { id, lock_version: lockVersion } of await listUpcomingJobs(store, request.limit)) {
    try {
      rounds.push(await claimIn({ ...request, limit: 1, jobId: id }));
    } catch (error) {
      if (isUnavailable(error)) throw error;
      // Another transaction was in the way: the next tick claims the job.
      if (isRetryable(error)) continue;
      log.error("cannot claim a job; it is left out for an hour", { job: id, error });
      const why = `The job could not be claimed: ${redact(String(error)).slice(0, 200)}.`;
      await store.write((tx) => markBroken(tx, { id, lock_version: lockVersion }, why));
    }
  }
  return {
    claimed: rounds.flatMap(({ claimed }) => claimed),
    missed: rounds.flatMap(({ missed }) => missed),
    decided: rounds.length,
    nowMs: await store.write((tx) => tx.nowMs, { durable: false }),
  };
}

/**
 * Decides what due jobs do, the longest due first, inside `tx`. A job moves on to its next instant before anything runs, so
 * that a crash cannot make it run twice. Jobs that another process decides at the same time are left to it.
 */
export async function claimDue(tx: Tx, request: ClaimRequest): Promise<ClaimRound> {
  const { store, planOptions, untilMs = tx.nowMs, limit, jobId } = request;
  const rows = await lockDueJobs(tx, { store, untilMs: Math.min(untilMs, tx.nowMs), limit, jobId });
  const decisions = decide(await Promise.all(rows.map((row) => withOpen(tx, row))), tx.nowMs, request);
  const written = await Promise.all(decisions.map((each) => write(tx, each, request)));
  const all = written.filter((each) => each !== undefined);
  const occurrences = all.flatMap(({ missed, occurrence }) => [missed, occurrence]);
  const inserted = occurrences.filter((each) => each !== undefined);
  if (inserted.length > 0) await tx.insert("occurrences", inserted);
  const notified = new Map<string, Partial<OccurrenceRow>>();
  for (const { missed, job, decision } of all) {
    if (missed && decision.after.state === "missed") {
      notified.set(missed.id, await notifyMissed(tx, store, { job, occurrence: missed, planOptions }));
    }
  }
  for (const row of inserted) recordOccurrence(tx, "created", { ...row, ...notified.get(row.id) });
  return {
    claimed: all.flatMap(({ job, occurrence }) =>
      occurrence?.status === "claimed" ? [{ job, occurrence }] : [],
    ),
    missed: inserted.filter(({ status }) => status === "missed"),
    decided: decisions.length,
    nowMs: tx.nowMs,
  };
}

/** Sets a job that cannot be decided to the state `error`, so that it does not stop the others. It is retried later. */
async function markBroken(
  tx: Tx,
  { id, lock_version: lockVersion }: Pick<CronJobRow, "id" | "lock_version">,
  why: string,
): Promise<void> {
  const broken = {
    state: "error",
    due_at: tx.nowMs + REPAIR_MS,
    last_error: `${why} Edit the job, or remove it and create it again. It is retried every hour.`,
    updated_at: tx.nowMs,
  };
  if ((await tx.update("cron_jobs", { id, lock_version: lockVersion }, broken)) === 0) return;
  const row = await tx.find("cron_jobs", { id });
  if (row) recordJob(tx, "updated", row);
}

interface DueRow {
  readonly row: CronJobRow;
  /** True: an occurrence of the job is running. */
  readonly isRunning: boolean;
}

async function withOpen(tx: Tx, row: CronJobRow): Promise<DueRow> {
  return { row, isRunning: (await tx.find("occurrences", { job_id: row.id, ended_at: null })) !== undefined };
}

type Decision = { readonly row: CronJobRow; readonly job: Job; readonly decision: DueDecision } | Broken;

interface Broken {
  readonly row: CronJobRow;
  readonly problem: string;
}

/** Counting missed instants takes time while others wait for the database: the next round decides the rest. */
function decide(
  all: readonly DueRow[],
  nowMs: number,
  { settings }: Pick<ClaimRequest, "settings">,
): readonly Decision[] {
  const { catchUpMissed } = settings;
  const decisions: Decision[] = [];
  let counted = 0;
  for (const { row, isRunning } of all) {
    if (counted > MAX_COUNTED) break;
    const decided = decideOne(row, { nowMs, catchUpMissed, isRunning });
    if ("decision" in decided && decided.job.definition.schedule.kind === "cron") {
      counted += decided.decision.missed?.count ?? 0;
    }
    decisions.push(decided);
  }
  return decisions;
}

function decideOne(row: CronJobRow, context: Parameters<typeof evaluateDue>[1]): Decision {
  const job = toJob(row);
  if (!job) return { row, problem: "The definition of the job cannot be read." };
  try {
    const decision = evaluateDue(job, context);
    const { nextRunAtMs, manualAtMs, retryAtMs } = decision.after;
    const times = [nextRunAtMs, manualAtMs, retryAtMs, dueAtMs(job, decision.after, context.nowMs)];
    if (times.every((at) => at === undefined || Number.isSafeInteger(at))) return { row, job, decision };
    return { row, problem: "The times of the job cannot be computed." };
  } catch (error) {
    return { row, problem: `The job cannot be evaluated: ${redact(String(error)).slice(0, 200)}.` };
  }
}

interface Written {
  readonly job: Job;
  readonly decision: DueDecision;
  readonly missed: OccurrenceRow | undefined;
  /** claimed or skipped. */
  readonly occurrence: OccurrenceRow | undefined;
}

/** Undefined: the job is broken, or changed meanwhile. */
async function write(tx: Tx, decided: Decision, { store }: ClaimRequest): Promise<Written | undefined> {
  if ("problem" in decided) return void (await markBroken(tx, decided.row, decided.problem));
  const { row, job, decision } = decided;
  const run = decision.run && (await withFreeInstant(tx, job, decision.run));
  const isMissNew = decision.missed !== undefined && (await isFree(tx, job, decision.missed.fromMs));
  if (!(await advance(tx, { row, job, after: decision.after, run }))) return undefined;
  return {
    job,
    decision,
    missed: decision.missed && isMissNew ? missedRow(tx, job, decision) : undefined,
    occurrence: run && occurrenceRow(tx, { store, job, run }),
  };
}

/**
 * Returns the run at an instant without an occurrence. Undefined when a scheduled instant already has one, such as one that
 * an edit brought back after the clock was set back. A manual run or a retry moves on by a millisecond instead.
 */
async function withFreeInstant(tx: Tx, job: Job, run: DueRun): Promise<DueRun | undefined> {
  if (run.cause === "schedule") return (await isFree(tx, job, run.scheduledAtMs)) ? run : undefined;
  let { scheduledAtMs } = run;
  while (await tx.find("occurrences", { job_id: job.id, scheduled_at: scheduledAtMs, cause: run.cause })) {
    scheduledAtMs += 1;
  }
  return { ...run, scheduledAtMs };
}

async function isFree(tx: Tx, { id }: Job, atMs: number): Promise<boolean> {
  const existing = await tx.find("occurrences", { job_id: id, scheduled_at: atMs, cause: "schedule" });
  return existing === undefined;
}

async function advance(
  tx: Tx,
  {
    row,
    job,
    after,
    run,
  }: {
    readonly row: CronJobRow;
    readonly job: Job;
    readonly after: Upcoming;
    readonly run: DueRun | undefined;
  },
): Promise<boolean> {
  const begins = run !== undefined && !run.isSkipped;
  const ends = !begins && after.state === "scheduled" && isNothingLeft(after);
  const columns = {
    state: ends ? "completed" : after.state,
    next_run_at: after.nextRunAtMs ?? null,
    manual_at: after.manualAtMs ?? null,
    retry_at: after.retryAtMs ?? null,
    due_at: dueAtMs(job, after, tx.nowMs) ?? null,
    lock_version: row.lock_version + 1,
    repeat_done: row.repeat_done + (begins && run.cause === "schedule" ? 1 : 0),
    updated_at: tx.nowMs,
    ...(begins ? { last_run_at: tx.nowMs } : {}),
    ...errorOf(job, after),
  };
  if ((await tx.update("cron_jobs", { id: row.id, lock_version: row.lock_version }, columns)) === 0)
    return false;
  // A job that only moves on to its next instant is not an event.
  if (columns.state !== row.state) recordJob(tx, "updated", { ...row, ...columns });
  return true;
}

/** Returns the error of a schedule that cannot be computed, or clears it when it can be again. */
function errorOf({ definition, state }: Job, after: Upcoming): Partial<CronJobRow> {
  if (after.state !== "error") return state === "error" ? { last_error: null } : {};
  const text = `No next run of ${formatSchedule(definition.schedule)} in ${definition.zone} can be computed.`;
  return { last_error: `${text} Edit the schedule or the zone. It is retried every hour.` };
}

const isNothingLeft = ({ nextRunAtMs, manualAtMs, retryAtMs }: Upcoming): boolean =>
  nextRunAtMs === undefined && manualAtMs === undefined && retryAtMs === undefined;

/** Returns the row of a run: claimed by this process, or skipped. */
function occurrenceRow(
  tx: Tx,
  { store, job, run }: { readonly store: Store; readonly job: Job; readonly run: DueRun },
): OccurrenceRow {
  const { cause, scheduledAtMs, timing, isSkipped } = run;
  const columns = isSkipped
    ? { status: "skipped", reason: "The previous run was still running.", ended_at: tx.nowMs }
    : {
        status: "claimed",
        ...leaseFor(tx, store.owner, CLAIM_MS),
        output_file: outputFileName({ atMs: tx.nowMs, zone: job.definition.zone, cause }),
      };
  return { ...newRow(tx, job), scheduled_at: scheduledAtMs, cause, timing, ...columns };
}

/** Returns the row that records the missed instants; undefined when none were missed. */
function missedRow(tx: Tx, job: Job, { missed, run }: DueDecision): OccurrenceRow | undefined {
  if (!missed) return undefined;
  return {
    ...newRow(tx, job),
    scheduled_at: missed.fromMs,
    cause: "schedule",
    timing: "late",
    status: "missed",
    reason: missedReason(job, run !== undefined),
    covers_until: missed.untilMs,
    covers_count: missed.count,
    ended_at: tx.nowMs,
  };
}

function missedReason({ definition }: Job, isCaughtUp: boolean): string {
  const why = "No scheduler was running at its time";
  if (isCaughtUp) return `${why}; the newest one was run.`;
  return definition.schedule.kind === "once" ? `${why}.` : `${why}, and the job does not catch up.`;
}

function newRow(
  tx: Tx,
  { id, owner, definition }: Job,
): Omit<OccurrenceRow, "scheduled_at" | "cause" | "timing" | "status"> {
  return {
    id: createId("occ", tx.nowMs),
    owner,
    job_id: id,
    job_name: definition.name,
    reason: null,
    covers_until: null,
    covers_count: 1,
    ...UNLEASED,
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

/**
 * Reports that a one-shot was missed, to the targets of failures and in an output file, in the same transaction. Resolves
 * to the columns of its occurrence that it changed.
 */
async function notifyMissed(
  tx: Tx,
  store: Store,
  {
    job,
    occurrence,
    planOptions,
  }: {
    readonly job: Job;
    /** The row as inserted, `missed`. */
    readonly occurrence: OccurrenceRow;
    readonly planOptions: PlanOptions;
  },
): Promise<Partial<OccurrenceRow>> {
  const { zone } = job.definition;
  const file = occurrence.output_file ?? outputFileName({ atMs: tx.nowMs, zone, cause: "schedule" });
  const plan = planOccurrence({ job, occurrence: { ...occurrence, output_file: file } }, planOptions);
  const text = missedText(plan);
  const { ref, failureTargets } = plan;
  const ending = { status: "failed", text: missedText({ ...plan, wraps: false }) } as const;
  const from = { owner: job.owner, ref };
  await store.outbox.enqueue(tx, { ...from, target: OUTPUT_TARGET, payload: keptOutput(plan, ending) });
  for (const target of failureTargets)
    await store.outbox.enqueue(tx, { ...from, target, payload: { text, extra: {} } });
  const changed = {
    output_file: file,
    delivery_status: failureTargets.length > 0 ? "pending" : "none",
  };
  await tx.update("occurrences", { id: ref }, changed);
  const last = { last_status: "missed", last_error: occurrence.reason, last_delivery_error: null };
  await tx.update("cron_jobs", { id: job.id }, { ...last, last_occurrence: ref });
  return changed;
}
