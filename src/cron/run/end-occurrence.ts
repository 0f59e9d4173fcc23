import type { Store, Tx } from "../../store/store.ts";
import type { CronJobRow, OccurrenceRow, OutboxRow } from "../../store/schema/tables.ts";
import { isSilent, type Ending } from "./ending.ts";
import { toJob } from "../job/job.ts";
import { clip, messageText, type MessageContext } from "./message.ts";
import type { DeliveryStatus } from "../tick/occurrence.ts";
import { keptOutput, OUTPUT_TARGET } from "../output/output.ts";
import type { DeliveryPlan } from "./plan.ts";
import { messagesOf, missedCountAt, type OccurrenceMessage } from "../queries.ts";
import { formatSchedule } from "../schedule/schedule.ts";
import { dueAtMs } from "../schedule/upcoming.ts";

export interface OccurrenceEnd {
  readonly plan: DeliveryPlan;
  readonly ending: Ending;
  /** True: only while this process holds the lease. The end of a run needs none: the run has a lease of its own. */
  readonly isMine?: boolean;
}

/**
 * Ends an occurrence in `tx`: enqueues its output file and its messages, and updates the job. A failure that will be retried
 * is reported after the last attempt. False when the occurrence had ended already, or another process holds it.
 */
export async function endOccurrence(tx: Tx, store: Store, end: OccurrenceEnd): Promise<boolean> {
  const { plan, ending } = end;
  // Locks the job before reading it: the second of two ends builds on the first. Jobs before occurrences, as in claims.
  await tx.increment("cron_jobs", { id: plan.jobId }, "revision", 0);
  const row = await tx.find("cron_jobs", { id: plan.jobId });
  const againAtMs = row && ending.canRetry === true ? againAt(row, plan, tx.nowMs) : undefined;
  const targets = againAtMs === undefined ? notifiedTargets(plan, ending) : [];
  const reason = reasonOf(ending, againAtMs === undefined ? undefined : againAtMs - tx.nowMs);
  const columns = {
    status: ending.status,
    reason,
    ended_at: tx.nowMs,
    lease_owner: null,
    lease_until: null,
    delivery_status: firstDeliveryStatus(plan, ending, targets),
    delivery_error: null,
  };
  const mine = end.isMine === true ? { lease_owner: store.owner } : {};
  if ((await tx.update("occurrences", { id: plan.ref, ended_at: null, ...mine }, columns)) === 0)
    return false;
  await store.outbox.enqueue(tx, { target: OUTPUT_TARGET, payload: keptOutput(plan, ending), ref: plan.ref });
  const failureStreak = streakOf(row, ending, againAtMs);
  if (targets.length > 0) {
    const context = { failureStreak, ...(await missedBefore(tx, plan)) };
    for (const target of targets) {
      const hidesReason = !plan.informedTargets.includes(target);
      const text = messageText(plan, ending, { ...context, hidesReason });
      await store.outbox.enqueue(tx, { target, payload: { text, extra: {} }, ref: plan.ref });
    }
  }
  if (row) await updateJob(tx, row, { plan, ending, reason, failureStreak, againAtMs });
  return true;
}

const MAX_REASON_CHARACTERS = 500;

/** Undefined also when the job has another schedule now, or cannot be read: a retry would be another run. */
function againAt(row: CronJobRow, plan: DeliveryPlan, nowMs: number): number | undefined {
  const { schedule, zone } = toJob(row)?.definition ?? {};
  if (!schedule || formatSchedule(schedule) !== plan.schedule || zone !== plan.zone) return undefined;
  return retryAtMs(row, { plan, nowMs });
}

/** Failures are always delivered; only a success can be silent. */
function notifiedTargets(plan: DeliveryPlan, ending: Ending): readonly string[] {
  if (ending.isQuiet === true || isSilentEnd(plan, ending)) return [];
  return ending.status === "ok" ? plan.targets : plan.failureTargets;
}

function isSilentEnd({ silentMatch }: DeliveryPlan, { status, text, isQuiet }: Ending): boolean {
  return status === "ok" && (isQuiet === true || isSilent(text, silentMatch));
}

function firstDeliveryStatus(plan: DeliveryPlan, ending: Ending, targets: readonly string[]): DeliveryStatus {
  if (targets.length > 0) return "pending";
  return isSilentEnd(plan, ending) ? "silent" : "none";
}

function reasonOf({ status, text }: Ending, waitMs: number | undefined): string | null {
  if (status === "ok") return null;
  const again = waitMs === undefined ? "" : ` It is retried in ${Math.round(waitMs / 60_000)} minutes.`;
  return `${clip(text, MAX_REASON_CHARACTERS - again.length)}${again}`;
}

function streakOf(row: CronJobRow | undefined, { status }: Ending, againAtMs: number | undefined): number {
  if (status === "ok") return 0;
  // All attempts at one instant count as one failure.
  return (row?.failure_streak ?? 0) + (againAtMs === undefined ? 1 : 0);
}

/** The claim of a run that catches up recorded what it replaces. */
async function missedBefore(tx: Tx, { jobId, atMs, timing }: DeliveryPlan): Promise<MessageContext> {
  const missedCount = timing === "catch_up" ? await missedCountAt(tx, jobId, atMs) : undefined;
  return missedCount === undefined ? {} : { missedCount };
}

