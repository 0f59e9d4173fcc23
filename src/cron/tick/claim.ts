import type { Log } from "../../base/observe/log.ts";
import { redact } from "../../base/observe/redact.ts";
import { isRetryable, isUnavailable } from "../../store/tx/failure.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow, OccurrenceRow } from "../../store/schema/tables.ts";
import {
  evaluateDue,
  MAX_COUNTED,
  type DueRun,
  type DueDecision,
  type MissedInstants,
} from "../schedule/due.ts";
import { toJob, type Job } from "../job/job.ts";
import { type Telling, planOccurrence } from "../run/plan.ts";
import { formatSchedule } from "../schedule/schedule.ts";
import type { CronSettings } from "../settings.ts";
import { dueAtMs, REPAIR_MS, type Upcoming } from "../schedule/upcoming.ts";
import { createId } from "../../base/ids.ts";
import { outputFileName, keptOutput, OUTPUT_TARGET } from "../output/output.ts";
import { missedText } from "../run/message.ts";

/**
 * One round of {@link claimDue} in a transaction of its own. A row that the database refuses does not keep the others from
 * running: they are claimed one by one then, and that one is left out.
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
  for (const { id, revision } of await dueJobs(request)) {
    try {
      rounds.push(await claimIn({ ...request, limit: 1, jobId: id }));
    } catch (error) {
      if (isUnavailable(error)) throw error;
      // Another transaction was in the way: the next look claims it.
      if (isRetryable(error)) continue;
      log.error("a job could not be claimed; it is left out for an hour", { job: id, error });
      const why = `The job could not be claimed: ${redact(String(error)).slice(0, 200)}.`;
      await store.write((tx) => breakJob(tx, { id, revision }, why));
    }
  }
  return {
    claimed: rounds.flatMap(({ claimed }) => claimed),
    missed: rounds.flatMap(({ missed }) => missed),
    looked: rounds.length,
    nowMs: await store.write((tx) => tx.nowMs, { durable: false }),
  };
}

async function dueJobs({
  store,
  limit,
}: ClaimRequest): Promise<readonly { readonly id: string; readonly revision: number }[]> {
  return store.read
    .selectFrom("cron_jobs")
    .select(["id", "revision"])
    .where("due_at", "is not", null)
    .orderBy("due_at")
    .orderBy("id")
    .limit(limit)
    .execute();
}

/** An occurrence that this process has in hand, with its job as it was when it was claimed. */
export interface Claimed {
  readonly occurrence: OccurrenceRow;
  readonly job: Job;
}

/** What came of a look at due jobs. */
export interface ClaimRound {
  readonly claimed: readonly Claimed[];
  /** Rows that stand for instants which will not run. */
  readonly missed: readonly OccurrenceRow[];
  /** Jobs that were decided about, those included that run nothing. */
  readonly looked: number;
  /** The store's time. */
  readonly nowMs: number;
}

export interface ClaimRequest {
  readonly store: Store;
  readonly settings: Pick<CronSettings, "catchUpMissed">;
  readonly telling: Telling;
  /** Most jobs to decide about. */
  readonly limit: number;
  /** This job only. */
  readonly jobId?: string;
  /** What came due later is left alone. */
  readonly untilMs?: number;
}

/**
 * Decides about due jobs, longest due first, inside `tx`, and writes the decisions: a job moves on to its next instant before
 * anything runs, so that no crash makes it run twice. Jobs that another process decides about just now are left to it.
 */
export async function claimDue(tx: Tx, request: ClaimRequest): Promise<ClaimRound> {
  const rows = await dueRows(tx, request);
  const decisions = decide(await Promise.all(rows.map((row) => seen(tx, row))), tx.nowMs, request);
  const written = await Promise.all(decisions.map((each) => write(tx, each, request)));
  const all = written.filter((each) => each !== undefined);
  const occurrences = all.flatMap(({ missed, occurrence }) => [missed, occurrence]);
  const inserted = occurrences.filter((each) => each !== undefined);
  if (inserted.length > 0) await tx.insert("occurrences", inserted);
  const { store, telling } = request;
  for (const { missed, job, verdict } of all) {
    if (missed && verdict.after.state === "missed") {
      await enqueueMissed(tx, store, { job, occurrence: missed, telling });
    }
  }
  return {
    claimed: all.flatMap(({ job, occurrence }) =>
      occurrence?.status === "claimed" ? [{ job, occurrence }] : [],
    ),
    missed: inserted.filter(({ status }) => status === "missed"),
    looked: decisions.length,
    nowMs: tx.nowMs,
  };
}

/** What cannot be decided about runs nothing, and does not stop the others: it is looked at again later. */
export async function breakJob(
  tx: Tx,
  { id, revision }: Pick<CronJobRow, "id" | "revision">,
  why: string,
): Promise<void> {
  const broken = {
    state: "error",
    due_at: tx.nowMs + REPAIR_MS,
    last_error: `${why} Edit the job, or remove it and make it anew; it is looked at again every hour.`,
    updated_at: tx.nowMs,
  };
  await tx.update("cron_jobs", { id, revision }, broken);
}

