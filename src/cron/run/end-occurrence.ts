import { firstIdAt } from "../../base/ids.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow, OccurrenceRow, OutboxRow } from "../../store/schema/tables.ts";
import { type Ending, isSilent } from "./ending.ts";
import { toJob } from "../job/job.ts";
import { clip, messageText, type Around } from "./message.ts";
import type { DeliveryStatus } from "../tick/occurrence.ts";
import { keptOutput, OUTPUT_TARGET } from "../output/output.ts";
import type { DeliveryPlan } from "./plan.ts";
import { formatSchedule } from "../schedule/schedule.ts";
import { dueAtMs } from "../schedule/upcoming.ts";

export interface OccurrenceEnd {
  readonly plan: DeliveryPlan;
  readonly ending: Ending;
  /** True: only while its lease is this process's. A run's end needs no lease: the run has one of its own. */
  readonly isMine?: boolean;
}

/**
 * Ends an occurrence in `tx`: its output is owed to its file and its text to those who are to be told, and the job keeps
 * what came of it. A failure that is tried again is told when the last try has failed. False when it had ended already,
 * or is not this process's any more.
 */
export async function endOccurrence(tx: Tx, store: Store, end: OccurrenceEnd): Promise<boolean> {
  const { plan, ending } = end;
  // Locked before it is read: of two ends at once the second builds on the first. Jobs before occurrences, as claims do.
  await tx.increment("cron_jobs", { id: plan.jobId }, "revision", 0);
  const row = await tx.find("cron_jobs", { id: plan.jobId });
  const againAtMs = row && ending.canRetry === true ? againAt(row, plan, tx.nowMs) : undefined;
  const told = againAtMs === undefined ? toldTargets(plan, ending) : [];
  const reason = reasonOf(ending, againAtMs === undefined ? undefined : againAtMs - tx.nowMs);
  const columns = {
    status: ending.status,
    reason,
    ended_at: tx.nowMs,
    lease_owner: null,
    lease_until: null,
    delivery_status: deliveryStatusOf(plan, ending, told),
    delivery_error: null,
  };
  const mine = end.isMine === true ? { lease_owner: store.owner } : {};
  if ((await tx.update("occurrences", { id: plan.ref, ended_at: null, ...mine }, columns)) === 0)
    return false;
  await store.outbox.enqueue(tx, { target: OUTPUT_TARGET, payload: keptOutput(plan, ending), ref: plan.ref });
  const failureStreak = streakOf(row, ending, againAtMs);
  if (told.length > 0) {
    const jobContext = { failureStreak, ...(await missedBefore(tx, plan)) };
    for (const target of told) {
      const hidesReason = !plan.informedTargets.includes(target);
      const text = messageText(plan, ending, { ...jobContext, hidesReason });
      await store.outbox.enqueue(tx, { target, payload: { text, extra: {} }, ref: plan.ref });
    }
  }
  if (row) await noteEnd(tx, row, { plan, ending, reason, failureStreak, againAtMs });
  return true;
}

const MAX_REASON_CHARACTERS = 500;

/** Undefined, too, for a job that has another schedule by now, or cannot be read: it would not be the same run again. */
function againAt(row: CronJobRow, plan: DeliveryPlan, nowMs: number): number | undefined {
  const { schedule, zone } = toJob(row)?.definition ?? {};
  if (!schedule || formatSchedule(schedule) !== plan.schedule || zone !== plan.zone) return undefined;
  return retryAtMs(row, { plan, nowMs });
}

/** Silence is for what went well: failures are told. */
function toldTargets(plan: DeliveryPlan, ending: Ending): readonly string[] {
  if (ending.isQuiet === true || isSilentEnd(plan, ending)) return [];
  return ending.status === "ok" ? plan.targets : plan.failureTargets;
}

function isSilentEnd({ silentMatch }: DeliveryPlan, { status, text, isQuiet }: Ending): boolean {
  return status === "ok" && (isQuiet === true || isSilent(text, silentMatch));
}