/** Only a change that affects later runs is a new revision, so that it seldom conflicts with other changes of the job. */
async function updateJob(
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
    ...retryColumns(row, againAtMs, tx.nowMs),
  };
  if (againAtMs === undefined && (await isFinished(tx, row))) {
    Object.assign(columns, { state: "completed", revision: row.revision + 1 });
  }
  await tx.update("cron_jobs", { id: plan.jobId }, columns);
}

const LAST = { ok: "ok", failed: "error", unknown: "unknown" } as const;

/** A manual run between two retries does not change their count. */
function retriesOf(row: CronJobRow, plan: DeliveryPlan, againAtMs: number | undefined): number {
  if (againAtMs !== undefined) return retryAfterMs(row, plan).retries;
  return row.retry_at === null ? 0 : row.retries;
}

function retryColumns(row: CronJobRow, againAtMs: number | undefined, nowMs: number): Partial<CronJobRow> {
  const job = againAtMs === undefined ? undefined : toJob({ ...row, retry_at: againAtMs });
  if (!job) return {};
  return {
    retry_at: againAtMs ?? null,
    due_at: dueAtMs(job, job, nowMs) ?? null,
    revision: row.revision + 1,
  };
}

/** Whether the job has no instant left and no open occurrence. */
async function isFinished(tx: Tx, row: CronJobRow): Promise<boolean> {
  const upcoming = [row.next_run_at, row.retry_at, row.manual_at];
  if (row.state !== "scheduled" || upcoming.some((at) => at !== null)) return false;
  const open: Partial<OccurrenceRow> = { job_id: row.id, ended_at: null };
  return (await tx.find("occurrences", open)) === undefined;
}

const RETRY_DELAYS_MS = [300_000, 900_000, 1_800_000] as const;

/** Returns how long to wait after the failure of `plan`, and the number of the retry, from 1. Undefined after the last. */
export function retryAfterMs(
  { retries }: Pick<CronJobRow, "retries">,
  { cause }: Pick<DeliveryPlan, "cause">,
): { readonly waitMs: number | undefined; readonly retries: number } {
  const done = cause === "retry" ? retries : 0;
  return { waitMs: RETRY_DELAYS_MS[done], retries: done + 1 };
}

/**
 * Returns when a run that never reached a model is retried; undefined when it is not. A manual run is not retried because a
 * person sees its failure, a one-shot had its instant, and a retry never comes after the next instant.
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
 * Updates the delivery status of an occurrence, and of its job while that shows this occurrence, after one of its messages
 * was sent, given up, dropped or requeued. A failed delivery does not repeat the run, and is not a failure of the run.
 */
export async function closeSettledOccurrence(tx: Tx, { ref }: Pick<OutboxRow, "ref">): Promise<void> {
  if (!ref?.startsWith("occ_")) return;
  // Locks the row before reading it: its messages may end at once in several processes.
  if ((await tx.increment("occurrences", { id: ref }, "covers_count", 0)) === undefined) return;
  const row = await tx.find("occurrences", { id: ref });
  if (!row) return;
  const { status, error } = deliveryOf(await messagesOf(tx, ref));
  const columns = { delivery_status: status ?? row.delivery_status, delivery_error: error };
  await tx.update("occurrences", { id: ref }, columns);
  // The job keeps the columns of its newest occurrence. A failed run stays failed, however its message ends.
  const mine = { id: row.job_id, last_occurrence: ref };
  await tx.update("cron_jobs", mine, { last_delivery_error: error });
  const [from, to] = error === null ? ["delivery_failed", "ok"] : ["ok", "delivery_failed"];
  await tx.update("cron_jobs", { ...mine, last_status: from }, { last_status: to });
}

interface Delivery {
  /** Undefined when no message goes to people: the occurrence has the reason. */
  readonly status: DeliveryStatus | undefined;
  /** What did not arrive, or may not have. */
  readonly error: string | null;
}

const PENDING: ReadonlySet<string> = new Set(["due", "leased"]);
const LOST: ReadonlySet<string> = new Set(["dead", "dropped"]);
const MAX_DELIVERY_ERROR_CHARACTERS = 500;

function deliveryOf(messages: readonly OccurrenceMessage[]): Delivery {
  const toPeople = messages.filter(({ target }) => target !== OUTPUT_TARGET);
  const lost = messages.filter(({ status }) => LOST.has(status));
  const uncertain = messages.filter(({ status }) => status === "unknown");
  const all = [...lost, ...uncertain].map(errorOf).join(" ");
  const error = all === "" ? null : clip(all, MAX_DELIVERY_ERROR_CHARACTERS);
  if (toPeople.length === 0) return { status: undefined, error };
  if (toPeople.some(({ status }) => PENDING.has(status))) return { status: "pending", error };
  if (lost.length > 0) return { status: "failed", error };
  // Only a confirmed message counts as delivered.
  return { status: uncertain.length > 0 ? "unknown" : "delivered", error };
}

/** The last error of a dropped message is not why it ended. */
function errorOf({ target, status, last_error: error }: OccurrenceMessage): string {
  return `${target}: ${status === "dropped" ? "It was dropped." : (error ?? "It was given up.")}`;
}