function dueRows(
  tx: Tx,
  { store, limit, jobId, untilMs = tx.nowMs }: ClaimRequest,
): Promise<readonly CronJobRow[]> {
  const due = tx.db
    .selectFrom("cron_jobs")
    .selectAll()
    .where("due_at", "is not", null)
    .where("due_at", "<=", Math.min(untilMs, tx.nowMs))
    .orderBy("due_at")
    .orderBy("id")
    .limit(limit);
  const among = jobId === undefined ? due : due.where("id", "=", jobId);
  return (store.dialect === "postgres" ? among.forUpdate().skipLocked() : among).execute();
}

interface Seen {
  readonly row: CronJobRow;
  readonly isAtWork: boolean;
}

async function seen(tx: Tx, row: CronJobRow): Promise<Seen> {
  return { row, isAtWork: (await tx.find("occurrences", { job_id: row.id, ended_at: null })) !== undefined };
}

type Decision = { readonly row: CronJobRow; readonly job: Job; readonly verdict: DueDecision } | Broken;

interface Broken {
  readonly row: CronJobRow;
  readonly problem: string;
}

/** Counting missed instants takes time, in which others wait for the database: what is left is for the next round. */
function decide(
  all: readonly Seen[],
  nowMs: number,
  { settings }: Pick<ClaimRequest, "settings">,
): readonly Decision[] {
  const { catchUpMissed } = settings;
  const decisions: Decision[] = [];
  let counted = 0;
  for (const { row, isAtWork } of all) {
    if (counted > MAX_COUNTED) break;
    const decision = decideOne(row, { nowMs, catchUpMissed, isAtWork });
    if ("verdict" in decision && decision.job.definition.schedule.kind === "cron") {
      counted += decision.verdict.missed?.count ?? 0;
    }
    decisions.push(decision);
  }
  return decisions;
}

function decideOne(row: CronJobRow, facts: Parameters<typeof evaluateDue>[1]): Decision {
  const job = toJob(row);
  if (!job) return { row, problem: "What the job is cannot be read." };
  try {
    const verdict = evaluateDue(job, facts);
    const { nextRunAtMs, manualAtMs, retryAtMs } = verdict.after;
    const times = [nextRunAtMs, manualAtMs, retryAtMs, dueAtMs(job, verdict.after, facts.nowMs)];
    if (times.every((at) => at === undefined || Number.isSafeInteger(at))) return { row, job, verdict };
    return { row, problem: "The times of the job cannot be computed." };
  } catch (error) {
    return { row, problem: `The job cannot be judged: ${redact(String(error)).slice(0, 200)}.` };
  }
}

interface Written {
  readonly job: Job;
  readonly verdict: DueDecision;
  readonly missed: OccurrenceRow | undefined;
  /** claimed or skipped. */
  readonly occurrence: OccurrenceRow | undefined;
}

/** Undefined: there is nothing to run, or somebody changed the job meanwhile. */
async function write(tx: Tx, decision: Decision, { store }: ClaimRequest): Promise<Written | undefined> {
  if ("problem" in decision) return void (await breakJob(tx, decision.row, decision.problem));
  const { row, job, verdict } = decision;
  const run = verdict.run && (await free(tx, job, verdict.run));
  const isMissNew = verdict.missed !== undefined && (await isFree(tx, job, verdict.missed.fromMs));
  if (!(await advance(tx, { row, job, after: verdict.after, run }))) return undefined;
  return {
    job,
    verdict,
    missed: verdict.missed && isMissNew ? missedRow(tx, job, verdict) : undefined,
    occurrence: run && occurrenceRow(tx, { store, job, run }),
  };
}

/**
 * Undefined for an instant that is on record already, such as one that an edit brought back after the clock was put back:
 * it does not run again. What was asked for moves on by a millisecond.
 */
async function free(tx: Tx, job: Job, run: DueRun): Promise<DueRun | undefined> {
  if (run.cause === "schedule") return (await isFree(tx, job, run.scheduledAtMs)) ? run : undefined;
  let { scheduledAtMs } = run;
  while (await tx.find("occurrences", { job_id: job.id, scheduled_at: scheduledAtMs, cause: run.cause })) {
    scheduledAtMs += 1;
  }
  return { ...run, scheduledAtMs };
}

async function isFree(tx: Tx, { id }: Job, atMs: number): Promise<boolean> {
  const taken = await tx.find("occurrences", { job_id: id, scheduled_at: atMs, cause: "schedule" });
  return taken === undefined;
}

