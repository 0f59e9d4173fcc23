import type { Log } from "../../base/observe.ts";
import { isUnavailable } from "../../store/tx/group.ts";
import { leaseFor, UNLEASED } from "../../store/tx/tx.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import { CLAIM_MS, type Claimed } from "./claim.ts";
import { changeOccurrence, toJob, type Job } from "../job/job.ts";
import { endOccurrence } from "../run/end.ts";
import { planOccurrence, type PlanOptions } from "../run/result.ts";
import { LATE_MS } from "../schedule/due.ts";

/** Occurrences of one round; the next round finds the rest. */
export const RECLAIM_BATCH = 200;

export interface ReclaimRequest {
  readonly log: Log;
  readonly planOptions: PlanOptions;
  /** Most occurrences to take over. */
  readonly limit: number;
  /** True: only from processes that are known to be gone, whatever their leases say. */
  readonly onlyDead: boolean;
}

/**
 * Takes over those of `open`, open occurrences without a run, whose processes are gone. Those that were only claimed run
 * here; those that had started become `unknown` and are not repeated. The agent recovers runs itself.
 */
export async function reclaim(
  store: Store,
  open: readonly OccurrenceRow[],
  request: ReclaimRequest,
): Promise<readonly Claimed[]> {
  const reclaimed: Claimed[] = [];
  for (const row of open) {
    if (row.status === "claimed" && reclaimed.length >= request.limit) continue;
    try {
      const claimed = await reclaimOne(store, row, request);
      if (claimed) reclaimed.push(claimed);
    } catch (error) {
      // Jobs that are already reclaimed run nevertheless.
      const fields = { job: row.job_id, occurrence: row.id, error };
      request.log.error("cannot take over an occurrence; trying again", fields);
      if (isUnavailable(error)) break;
    }
  }
  return reclaimed;
}

async function reclaimOne(
  store: Store,
  row: OccurrenceRow,
  { log, planOptions, onlyDead }: ReclaimRequest,
): Promise<Claimed | undefined> {
  const isDead = row.lease_owner === null || store.ownerIsDead(row.lease_owner);
  if (!isDead && onlyDead) return undefined;
  const fields = { job: row.job_id, occurrence: row.id };
  return store.write(async (tx) => {
    if (!isDead && !(await hasExpired(tx, row))) return undefined;
    const found = await tx.find("cron_jobs", { id: row.job_id });
    const job = found && toJob(found);
    if (row.status === "running" || !job) {
      if (await endLost(tx, store, { occurrence: row, job, planOptions })) {
        tx.afterCommit(() => log.warn("the result of a job is unknown: its process is gone", fields));
      }
      return undefined;
    }
    const isPaused = job.state === "paused" && row.cause !== "manual";
    if (isPaused) return void (await changeOccurrence(tx, unchanged(row), skippedColumns(tx)));
    const columns = claimedColumns(tx, row, store.owner);
    if ((await tx.update("occurrences", unchanged(row), columns)) === 0) return undefined;
    tx.afterCommit(() => log.info("took over a job whose process is gone", fields));
    return { occurrence: { ...row, ...columns }, job };
  });
}

/** A lease longer than any comes from before the clock was set back: it is shortened to the usual time from now. */
async function hasExpired(tx: Tx, row: OccurrenceRow): Promise<boolean> {
  const untilMs = row.lease_until ?? 0;
  const longestMs = tx.nowMs + CLAIM_MS;
  if (untilMs > longestMs) await tx.update("occurrences", unchanged(row), { lease_until: longestMs });
  return untilMs <= tx.nowMs;
}

function unchanged({ id, lease_owner, lease_until }: OccurrenceRow) {
  return { id, lease_owner, lease_until, run_id: null, ended_at: null };
}

function claimedColumns(tx: Tx, row: OccurrenceRow, owner: string): Partial<OccurrenceRow> {
  const isLate = row.timing === "on_time" && tx.nowMs - row.scheduled_at > LATE_MS;
  // Messages count the delay up to the claim.
  const timing = isLate ? { timing: "late", claimed_at: tx.nowMs } : {};
  return { ...leaseFor(tx, owner, CLAIM_MS), ...timing };
}

function skippedColumns(tx: Tx): Partial<OccurrenceRow> {
  const reason = "The job was paused before it started.";
  return { status: "skipped", reason, ended_at: tx.nowMs, ...UNLEASED };
}

const LOST = "The process that ran its script is gone.";

/**
 * Ends an occurrence that had started without a run when its process died: its result is unknown, and people are notified.
 * Without its job only the record remains. False when another process has taken it over or ended it.
 */
export async function endLost(
  tx: Tx,
  store: Store,
  {
    occurrence,
    job,
    planOptions,
  }: {
    readonly occurrence: OccurrenceRow;
    readonly job: Job | undefined;
    readonly planOptions: PlanOptions;
  },
): Promise<boolean> {
  if (!job) return changeOccurrence(tx, unchanged(occurrence), unknownColumns(tx, LOST));
  // Jobs are locked before occurrences, as everywhere.
  await tx.increment("cron_jobs", { id: job.id }, "lock_version", 0);
  if ((await tx.update("occurrences", unchanged(occurrence), { lease_owner: store.owner })) === 0)
    return false;
  const plan = planOccurrence({ occurrence, job }, planOptions);
  return endOccurrence(tx, store, { plan, ending: { status: "unknown", text: LOST }, isMine: true });
}

function unknownColumns(tx: Tx, reason: string): Partial<OccurrenceRow> {
  const ended = { status: "unknown", reason, ended_at: tx.nowMs, delivery_status: "none" };
  return { ...ended, ...UNLEASED };
}

/**
 * Ends `orphans`, occurrences that are open although their runs have ended or are deleted: they belong to no process, and
 * would keep their jobs from running. Their results are unknown.
 */
export async function endOrphans(
  store: Store,
  orphans: readonly OccurrenceRow[],
  { log, planOptions }: Pick<ReclaimRequest, "log" | "planOptions">,
): Promise<void> {
  for (const row of orphans) {
    log.error("an occurrence was still open after its run", { job: row.job_id, occurrence: row.id });
    await store.write(async (tx) => {
      const found = await tx.find("cron_jobs", { id: row.job_id });
      const job = found && toJob(found);
      const ending = { status: "unknown", text: "The end of its run was not recorded." } as const;
      if (job) {
        const plan = planOccurrence({ occurrence: row, job }, planOptions);
        await endOccurrence(tx, store, { plan, ending });
        return;
      }
      await changeOccurrence(tx, { id: row.id, ended_at: null }, unknownColumns(tx, ending.text));
    });
  }
}

/** Releases the claims of this process that have not started: other processes take them over at once. */
export async function releaseClaims(tx: Tx, owner: string): Promise<void> {
  const notStarted = { lease_owner: owner, status: "claimed", run_id: null, ended_at: null } as const;
  await tx.update("occurrences", notStarted, UNLEASED);
}