function deliveryStatusOf(plan: DeliveryPlan, ending: Ending, told: readonly string[]): DeliveryStatus {
  if (told.length > 0) return "pending";
  return isSilentEnd(plan, ending) ? "silent" : "none";
}

function reasonOf({ status, text }: Ending, waitMs: number | undefined): string | null {
  if (status === "ok") return null;
  const again = waitMs === undefined ? "" : ` It is tried again in ${Math.round(waitMs / 60_000)} minutes.`;
  return `${clip(text, MAX_REASON_CHARACTERS - again.length)}${again}`;
}

function streakOf(row: CronJobRow | undefined, { status }: Ending, againAtMs: number | undefined): number {
  if (status === "ok") return 0;
  // Tries at one instant are one failure.
  return (row?.failure_streak ?? 0) + (againAtMs === undefined ? 1 : 0);
}

/** What a run that catches up makes up for was written down with its claim. */
async function missedBefore(tx: Tx, { jobId, atMs, timing }: DeliveryPlan): Promise<Around> {
  if (timing !== "catch_up") return {};
  const missed = await tx.db
    .selectFrom("occurrences")
    .select("covers_count")
    .where("job_id", "=", jobId)
    .where("id", ">=", firstIdAt("occ", atMs))
    .where("status", "=", "missed")
    .where("claimed_at", "=", atMs)
    .executeTakeFirst();
  return missed ? { missedCount: missed.covers_count } : {};
}

/** Only what decides about later runs is a new revision, so that other changes of the job are seldom in the way. */
async function noteEnd(
  tx: Tx,
  row: CronJobRow,
  end: OccurrenceEnd & {
    readonly reason: string | null;
    readonly failureStreak: number;
    readonly againAtMs: number | undefined;
  },
): Promise<void> {
  const { plan, ending, reason, failureStreak, againAtMs } = end;
  const columns: Partial<CronJobRow> = {
    last_status: ending.lastStatus ?? LAST[ending.status],
    last_error: reason,
    last_delivery_error: null,
    last_occurrence: plan.ref,
    failure_streak: failureStreak,
    retries: retriesOf(row, plan, againAtMs),
    updated_at: tx.nowMs,
    ...upcomingColumns(row, againAtMs, tx.nowMs),
  };
  if (againAtMs === undefined && (await isFinished(tx, row))) {
    Object.assign(columns, { state: "completed", revision: row.revision + 1 });
  }
  await tx.update("cron_jobs", { id: plan.jobId }, columns);
}

const LAST = { ok: "ok", failed: "error", unknown: "unknown" } as const;

/** A run by hand in between changes nothing of a line of tries. */
function retriesOf(row: CronJobRow, plan: DeliveryPlan, againAtMs: number | undefined): number {
  if (againAtMs !== undefined) return retryAfterMs(row, plan).retries;
  return row.retry_at === null ? 0 : row.retries;
}

function upcomingColumns(row: CronJobRow, againAtMs: number | undefined, nowMs: number): Partial<CronJobRow> {
  const job = againAtMs === undefined ? undefined : toJob({ ...row, retry_at: againAtMs });
  if (!job) return {};
  return {
    retry_at: againAtMs ?? null,
    due_at: dueAtMs(job, job, nowMs) ?? null,
    revision: row.revision + 1,
  };
}

/** Nothing is left to run, and nothing of it runs. */
async function isFinished(tx: Tx, row: CronJobRow): Promise<boolean> {
  const upcoming = [row.next_run_at, row.retry_at, row.manual_at];
  if (row.state !== "scheduled" || upcoming.some((at) => at !== null)) return false;
  const open: Partial<OccurrenceRow> = { job_id: row.id, ended_at: null };
  return (await tx.find("occurrences", open)) === undefined;
}

const DELAYS_MS = [300_000, 900_000, 1_800_000] as const;

/** How long to wait after the failure of `plan`, undefined after the last one; and which try comes then, 1 for the first. */
export function retryAfterMs(
  { retries }: Pick<CronJobRow, "retries">,
  { cause }: Pick<DeliveryPlan, "cause">,
): { readonly waitMs: number | undefined; readonly retries: number } {
  const done = cause === "retry" ? retries : 0;
  return { waitMs: DELAYS_MS[done], retries: done + 1 };
}