async function advance(
  tx: Tx,
  about: {
    readonly row: CronJobRow;
    readonly job: Job;
    readonly after: Upcoming;
    readonly run: DueRun | undefined;
  },
): Promise<boolean> {
  const { row, job, after, run } = about;
  const begins = run !== undefined && !run.isSkipped;
  const ends = !begins && after.state === "scheduled" && isNothingLeft(after);
  const columns: Partial<CronJobRow> = {
    state: ends ? "completed" : after.state,
    next_run_at: after.nextRunAtMs ?? null,
    manual_at: after.manualAtMs ?? null,
    retry_at: after.retryAtMs ?? null,
    due_at: dueAtMs(job, after, tx.nowMs) ?? null,
    revision: row.revision + 1,
    repeat_done: row.repeat_done + (begins && run.cause === "schedule" ? 1 : 0),
    updated_at: tx.nowMs,
    ...(begins ? { last_run_at: tx.nowMs } : {}),
    ...errorOf(job, after),
  };
  return (await tx.update("cron_jobs", { id: row.id, revision: row.revision }, columns)) === 1;
}

/** Of a schedule that cannot be computed, and of one that can be again. */
function errorOf({ definition, state }: Job, after: Upcoming): Partial<CronJobRow> {
  if (after.state !== "error") return state === "error" ? { last_error: null } : {};
  const text = `No next run of ${formatSchedule(definition.schedule)} in ${definition.zone} can be computed.`;
  return { last_error: `${text} Edit the schedule or the zone; it is tried again every hour.` };
}

const isNothingLeft = ({ nextRunAtMs, manualAtMs, retryAtMs }: Upcoming): boolean =>
  nextRunAtMs === undefined && manualAtMs === undefined && retryAtMs === undefined;

/** How long a process may be silent before others take its claims over. Renewed at a third of it. */
export const CLAIM_MS = 60_000;

/** The row of a run: claimed by this process, or skipped. */
export function occurrenceRow(
  tx: Tx,
  { store, job, run }: { readonly store: Store; readonly job: Job; readonly run: DueRun },
): OccurrenceRow {
  const { cause, scheduledAtMs, timing, isSkipped } = run;
  const how = isSkipped
    ? { status: "skipped", reason: "The run before was still at work.", ended_at: tx.nowMs }
    : {
        status: "claimed",
        lease_owner: store.owner,
        lease_until: tx.nowMs + CLAIM_MS,
        output_file: outputFileName({ atMs: tx.nowMs, zone: job.definition.zone, cause }),
      };
  return { ...newRow(tx, job), scheduled_at: scheduledAtMs, cause, timing, ...how };
}

/** The row that stands for the instants which will not run; undefined when there are none. */
export function missedRow(tx: Tx, job: Job, { missed, run }: DueDecision): OccurrenceRow | undefined {
  if (!missed) return undefined;
  const { fromMs, untilMs, count }: MissedInstants = missed;
  return {
    ...newRow(tx, job),
    scheduled_at: fromMs,
    cause: "schedule",
    timing: "late",
    status: "missed",
    reason: reasonOf(job, run !== undefined),
    covers_until: untilMs,
    covers_count: count,
    ended_at: tx.nowMs,
  };
}

function reasonOf({ definition }: Job, isMadeUpFor: boolean): string {
  const why = "No process was there to run it in time";
  if (isMadeUpFor) return `${why}; the newest one was run.`;
  return definition.schedule.kind === "once" ? `${why}.` : `${why}, and the job is not to catch up.`;
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

/**
 * Tells, in the transaction that notes it, that the one time of a job passed and nobody saw it: those who would be told of
 * a failure, and a file among the outputs.
 */
export async function enqueueMissed(
  tx: Tx,
  store: Store,
  about: {
    readonly job: Job;
    /** The row as it was inserted, `missed`. */
    readonly occurrence: OccurrenceRow;
    readonly telling: Telling;
  },
): Promise<void> {
  const { job, occurrence, telling } = about;
  const { zone } = job.definition;
  const file = occurrence.output_file ?? outputFileName({ atMs: tx.nowMs, zone, cause: "schedule" });
  const plan = planOccurrence({ job, occurrence: { ...occurrence, output_file: file } }, telling);
  const text = missedText(plan);
  const { ref, failureTargets: told } = plan;
  const ending = { status: "failed", text: missedText({ ...plan, wraps: false }) } as const;
  await store.outbox.enqueue(tx, { target: OUTPUT_TARGET, payload: keptOutput(plan, ending), ref });
  for (const target of told) await store.outbox.enqueue(tx, { target, payload: { text, extra: {} }, ref });
  const delivery = told.length > 0 ? "pending" : "none";
  await tx.update("occurrences", { id: ref }, { output_file: file, delivery_status: delivery });
  const noted = { last_status: "missed", last_error: occurrence.reason, last_delivery_error: null };
  await tx.update("cron_jobs", { id: job.id }, { ...noted, last_occurrence: ref });
}
