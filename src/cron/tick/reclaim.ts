import type { Log } from "../../base/observe/log.ts";
import { isUnavailable } from "../../store/tx/failure.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import { CLAIM_MS, type Claimed } from "./claim.ts";
import { toJob, type Job } from "../job/job.ts";
import { listOccurrencesWithoutRun, listOrphans } from "../queries.ts";
import { endOccurrence } from "../run/end-occurrence.ts";
import { planOccurrence, type PlanOptions } from "../run/plan.ts";
import { LATE_MS } from "../schedule/due.ts";

/** Occurrences of one round; the next round finds the rest. */
const BATCH = 200;

export interface ReclaimRequest {
  readonly log: Log;
  readonly planOptions: PlanOptions;
  readonly isMine: (occurrenceId: string) => boolean;
  /** Most occurrences to take over. */
  readonly limit: number;
  /** True: only from processes that are known to be gone, whatever their leases say. */
  readonly onlyDead: boolean;
}

/**
 * Takes over the occurrences without a run of processes that are gone. Those that were only claimed run here; those that
 * had started become `unknown` and are not repeated. The agent recovers runs itself.
 */
export async function reclaim(store: Store, request: ReclaimRequest): Promise<readonly Claimed[]> {
  const reclaimed: Claimed[] = [];
  for (const row of await listOccurrencesWithoutRun(store, BATCH)) {
    const isFull = row.status === "claimed" && reclaimed.length >= request.limit;
    if (request.isMine(row.id) || isFull) continue;
    try {
      const claimed = await reclaimOne(store, row, request);
      if (claimed) reclaimed.push(claimed);
    } catch (error) {
      // What is already reclaimed runs all the same.
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
    const columns = isPaused ? skippedColumns(tx) : claimedColumns(tx, row, store.owner);
    if ((await tx.update("occurrences", unchanged(row), columns)) === 0 || isPaused) return undefined;
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

function unchanged({ id, lease_owner, lease_until }: OccurrenceRow): Partial<OccurrenceRow> {
  return { id, lease_owner, lease_until, run_id: null, ended_at: null };
}

function claimedColumns(tx: Tx, row: OccurrenceRow, owner: string): Partial<OccurrenceRow> {
  const isLate = row.timing === "on_time" && tx.nowMs - row.scheduled_at > LATE_MS;
  // Messages count the delay up to the claim.
  const timing = isLate ? { timing: "late", claimed_at: tx.nowMs } : {};
  return { lease_owner: owner, lease_until: tx.nowMs + CLAIM_MS, ...timing };
}

function skippedColumns(tx: Tx): Partial<OccurrenceRow> {
  const reason = "The job was paused before it started.";
  return { status: "skipped", reason, ended_at: tx.nowMs, lease_owner: null, lease_until: null };
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
  if (!job) return (await tx.update("occurrences", unchanged(occurrence), unknownColumns(tx, LOST))) === 1;
  // Jobs are locked before occurrences, as everywhere.
  await tx.increment("cron_jobs", { id: job.id }, "revision", 0);
  if ((await tx.update("occurrences", unchanged(occurrence), { lease_owner: store.owner })) === 0)
    return false;
  const plan = planOccurrence({ occurrence, job }, planOptions);
  return endOccurrence(tx, store, { plan, ending: { status: "unknown", text: LOST }, isMine: true });
}

function unknownColumns(tx: Tx, reason: string): Partial<OccurrenceRow> {
  const ended = { status: "unknown", reason, ended_at: tx.nowMs, delivery_status: "none" };
  return { ...ended, lease_owner: null, lease_until: null };
}

/**
 * Ends occurrences that are open although their runs have ended or are deleted: they belong to no process, and would keep
 * their jobs from running. Their results are unknown.
 */
export async function endOrphans(
  store: Store,
  { log, planOptions }: Pick<ReclaimRequest, "log" | "planOptions">,
): Promise<void> {
  for (const row of await listOrphans(store, BATCH)) {
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
      await tx.update("occurrences", { id: row.id, ended_at: null }, unknownColumns(tx, ending.text));
    });
  }
}

/** Releases the claims of this process that have not started: other processes take them over at once. */
export async function releaseClaims(tx: Tx, owner: string): Promise<void> {
  const notStarted = { lease_owner: owner, status: "claimed", run_id: null, ended_at: null } as const;
  await tx.update("occurrences", notStarted, { lease_owner: null, lease_until: null });
}