/**
 * When the job runs again, undefined when it does not: who asked by hand sees the failure and asks again, a job that runs
 * once had its time, and at its next time a job runs anyhow.
 */
export function retryAtMs(
  row: Pick<CronJobRow, "state" | "retries" | "retry_at" | "next_run_at">,
  { plan, nowMs }: { readonly plan: Pick<DeliveryPlan, "cause" | "isOnce">; readonly nowMs: number },
): number | undefined {
  if (plan.isOnce || plan.cause === "manual" || row.state !== "scheduled") return undefined;
  const { waitMs } = retryAfterMs(row, plan);
  if (waitMs === undefined || row.retry_at !== null) return undefined;
  const atMs = nowMs + waitMs;
  return row.next_run_at === null || atMs < row.next_run_at ? atMs : undefined;
}

/**
 * Notes in an occurrence, and in its job while that tells of it, how what was owed for it stands: after each message that
 * was sent, given up, dropped, or is to be sent again. A run is never repeated for it, and counts as no failure.
 */
export async function closeSettledOccurrence(tx: Tx, { ref }: Pick<OutboxRow, "ref">): Promise<void> {
  if (!ref?.startsWith("occ_")) return;
  // Locked before it is read: its messages may end at once, in several processes.
  if ((await tx.increment("occurrences", { id: ref }, "covers_count", 0)) === undefined) return;
  const row = await tx.find("occurrences", { id: ref });
  if (!row) return;
  const messages = await tx.db
    .selectFrom("outbox")
    .select(["target", "status", "last_error"])
    .where("ref", "=", ref)
    .orderBy("id")
    .execute();
  const { status, error } = standOf(messages);
  const columns = { delivery_status: status ?? row.delivery_status, delivery_error: error };
  await tx.update("occurrences", { id: ref }, columns);
  await noteInJob(tx, row, { status, error });
}

type Message = Pick<OutboxRow, "target" | "status" | "last_error">;

interface Stand {
  /** Undefined where people are owed nothing: the occurrence says why. */
  readonly status: DeliveryStatus | undefined;
  /** What did not arrive, or may not have. */
  readonly error: string | null;
}

const OWED: ReadonlySet<string> = new Set(["due", "leased"]);
const LOST: ReadonlySet<string> = new Set(["dead", "dropped"]);

function standOf(messages: readonly Message[]): Stand {
  const told = messages.filter(({ target }) => target !== OUTPUT_TARGET);
  const lost = messages.filter(({ status }) => LOST.has(status));
  const doubtful = messages.filter(({ status }) => status === "unknown");
  const all = [...lost, ...doubtful].map(errorOf).join(" ");
  const error = all === "" ? null : clip(all, MAX_DELIVERY_ERROR_CHARACTERS);
  if (told.length === 0) return { status: undefined, error };
  if (told.some(({ status }) => OWED.has(status))) return { status: "pending", error };
  if (lost.length > 0) return { status: "failed", error };
  // Only what a platform confirmed has been delivered.
  return { status: doubtful.length > 0 ? "unknown" : "delivered", error };
}

const MAX_DELIVERY_ERROR_CHARACTERS = 500;

/** What a dropped one said last is not why it ended. */
function errorOf({ target, status, last_error: error }: Message): string {
  return `${target}: ${status === "dropped" ? "It was dropped." : (error ?? "It was given up.")}`;
}

/** A newer end of the job has columns of its own to tell of; a run that failed stays one, whatever became of its message. */
async function noteInJob(tx: Tx, { id, job_id: jobId }: OccurrenceRow, { error }: Stand): Promise<void> {
  const mine = { id: jobId, last_occurrence: id };
  await tx.update("cron_jobs", mine, { last_delivery_error: error });
  const [from, to] = error === null ? ["delivery_failed", "ok"] : ["ok", "delivery_failed"];
  await tx.update("cron_jobs", { ...mine, last_status: from }, { last_status: to });
}
